"""Whether a version of a schema can be read into a table that holds what the version before it brought.

Avro, Protobuf and JSON Schema say the same few things of a field, so one comparison serves all three. The table is the
reader, as the earlier version is in Avro's rules: what the new version adds is fine; what it no longer tells, or tells
in another way, may not be. A registry's own judgement would not do: it is by the level that the subject has been given,
which may be none at all, and by default asks whether new readers can read what is old.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakesmith.intake.differences import LIST, MAP, STRUCT, above, shallow, spelt
from lakesmith.intake.shapes import STRING, wider
from lakesmith.intake.values import (
    FIRST,
    AvroWriter,
    JsonWriter,
    ProtobufWriter,
    Writer,
    avro_type,
    is_map,
    message_at,
    parsed_avro,
    single_type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a schema says of a field."""

    type: pa.DataType | None
    """As a column has it, without what is in it; None when the schema leaves it open."""
    may_lack: bool = False
    """A record may be without a value."""
    needed: bool = False
    """Who reads by this schema has nothing to put in its place."""
    symbols: frozenset[str] | None = None
    """Of an enum, what can come."""
    takes_others: bool = False
    """Who reads an enum by this schema knows what to do with another symbol."""
    branches: frozenset[str] = frozenset()
    """Of a union, the names of what can come; else the one name."""
    one_of: str | None = None
    """The group of fields of which a record has one."""


Fields = Mapping[str, Said]
"""By path: `place.city`, `lines[].sku`, `tags{}`."""


def fields_of(writer: Writer, *, envelope: bool = False) -> Fields:
    """What a schema says of the fields of a row; of those in an envelope, where there is one."""
    match writer:
        case AvroWriter():
            found = dict(_avro_fields(writer))
        case ProtobufWriter():
            message = message_at(writer, FIRST)
            found = {} if message is None else dict(_message_fields("", message, frozenset()))
        case JsonWriter():
            found = _JsonSchema(writer).fields()
    return _row_fields(found) if envelope else found


def breaks(
    now: Fields, before: Fields | None, columns: Mapping[str, pa.DataType], required: Collection[str]
) -> list[str]:
    """What keeps records of a new version from being read into the columns as records of the earlier one were.

    `columns` are the table's by path; `required` are those of which each row has to have a value.
    """
    held = {path.lower(): type for path, type in columns.items()}
    there = {path.lower(): said for path, said in now.items()}
    was = {path.lower(): said for path, said in (before or {}).items()}
    lines: list[str] = []
    for path, said in now.items():
        lines += _field_breaks(path, said, was.get(path.lower()), held.get(path.lower()))
    for path, said in (before or {}).items():
        around = above(path.lower()) or ""
        # Where a whole has become something else, its parts are not told of besides.
        is_whole = around not in was or (around in there and there[around].type == was[around].type)
        if path.lower() not in there and said.needed and is_whole:
            lines.append(f"- {path}{_of(said.type)}, which its readers need")
    for name in required:
        told = before is not None and (name.lower() not in was or was[name.lower()].needed)
        if now and name.lower() not in there and not told:
            lines.append(f"- {name}, which is required")
    return lines


def _field_breaks(path: str, said: Said, earlier: Said | None, held: pa.DataType | None) -> Iterator[str]:
    reader = held if held is not None else earlier.type if earlier else None
    if (earlier is None or earlier.type != said.type) and not _fits(reader, said.type, known=earlier is not None):
        yield f"~ {path}{_of(reader)} →{_of(said.type)}"
    if earlier is None:
        return
    if said.may_lack and not earlier.may_lack:
        yield f"~ {path} may be without a value"
    if new := _new_choices(said, earlier):
        yield f"~ {path} may be {', '.join(sorted(new))}"
    if said.one_of != earlier.one_of:
        yield f"~ {path} is one of {said.one_of}" if said.one_of else f"~ {path} is no longer one of {earlier.one_of}"


def _new_choices(said: Said, earlier: Said) -> frozenset[str]:
    """Symbols and branches that the earlier version does not have, though it lists all that can come."""
    new: frozenset[str] = frozenset()
    if earlier.symbols is not None and not earlier.takes_others and said.type == earlier.type:
        new = frozenset({"anything"}) if said.symbols is None else said.symbols - earlier.symbols
    if len(earlier.branches) > 1:
        new |= {name for name in said.branches if not earlier.branches & {name, *_PROMOTED.get(name, ())}}
    return new


_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
    "integer": ("number",),
}
"""By name, what Avro and JSON Schema read a value as besides."""


def _fits(reader: pa.DataType | None, found: pa.DataType | None, *, known: bool) -> bool:
    """Whether values of the one type have a place in a column of the other; True where nothing says what they are."""
    is_ = pa.types
    if reader is None or found is None:
        return True
    if is_.is_string(reader):
        return not is_.is_binary(found)
    if is_.is_string(found) and not known:
        # Text is how many write these: each row is held to it.
        return bool(is_.is_decimal(reader) or is_.is_date(reader) or is_.is_timestamp(reader))
    return bool(wider(reader, found) == reader)


def _of(type: pa.DataType | None) -> str:
    return "" if type is None else f" {spelt(type)}"


def _row_fields(envelope: Fields) -> Fields:
    for side in ("after", "before"):
        if (told := envelope.get(side)) and told.type == STRUCT:
            return {path[len(side) + 1 :]: said for path, said in envelope.items() if path.startswith(f"{side}.")}
    return {}


def _avro_fields(writer: AvroWriter) -> Iterator[tuple[str, Said]]:
    schema, named = parsed_avro(writer)
    if isinstance(schema, dict) and schema.get("type") == "record":
        yield from _avro_record("", schema, named, frozenset())
    else:
        yield from _avro_part("value", schema, named, frozenset(), needed=True)


def _avro_record(
    path: str, schema: Any, named: Mapping[str, Any], inside: frozenset[str]
) -> Iterator[tuple[str, Said]]:
    for field in schema["fields"]:
        name = f"{path}.{field['name']}" if path else field["name"]
        needed = "default" not in field
        yield from _avro_part(name, field["type"], named, inside | {schema["name"]}, needed=needed)


def _avro_part(
    path: str, schema: Any, named: Mapping[str, Any], inside: frozenset[str], *, needed: bool = False
) -> Iterator[tuple[str, Said]]:
    branches = schema if isinstance(schema, list) else [schema]
    some = [branch for branch in branches if _avro_name(branch) != "null"]
    type = avro_type(schema, named, inside)
    only = some[0] if len(some) == 1 else None
    if isinstance(only, str) and only in named and only not in inside:
        only = named[only]
    kind = only.get("type") if isinstance(only, dict) else None
    enum = only if isinstance(only, dict) and kind == "enum" else None
    yield (
        path,
        Said(
            type=shallow(type),
            may_lack=len(some) < len(branches),
            needed=needed,
            symbols=frozenset(enum["symbols"]) if enum else None,
            takes_others=enum is not None and "default" in enum,
            branches=frozenset(map(_avro_name, some)),
        ),
    )
    if not isinstance(only, dict):
        return
    if kind == "record" and only["name"] not in inside:
        yield from _avro_record(path, only, named, inside)
    elif kind == "array":
        yield from _avro_part(f"{path}[]", only["items"], named, inside)
    elif kind == "map":
        yield from _avro_part(f"{path}{{}}", only["values"], named, inside)


def _avro_name(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name") or schema.get("logicalType") or schema["type"])
    return str(schema)


def _message_fields(path: str, message: Any, inside: frozenset[str]) -> Iterator[tuple[str, Said]]:
    for field in message.fields:
        yield from _message_field(f"{path}.{field.name}" if path else field.name, field, inside | {message.full_name})


def _message_field(path: str, field: Any, inside: frozenset[str]) -> Iterator[tuple[str, Said]]:
    group = field.containing_oneof
    # What is only `optional` is in a group of its own, which the compiler makes up.
    one_of = group.name if group is not None and not (len(group.fields) == 1 and group.name.startswith("_")) else None
    if is_map(field):
        yield path, Said(type=MAP)
        yield from _message_part(f"{path}{{}}", field.message_type.fields_by_name["value"], inside, Said(type=None))
    elif field.is_repeated:
        yield path, Said(type=LIST)
        yield from _message_part(f"{path}[]", field, inside, Said(type=None))
    else:
        may_lack = field.has_presence and not field.is_required
        said = Said(type=None, may_lack=may_lack, needed=field.is_required, one_of=one_of)
        yield from _message_part(path, field, inside, said)


def _message_part(path: str, field: Any, inside: frozenset[str], said: Said) -> Iterator[tuple[str, Said]]:
    type = shallow(single_type(field, inside))
    if (enum := field.enum_type) is not None:
        symbols = frozenset(value.name for value in enum.values)
        said = replace(said, symbols=symbols, takes_others=not enum.is_closed)
    yield path, replace(said, type=type)
    if type == STRUCT:
        yield from _message_fields(path, field.message_type, inside)


_JSON = {"integer": pa.int64(), "number": pa.float64(), "string": STRING, "boolean": pa.bool_()}
_JSON |= {"object": STRUCT, "array": LIST}


class _JsonSchema:
    """A JSON Schema, as far as it tells what a column would hold."""

    def __init__(self, writer: JsonWriter) -> None:
        self._root: Any = json.loads(writer.text) if writer.text else {}
        self._others = {name: json.loads(text) for name, text in writer.imports}

    def fields(self) -> dict[str, Said]:
        return dict(self._object("", self._whole(self._root), frozenset({"#"})))

    def _object(self, path: str, schema: Mapping[str, Any], inside: frozenset[str]) -> Iterator[tuple[str, Said]]:
        needed = schema.get("required") or ()
        for name, field in (schema.get("properties") or {}).items():
            yield from self._part(f"{path}.{name}" if path else name, field, inside, there=name in needed)

    def _part(self, path: str, schema: Any, inside: frozenset[str], *, there: bool) -> Iterator[tuple[str, Said]]:
        refers = _references(schema)
        if refers & inside:
            # What is within itself has no end that could be compared.
            yield path, Said(type=None, may_lack=not there, needed=there)
            return
        whole = self._whole(schema)
        branches = [self._whole(each) for each in whole.get("oneOf") or whole.get("anyOf") or ()] or [whole]
        kinds = [kind for each in branches for kind in _json_kinds(each)]
        some = [each for each in branches if _json_kinds(each) != ["null"]]
        yield (
            path,
            Said(
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
        """The schema with what it refers to, and with what all of its parts say."""
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
    """What a schema refers to before it comes to a field."""
    if not isinstance(schema, dict):
        return frozenset()
    parts = [part for word in ("allOf", "oneOf", "anyOf") for part in schema.get(word) or ()]
    own = frozenset({str(schema["$ref"])} if "$ref" in schema else ())
    return own.union(*map(_references, parts))


def _json_kinds(schema: Mapping[str, Any]) -> list[str]:
    told = schema.get("type")
    if told is None and "properties" in schema:
        return ["object"]
    return [told] if isinstance(told, str) else list(told or ())


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
