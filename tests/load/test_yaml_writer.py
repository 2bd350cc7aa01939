"""Declarations are written as YAML and read back unchanged."""

from __future__ import annotations

from decimal import Decimal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesmith.load.yaml_writer import yaml_block, yaml_document, yaml_flow, yaml_table, yaml_word

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda text: "${" not in text)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(values)
def test_a_value_is_read_back_unchanged(value: object) -> None:
    assert yaml.safe_load(f"key: {yaml_flow(value)}") == {"key": value}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("EUR", "EUR"),
        ("5%", "5%"),
        ("two words", "two words"),
        ("", '""'),
        ("5", '"5"'),
        ("no", '"no"'),
        ("a: b", '"a: b"'),
        (r"^\d+$", r"'^\d+$'"),
        ('it\'s "quoted"', "'it''s \"quoted\"'"),
        ("a\n\\b", '"a\\n\\\\b"'),
        ("${name}", '"$${name}"'),
        (r"\*/", r'"\\*/"'),
    ],
)
def test_a_text_is_quoted_only_if_necessary(text: str, written: str) -> None:
    assert yaml_word(text) == written


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), values, max_size=4))
def test_a_document_is_read_back_unchanged(document: dict[str, object]) -> None:
    assert yaml.safe_load(yaml_document(document)) == document


def test_a_document_has_a_line_for_each_value() -> None:
    document = {"a": [{"b": "${c}", "d": []}, ["e", 1]], "f": {"g": None}}
    assert yaml_document(document).splitlines() == [
        "a:",
        '  - b: "${c}"',
        "    d: []",
        "  - - e",
        "    - 1",
        "f:",
        "  g: null",
    ]


def test_numbers_are_written_exactly() -> None:
    assert yaml_flow([Decimal("1E+3"), 1e-7, Decimal("0.10")]) == "[1000, 0.0000001, 0.10]"


def test_a_block_has_a_line_for_each_item_below_its_comment() -> None:
    columns = {"id": {"type": "bigint"}, "at": {"type": "date", "required": True}}
    assert yaml_block("columns", columns, {"at": "of the order\n"}) == [
        "columns:",
        "  id: bigint",
        "  # of the order�",
        "  at: {type: date, required: true}",
    ]
    assert yaml_table({"description": "Orders", "columns": {}}) == "description: Orders\ncolumns:\n"
