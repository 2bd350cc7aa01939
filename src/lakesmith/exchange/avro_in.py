"""An Avro schema that others wrote, in the types that its values have in Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesmith.exchange.types import Exact, ListOf, MapOf, Plain, Record, SparkType

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
    """The fields of a record schema, in their order; None when it is another kind of schema."""
    try:
        schema = json.loads(text)
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            return None
        reading = _Reading()
        reading.type(schema, "")
        space = _space(schema, "")
        return {
            str(each["name"]): AvroField(type=reading.type(each["type"], space), nullable=_is_nullable(each["type"]))
            for each in schema["fields"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _space(schema: Mapping[str, Any], around: str) -> str:
    """The namespace of a named type, which is that of what is inside."""
    name = str(schema.get("name", ""))
    return name.rpartition(".")[0] if "." in name else str(schema.get("namespace", around))


def _is_nullable(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One pass, which remembers the types that have names."""

    named: dict[str, SparkType] = field(default_factory=dict)

    def type(self, schema: Any, space: str) -> SparkType:
        match schema:
            case str() if schema in _PRIMITIVES:
                return Plain(_PRIMITIVES[schema])
            case str():
                full = schema if "." in schema else f"{space}.{schema}"
                return self.named.get(full) or self.named[schema]
            case list():
                branches = [self.type(each, space) for each in schema if each != "null"]
                if len(branches) == 1:
                    return branches[0]
                return Plain("union")
            case Mapping():
                return self._made(schema, space)
            case _:
                raise ValueError(schema)

    def _made(self, schema: Mapping[str, Any], space: str) -> SparkType:
        kind, logical = schema["type"], schema.get("logicalType")
        inside = _space(schema, space)
        found: SparkType
        if logical == "decimal":
            found = Exact(int(schema["precision"]), int(schema.get("scale", 0)))
        elif logical in _LOGICAL:
            found = Plain(_LOGICAL[logical])
        elif kind == "record":
            # A record that holds itself has no type in Spark; its name stands for it.
            self._name(schema, inside, Plain("recursive"))
            fields = tuple((str(each["name"]), self.type(each["type"], inside)) for each in schema["fields"])
            found = Record(fields)
        elif kind == "array":
            found = ListOf(self.type(schema["items"], space))
            if logical == "map" and isinstance(found.item, Record):
                (_, key), (_, value) = found.item.fields
                found = MapOf(key, value)
        elif kind == "map":
            found = MapOf(Plain("string"), self.type(schema["values"], space))
        elif kind in ("enum", "fixed"):
            found = Plain("string" if kind == "enum" else "binary")
        else:
            found = self.type(kind, space)
        if "name" in schema:
            self._name(schema, inside, found)
        return found

    def _name(self, schema: Mapping[str, Any], space: str, type: SparkType) -> None:
        name = str(schema["name"]).rpartition(".")[2]
        self.named[f"{space}.{name}" if space else name] = type
