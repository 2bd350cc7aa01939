"""New schema versions are compared with the previous version and the table's columns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.servers.registry import Apicurio

from lakesmith.intake.avro_values import AvroSchema
from lakesmith.intake.differences import flat
from lakesmith.intake.evolution import Fields, breaking_changes, fields_of
from lakesmith.intake.protobuf_values import compile_protobuf
from lakesmith.intake.shapes import schema_of
from lakesmith.intake.values import JsonSchema


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def within(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Within", "fields": list(fields)}


def avro(*fields: dict[str, Any]) -> Fields:
    return fields_of(AvroSchema(json.dumps({"type": "record", "name": "A", "fields": list(fields)})))


def protobuf(text: str) -> Fields:
    return fields_of(compile_protobuf(f'syntax = "proto3"; {text}'))


def schema(required: tuple[str, ...] = (), **properties: Any) -> Fields:
    lines = {"type": "object", "properties": properties, "required": list(required)}
    return fields_of(JsonSchema(json.dumps(lines)))


ID = field("id", "long")
NODE = within(field("next", ["null", "Within"]), field("n", "int"))


AVRO: list[tuple[list[Any], list[Any], list[str]]] = [
    ([ID], [ID, field("new", "string")], []),
    ([ID, field("a", "int", default=0)], [ID], []),
    ([field("a", "long")], [field("a", "int")], []),
    ([field("a", ["null", "long"])], [field("a", "long")], []),
    ([field("a", enum("X", "Y"))], [field("a", enum("X"))], []),
    ([field("a", enum("X", default="X"))], [field("a", enum("X", "Y"))], []),
    ([field("a", ["string", "long"])], [field("a", "int")], []),
    ([field("a", "long")], [field("a", "string")], ["~ a bigint → string"]),
    ([field("a", "int")], [field("a", "long")], ["~ a int → bigint"]),
    ([field("a", "long")], [field("a", ["null", "long"])], ["~ a may be missing"]),
    ([ID, field("a", "int")], [ID], ["- a int, which readers need"]),
    ([field("a", enum("X"))], [field("a", enum("X", "Y"))], ["~ a may be Y"]),
    ([field("a", enum("X"))], [field("a", "string")], ["~ a may be anything"]),
    ([field("a", ["string", "long"])], [field("a", ["string", "boolean"])], ["~ a may be boolean"]),
    ([field("a", within(ID))], [field("a", within(field("id", "string")))], ["~ a.id bigint → string"]),
    ([field("a", within(ID))], [field("a", "string")], ["~ a struct → string"]),
    (
        [field("a", {"type": "array", "items": enum("X")})],
        [field("a", {"type": "array", "items": enum("Y")})],
        ["~ a[] may be Y"],
    ),
    (
        [field("a", {"type": "map", "values": "int"})],
        [field("a", {"type": "map", "values": "string"})],
        ["~ a{} int → string"],
    ),
    ([field("a", NODE)], [field("a", within(*NODE["fields"], ID))], []),
]


@pytest.mark.parametrize(("old", "new", "lines"), AVRO)
def test_an_avro_version_is_compared_with_the_previous_one(old: list[Any], new: list[Any], lines: list[str]) -> None:
    assert breaking_changes(avro(*new), avro(*old), {}, ()) == lines


@pytest.mark.servers
def test_a_forward_compatible_registry_compares_avro_equally(registry: Apicurio) -> None:
    for number, (old, new, lines) in enumerate(AVRO):
        subject = f"evolution-{number}"
        texts = [json.dumps({"type": "record", "name": "A", "fields": fields}) for fields in (old, new)]
        registry.register(subject, texts[0])
        registry.ask("PUT", f"/config/{subject}", {"compatibility": "FORWARD"})
        answer = registry.ask("POST", f"/compatibility/subjects/{subject}/versions/1", {"schema": texts[1]})
        assert answer["is_compatible"] == (not lines), (old, new, lines)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("int64 a = 1;", "int64 a = 1; M m = 2;", []),
        ("int64 a = 1; string b = 2;", "int64 a = 1;", []),
        ("E e = 1;", "F e = 1;", []),
        ("int64 a = 1;", "string a = 1;", ["~ a bigint → string"]),
        ("string a = 1;", "oneof x { string a = 1; int64 b = 2; }", ["~ a may be missing", "~ a is one of x"]),
        ("oneof x { string a = 1; int64 b = 2; }", "string a = 1; int64 b = 2;", None),
        ("repeated int64 a = 1;", "repeated string a = 1;", ["~ a[] bigint → string"]),
        ("map<string, int64> a = 1;", "map<string, bool> a = 1;", ["~ a{} bigint → boolean"]),
        ("int64 a = 1;", "repeated int64 a = 1;", ["~ a bigint → array"]),
    ],
)
def test_a_protobuf_version_is_compared_with_the_previous_one(old: str, new: str, lines: list[str] | None) -> None:
    more = "message M { M again = 1; string s = 2; } enum E { X = 0; } enum F { X2 = 0; Y2 = 1; }"
    before, now = (protobuf(f"message A {{ {side} }} {more}") for side in (old, new))
    expected = ["~ a is no longer one of x", "~ b is no longer one of x"] if lines is None else lines
    assert breaking_changes(now, before, {}, ()) == expected


def test_a_json_schema_version_is_compared_with_the_previous_one() -> None:
    old = schema(
        ("id", "kind"), id={"type": "integer"}, kind={"enum": ["a"]}, to={"properties": {"n": {"type": "string"}}}
    )
    new = schema(("id",), id={"type": ["string", "null"]}, kind={"enum": ["a", "b"]}, to={"type": "array"})
    assert breaking_changes(new, old, {}, ()) == [
        "~ id bigint → string",
        "~ id may be missing",
        "~ kind may be missing",
        "~ kind may be b",
        "~ to struct → array",
    ]
    assert breaking_changes(schema(("id",), id={"type": "integer"}, more={"type": "string"}), old, {}, ()) == [
        "- kind, which readers need"
    ]


def test_references_in_a_json_schema_are_resolved_to_fields() -> None:
    node = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#/definitions/b"}}}
    b = {"allOf": [{"$ref": "other.json"}, {"properties": {"up": {"$ref": "#/definitions/b"}}}]}
    other = {"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "required": ["n"]}
    found = fields_of(JsonSchema(json.dumps({**node, "definitions": {"b": b}}), (("other.json", json.dumps(other)),)))
    assert {*found} == {"left", "right", "right.n", "right.up"}
    assert (found["right.n"].needed, found["right.n"].may_lack, str(found["right.n"].type)) == (True, True, "int64")


def test_the_columns_of_the_table_decide_which_versions_fit() -> None:
    old, new = avro(field("a", "int"), field("b", "int")), avro(field("a", "long"), field("b", "string"))
    columns = flat(schema_of({"A": "bigint", "b": "string"}))
    assert breaking_changes(new, old, columns, ()) == []
    assert breaking_changes(new, old, flat(schema_of({"a": "int", "b": "int"})), ()) == [
        "~ a int → bigint",
        "~ b int → string",
    ]


def test_without_an_earlier_version_only_the_columns_are_compared() -> None:
    new = avro(field("id", "string"), field("day", "string"), field("raw", "bytes"), field("more", "long"))
    columns = flat(schema_of({"id": "bigint", "day": "date", "raw": "string", "amount": "int"}))
    assert breaking_changes(new, None, columns, ()) == ["~ id bigint → string", "~ raw string → binary"]


def test_a_field_of_a_required_column_cannot_be_removed() -> None:
    old, new = avro(ID, field("a", ["null", "int"], default=None)), avro(ID)
    assert breaking_changes(new, old, {}, ("A", "id", "never_there")) == ["- A, which is required"]
    assert breaking_changes(new, None, {}, ("a",)) == ["- a, which is required"]


def test_the_rows_in_an_envelope_are_compared() -> None:
    def envelope(*fields: dict[str, Any]) -> Fields:
        text = json.dumps({"type": "record", "name": "E", "fields": [field("after", ["null", within(*fields)]), ID]})
        return fields_of(AvroSchema(text), envelope=True)

    assert breaking_changes(envelope(field("id", "string")), envelope(ID), {}, ()) == ["~ id bigint → string"]
