"""Read a foreign Avro schema as Spark types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesmith.declare.spark_type import ArrayType, DecimalType, MapType, SimpleType, SparkType, StructType

_PRIMITIVES = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "timestamp-nanos": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-nanos": "timestamp_ntz",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """A field of a record."""

    type: SparkType
    nullable: bool


def avro_fields(text: str) -> dict[str, AvroField] | None:
    """Return the fields of a record schema in order, or None for another kind of schema."""
    try:
        schema = json.loads(text)
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            return None
        record = _SchemaReader().type(schema, "")
        if not isinstance(record, StructType):
            return None
        nullable = [_is_nullable(each["type"]) for each in schema["fields"]]
        pairs = zip(record.fields, nullable, strict=True)
        return {name: AvroField(type=type, nullable=is_nullable) for (name, type), is_nullable in pairs}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _space(schema: Mapping[str, Any], around: str) -> str:
    """Return the namespace of a named type, which its nested types inherit."""
    name = str(schema.get("name", ""))
    return name.rpartition(".")[0] if "." in name else str(schema.get("namespace", around))


def _is_nullable(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


@dataclass(frozen=True, slots=True)
class _SchemaReader:
    """Reads one schema and remembers its named types."""

    named: dict[str, SparkType] = field(default_factory=dict)

    def type(self, schema: Any, space: str) -> SparkType:
        match schema:
            case str() if schema in _PRIMITIVES:
                return SimpleType(_PRIMITIVES[schema])
            case str():
                full = schema if "." in schema else f"{space}.{schema}"
                return self.named.get(full) or self.named[schema]
            case list():
                branches = [self.type(each, space) for each in schema if each != "null"]
                return branches[0] if len(branches) == 1 else SimpleType("union")
            case Mapping():
                return self._complex(schema, space)
            case _:
                raise ValueError(schema)

    def _complex(self, schema: Mapping[str, Any], space: str) -> SparkType:
        word, logical = schema["type"], schema.get("logicalType")
        inside = _space(schema, space)
        type: SparkType
        if logical == "decimal":
            type = DecimalType(int(schema["precision"]), int(schema.get("scale", 0)))
        elif logical in _LOGICAL:
            type = SimpleType(_LOGICAL[logical])
        elif word == "record":
            # Spark has no recursive types, so a name stands for a record in itself.
            self._name(schema, inside, SimpleType("recursive"))
            fields = tuple((str(each["name"]), self.type(each["type"], inside)) for each in schema["fields"])
            type = StructType(fields)
        elif word == "array":
            type = ArrayType(self.type(schema["items"], space))
            if logical == "map" and isinstance(type.element, StructType):
                (_, key), (_, value) = type.element.fields
                type = MapType(key, value)
        elif word == "map":
            type = MapType(SimpleType("string"), self.type(schema["values"], space))
        elif word in ("enum", "fixed"):
            type = SimpleType("string" if word == "enum" else "binary")
        else:
            type = self.type(word, space)
        if "name" in schema:
            self._name(schema, inside, type)
        return type

    def _name(self, schema: Mapping[str, Any], space: str, type: SparkType) -> None:
        name = str(schema["name"]).rpartition(".")[2]
        self.named[f"{space}.{name}" if space else name] = type
