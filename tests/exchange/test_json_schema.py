"""The JSON Schema of a table: which rows are valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.exchange.tables import HEAD, RULES, loaded, with_checks

from lakesmith.exchange.json_schema import json_schema

TABLE = (
    HEAD
    + """
contract: strict
columns:
  id: {type: bigint, key: true}
  email: {type: string, deprecated: use id, description: Who}
  amount: decimal(12,2)
  day: date
  kind: {type: string, required: true}
  place: "struct<city:string,tags:array<int>>"
  extra: "map<string,boolean>"
  anything: {}
checks:
  known: {in: {column: email, values: [a, bb, cccc]}}
  kinds: {in: {column: kind, values: [x, y]}}
  some: {range: {column: amount, min: 0.5, max: 10}}
  more: {range: {column: amount, min: 1}}
  short: {length: {column: email, max: 3}}
  letters: {pattern: {column: kind, matches: "^[a-z]+$"}}
  java: {pattern: {column: kind, matches: "\\\\p{Alpha}++"}}
  only_warned: {range: {column: id, min: 5}, on_fail: warn}
  sometimes: {range: {column: id, min: 5}, where: "kind = 'x'"}
  asked: {required: [day]}
"""
)


def validator(folder: Path, text: str = TABLE) -> Any:
    schema = json_schema(loaded(folder, text))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


FINE = {"id": 1, "kind": "x", "day": "2026-01-01"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"email": None, "amount": None, "place": None, "extra": None},
        {"email": "a", "amount": 1.5, "anything": [1]},
        {"place": {"city": "x", "tags": [1, None]}, "extra": {"a": True, "b": None}},
    ],
)
def test_a_row_that_matches_the_contract_is_valid(more: dict[str, object], tmp_path: Path) -> None:
    assert list(validator(tmp_path).iter_errors(FINE | more)) == []


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"id": None}, "type"),
        ({"id": "1"}, "type"),
        ({"kind": "z"}, "enum"),
        ({"kind": None}, "type"),
        ({"day": None}, "type"),
        ({"email": "cccc"}, "maxLength"),
        ({"email": "b"}, "enum"),
        ({"amount": 0.25}, "minimum"),
        ({"amount": 0.75}, "minimum"),
        ({"amount": 11}, "maximum"),
        ({"place": {"city": 1}}, "type"),
        ({"place": {"town": "x"}}, "additionalProperties"),
        ({"place": {"tags": ["x"]}}, "type"),
        ({"extra": {"a": 1}}, "type"),
        ({"other": 1}, "additionalProperties"),
    ],
)
def test_a_row_that_breaks_the_contract_is_invalid(more: dict[str, object], rule: str, tmp_path: Path) -> None:
    assert rule in {error.validator for error in validator(tmp_path).iter_errors(FINE | more)}


def test_required_fields_must_be_present(tmp_path: Path) -> None:
    assert [error.message for error in validator(tmp_path).iter_errors({"id": 1, "kind": "x"})] == [
        "'day' is a required property"
    ]


def test_other_fields_are_valid_unless_the_contract_is_strict(tmp_path: Path) -> None:
    text = TABLE.replace("strict", "additive")
    assert list(validator(tmp_path, text).iter_errors(FINE | {"other": 1, "place": {"town": "x"}})) == []


def test_java_only_regular_expressions_are_omitted(tmp_path: Path) -> None:
    assert json_schema(loaded(tmp_path, TABLE))["properties"]["kind"]["pattern"] == "^[a-z]+$"


def test_every_kind_of_check_can_be_exported(tmp_path: Path) -> None:
    validator(tmp_path, with_checks(*RULES))
