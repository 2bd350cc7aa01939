"""Whether records of a new schema version can be read into a table that was loaded with the earlier version.

Avro, Protobuf and JSON Schema describe fields alike, so one comparison serves all three. The table is the reader, as
the earlier version is in Avro's rules: additions are compatible; removed or changed fields may not be. The registry's
own check is no substitute: it depends on the subject's compatibility level, which may be none, and which by default
checks whether new readers can read old records.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakesmith.intake.avro_values import AvroSchema, avro_type, parse_avro
from lakesmith.intake.differences import LIST, MAP, STRUCT, outer_type, parent_path, type_name
from lakesmith.intake.protobuf_values import FIRST, ProtobufSchema, is_map, message_at, single_type
from lakesmith.intake.shapes import STRING, wider
from lakesmith.intake.values import JsonSchema, WriterSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """A field of a schema."""

    type: pa.DataType | None
    """The column type without its parts; None when the schema does not define it."""
    may_lack: bool = False
    """Whether the value may be missing or null."""
    needed: bool = False
    """Whether readers need it: the schema has no default."""
    symbols: frozenset[str] | None = None
    """For an enum, its symbols."""
    open_enum: bool = False
    """Whether readers of the enum accept other symbols."""
    branches: frozenset[str] = frozenset()
    """For a union, the names of its branches; otherwise the one type name."""
    one_of: str | None = None
    """The `oneof` group of the field."""


Fields = Mapping[str, SchemaField]
"""By path: `place.city`, `lines[].sku`, `tags{}`."""


def fields_of(writer: WriterSchema, *, envelope: bool = False) -> Fields:
    """Return the fields of a row by a schema; with `envelope`, of the row inside the envelope."""
    match writer:
        case AvroSchema():
            fields = dict(_avro_fields(writer))
        case ProtobufSchema():
            message = message_at(writer, FIRST)
            fields = {} if message is None else dict(_message_fields("", message, frozenset()))
        case JsonSchema():
            fields = _JsonFields(writer).fields()
    return _row_fields(fields) if envelope else fields


def breaking_changes(
    now: Fields, before: Fields | None, columns: Mapping[str, pa.DataType], required: Collection[str]
) -> list[str]:
    """Return the changes that prevent records of a new version from being read into the columns.

    `columns` are the table's by path; `required` columns must not be NULL.
    """
    stored = {path.lower(): type for path, type in columns.items()}
    new = {path.lower(): info for path, info in now.items()}
    old = {path.lower(): info for path, info in (before or {}).items()}
    lines: list[str] = []
    for path, info in now.items():
        lines += _field_breaks(path, info, old.get(path.lower()), stored.get(path.lower()))
    for path, info in (before or {}).items():
        parent = parent_path(path.lower()) or ""
        # Where a nested field has changed its type, its parts get no line of their own.
        is_whole = parent not in old or (parent in new and new[parent].type == old[parent].type)
        if path.lower() not in new and info.needed and is_whole:
            lines.append(f"- {path}{_of(info.type)}, which readers need")
    for name in required:
        reported = before is not None and (name.lower() not in old or old[name.lower()].needed)
        if now and name.lower() not in new and not reported:
            lines.append(f"- {name}, which is required")
    return lines


def _field_breaks(
    path: str, info: SchemaField, earlier: SchemaField | None, stored: pa.DataType | None
) -> Iterator[str]:
    reader = stored if stored is not None else earlier.type if earlier else None
    if (earlier is None or earlier.type != info.type) and not _fits(reader, info.type, known=earlier is not None):
        yield f"~ {path}{_of(reader)} →{_of(info.type)}"
    if earlier is None:
        return
    if info.may_lack and not earlier.may_lack:
        yield f"~ {path} may be missing"
    if new := _new_choices(info, earlier):
        yield f"~ {path} may be {', '.join(sorted(new))}"
    if info.one_of != earlier.one_of:
        yield f"~ {path} is one of {info.one_of}" if info.one_of else f"~ {path} is no longer one of {earlier.one_of}"


def _new_choices(info: SchemaField, earlier: SchemaField) -> frozenset[str]:
    """Return symbols and branches that the earlier version, which lists all, does not have."""
    new: frozenset[str] = frozenset()
    if earlier.symbols is not None and not earlier.open_enum and info.type == earlier.type:
        new = frozenset({"anything"}) if info.symbols is None else info.symbols - earlier.symbols
    if len(earlier.branches) > 1:
        new |= {name for name in info.branches if not earlier.branches & {name, *_PROMOTED.get(name, ())}}
    return new


_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
    "integer": ("number",),
}
"""By type name, the types that Avro and JSON Schema promote it to."""


def _fits(reader: pa.DataType | None, found: pa.DataType | None, *, known: bool) -> bool:
    """Whether values of a type fit a column of another; True where a type is undefined."""
    is_ = pa.types
    if reader is None or found is None:
        return True
    if is_.is_string(reader):
        return not is_.is_binary(found)
    if is_.is_string(found) and not known:
        # Many producers write these as text: each row is checked.
        return bool(is_.is_decimal(reader) or is_.is_date(reader) or is_.is_timestamp(reader))
    return bool(wider(reader, found) == reader)


def _of(type: pa.DataType | None) -> str:
    return "" if type is None else f" {type_name(type)}"


def _row_fields(envelope: Fields) -> Fields:
    for side in ("after", "before"):
        if (row := envelope.get(side)) and row.type == STRUCT:
            return {path[len(side) + 1 :]: info for path, info in envelope.items() if path.startswith(f"{side}.")}
    return {}


def _avro_fields(writer: AvroSchema) -> Iterator[tuple[str, SchemaField]]:
    schema, named = parse_avro(writer)
    if isinstance(schema, dict) and schema.get("type") == "record":
        yield from _avro_record("", schema, named, frozenset())
    else:
        yield from _avro_part("value", schema, named, frozenset(), needed=True)


def _avro_record(
    path: str, schema: Any, named: Mapping[str, Any], inside: frozenset[str]
) -> Iterator[tuple[str, SchemaField]]:
    for field in schema["fields"]:
        name = f"{path}.{field['name']}" if path else field["name"]
        needed = "default" not in field
        yield from _avro_part(name, field["type"], named, inside | {schema["name"]}, needed=needed)


def _avro_part(
    path: str, schema: Any, named: Mapping[str, Any], inside: frozenset[str], *, needed: bool = False
) -> Iterator[tuple[str, SchemaField]]:
    branches = schema if isinstance(schema, list) else [schema]
    filled = [branch for branch in branches if _avro_name(branch) != "null"]
    type = avro_type(schema, named, inside)
    only = filled[0] if len(filled) == 1 else None
    if isinstance(only, str) and only in named and only not in inside:
        only = named[only]
    word = only.get("type") if isinstance(only, dict) else None
    enum = only if isinstance(only, dict) and word == "enum" else None
    yield (
        path,
        SchemaField(
            type=outer_type(type),
            may_lack=len(filled) < len(branches),
            needed=needed,
            symbols=frozenset(enum["symbols"]) if enum else None,
            open_enum=enum is not None and "default" in enum,
            branches=frozenset(map(_avro_name, filled)),
        ),
    )
    if not isinstance(only, dict):
        return
    if word == "record" and only["name"] not in inside:
        yield from _avro_record(path, only, named, inside)
    elif word == "array":
        yield from _avro_part(f"{path}[]", only["items"], named, inside)
    elif word == "map":
        yield from _avro_part(f"{path}{{}}", only["values"], named, inside)


def _avro_name(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name") or schema.get("logicalType") or schema["type"])
    return str(schema)


def _message_fields(path: str, message: Any, inside: frozenset[str]) -> Iterator[tuple[str, SchemaField]]:
    for field in message.fields:
        yield from _message_field(f"{path}.{field.name}" if path else field.name, field, inside | {message.full_name})


def _message_field(path: str, field: Any, inside: frozenset[str]) -> Iterator[tuple[str, SchemaField]]:
    group = field.containing_oneof
    # The compiler puts each `optional` field into a synthetic group.
    one_of = group.name if group is not None and not (len(group.fields) == 1 and group.name.startswith("_")) else None
    if is_map(field):
        yield path, SchemaField(type=MAP)
        yield from _message_part(
            f"{path}{{}}", field.message_type.fields_by_name["value"], inside, SchemaField(type=None)
        )
    elif field.is_repeated:
        yield path, SchemaField(type=LIST)
        yield from _message_part(f"{path}[]", field, inside, SchemaField(type=None))
    else:
        may_lack = field.has_presence and not field.is_required
        info = SchemaField(type=None, may_lack=may_lack, needed=field.is_required, one_of=one_of)
        yield from _message_part(path, field, inside, info)


def _message_part(
    path: str, field: Any, inside: frozenset[str], info: SchemaField
) -> Iterator[tuple[str, SchemaField]]:
    type = outer_type(single_type(field, inside))
    if (enum := field.enum_type) is not None:
        symbols = frozenset(value.name for value in enum.values)
        info = replace(info, symbols=symbols, open_enum=not enum.is_closed)
    yield path, replace(info, type=type)
    if type == STRUCT:
        yield from _message_fields(path, field.message_type, inside)


_JSON = {"integer": pa.int64(), "number": pa.float64(), "string": STRING, "boolean": pa.bool_()}
_JSON |= {"object": STRUCT, "array": LIST}


class _JsonFields:
    """The fields of a JSON Schema, as far as it defines columns."""

    def __init__(self, writer: JsonSchema) -> None:
        self._root: Any = json.loads(writer.text) if writer.text else {}
        self._others = {name: json.loads(text) for name, text in writer.imports}

    def fields(self) -> dict[str, SchemaField]:
        return dict(self._object("", self._whole(self._root), frozenset({"#"})))

    def _object(
        self, path: str, schema: Mapping[str, Any], inside: frozenset[str]
    ) -> Iterator[tuple[str, SchemaField]]:
        needed = schema.get("required") or ()
        for name, field in (schema.get("properties") or {}).items():
            yield from self._part(f"{path}.{name}" if path else name, field, inside, there=name in needed)

    def _part(
        self, path: str, schema: Any, inside: frozenset[str], *, there: bool
    ) -> Iterator[tuple[str, SchemaField]]:
        refers = _references(schema)
        if refers & inside:
            # Recursive schemas cannot be compared completely.
            yield path, SchemaField(type=None, may_lack=not there, needed=there)
            return
        whole = self._whole(schema)
        branches = [self._whole(each) for each in whole.get("oneOf") or whole.get("anyOf") or ()] or [whole]
        kinds = [kind for each in branches for kind in _json_kinds(each)]
        some = [each for each in branches if _json_kinds(each) != ["null"]]
        yield (
            path,
            SchemaField(
                type=_json_type(kinds),
                may_lack="null" in kinds or not there,
                needed=there,
                symbols=_json_symbols(some[0]) if len(some) == 1 else None,
                branches=frozenset(map(_json_branch, some)),
            ),
        )
        if len(some) == 1 and "object" in kinds:
            yield from self._object(path, some[0], inside | refers)
        elif len(some) == 1 and "array" in kinds and "items" in some[0]:
            yield from self._part(f"{path}[]", some[0]["items"], inside | refers, there=True)

    def _whole(self, schema: Any, above: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return the schema with its references and `allOf` parts merged in."""
        if not isinstance(schema, dict) or (reference := schema.get("$ref")) in above:
            return {}
        parts = [*(schema.get("allOf") or ()), *([self._referred(reference)] if reference else [])]
        made = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
        for part in parts:
            whole = self._whole(part, above | {reference} if reference else above)
            properties = {**whole.get("properties", {}), **made.get("properties", {})}
            required = [*whole.get("required", ()), *made.get("required", ())]
            made = {**whole, **made, "properties": properties, "required": required}
            if not properties:
                del made["properties"]
        return made

    def _referred(self, reference: str) -> Any:
        name, _, pointer = reference.partition("#")
        found: Any = self._others.get(name) if name else self._root
        for step in filter(None, pointer.split("/")):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found


def _references(schema: Any) -> frozenset[str]:
    """Return the `$ref`s of a schema and of its combined parts."""
    if not isinstance(schema, dict):
        return frozenset()
    parts = [part for word in ("allOf", "oneOf", "anyOf") for part in schema.get(word) or ()]
    own = frozenset({str(schema["$ref"])} if "$ref" in schema else ())
    return own.union(*map(_references, parts))


def _json_kinds(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if kinds is None and "properties" in schema:
        return ["object"]
    return [kinds] if isinstance(kinds, str) else list(kinds or ())


def _json_type(kinds: Sequence[str]) -> pa.DataType | None:
    types = {_JSON.get(kind) for kind in kinds if kind != "null"}
    if types == {_JSON["integer"], _JSON["number"]}:
        return _JSON["number"]
    if len(types) < 2:
        return next(iter(types), None)
    return None if None in types else STRING


def _json_symbols(schema: Mapping[str, Any]) -> frozenset[str] | None:
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if listed is None:
        return None
    return frozenset(each if isinstance(each, str) else json.dumps(each) for each in listed if each is not None)


def _json_branch(schema: Mapping[str, Any]) -> str:
    return str(schema.get("title") or schema.get("type") or json.dumps(schema, sort_keys=True))
