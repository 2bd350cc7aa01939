"""A text with a number becomes the same number in every format and code path, or is rescued."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from xml.sax.saxutils import escape

import pytest
from tests.intake.reading import as_records, read

from lakesmith.columns import RESCUED
from lakesmith.intake import csv_text, json_text
from lakesmith.intake.rows import Target, fit_rows
from lakesmith.intake.shapes import schema_of

Answer = object
"""The value of the column; `RESCUED` where it is NULL and the text is rescued."""
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMERIC = ("int", "bigint", "float", "double", "decimal(5,2)")

ANSWERS: Mapping[str, tuple[Answer, Answer, Answer, Answer, Answer]] = {
    # text: int, bigint, float, double, decimal(5,2)
    "7": (7, 7, 7.0, 7.0, Decimal("7.00")),
    "-7": (-7, -7, -7.0, -7.0, Decimal("-7.00")),
    "0": (0, 0, 0.0, 0.0, Decimal("0.00")),
    "-0": (0, 0, -0.0, -0.0, Decimal("0.00")),
    "+7": (7, 7, 7.0, 7.0, Decimal("7.00")),
    " 7 ": (7, 7, 7.0, 7.0, Decimal("7.00")),
    "007": (7, 7, 7.0, 7.0, Decimal("7.00")),
    "1e2": (RESCUED, RESCUED, 100.0, 100.0, Decimal("100.00")),
    "1E+2": (RESCUED, RESCUED, 100.0, 100.0, Decimal("100.00")),
    "7.0": (RESCUED, RESCUED, 7.0, 7.0, Decimal("7.00")),
    "1.5": (RESCUED, RESCUED, 1.5, 1.5, Decimal("1.50")),
    ".5": (RESCUED, RESCUED, 0.5, 0.5, Decimal("0.50")),
    "5.": (RESCUED, RESCUED, 5.0, 5.0, Decimal("5.00")),
    "12.345": (RESCUED, RESCUED, 12.345000267028809, 12.345, RESCUED),
    "12.340": (RESCUED, RESCUED, 12.34000015258789, 12.34, Decimal("12.34")),
    "1000": (1000, 1000, 1000.0, 1000.0, RESCUED),
    "1e9999": (RESCUED,) * 5,
    "16777217": (16777217, 16777217, RESCUED, 16777217.0, RESCUED),
    "2147483648": (RESCUED, 2147483648, 2147483648.0, 2147483648.0, RESCUED),
    "9007199254740993": (RESCUED, 9007199254740993, RESCUED, RESCUED, RESCUED),
    "9223372036854775808": (RESCUED, RESCUED, 2.0**63, 2.0**63, RESCUED),
    "1" * 500: (RESCUED,) * 5,
    "": (RESCUED,) * 5,
    " ": (RESCUED,) * 5,
    "seven": (RESCUED,) * 5,
    "7 apples": (RESCUED,) * 5,
    "7 8": (RESCUED,) * 5,
    "1,5": (RESCUED,) * 5,
    "1_000": (RESCUED,) * 5,
    "0x1F": (RESCUED,) * 5,
    "--7": (RESCUED,) * 5,
    "1e": (RESCUED,) * 5,
    "NaN": (RESCUED,) * 5,
    "Infinity": (RESCUED,) * 5,
    "true": (RESCUED,) * 5,
    "١": (RESCUED,) * 5,
}


def _answer(rows: list[dict[str, object]]) -> Answer:
    (row,) = rows
    assert (row["x"] is None) == (row[RESCUED] is not None)
    return RESCUED if row["x"] is None else row["x"]


def _target(type: str, *, text: bool) -> Target:
    return Target(schema=schema_of({"x": type}), text=text, surveyed=True)


def _json(raw: bytes, type: str) -> Answer:
    (batch,) = json_text.rows(as_records([raw]), _target(type, text=False))
    assert batch.to_pylist() == fit_rows([json_text.parse(raw)], [raw], _target(type, text=False)).to_pylist()
    return _answer(batch.to_pylist())


def _quoted_in_json(text: str, type: str) -> Answer:
    return _json(json.dumps({"x": text}, ensure_ascii=False).encode(), type)


def _csv(text: str, type: str) -> Answer:
    raw, header = f'"{text}"'.encode(), csv_text.Header(("x",), ",")
    (batch,) = csv_text.rows(as_records([raw]), header, _target(type, text=True))
    assert batch.to_pylist() == fit_rows([csv_text.parse(raw, header)], [raw], _target(type, text=True)).to_pylist()
    return _answer(batch.to_pylist())


def _xml(text: str, type: str) -> Answer:
    found = read(f'<r><row x="{escape(text)}"/></r>'.encode(), {"_x": type}, format="xml", row_tag="row")
    return _answer([{"x": row["_x"], RESCUED: row[RESCUED]} for row in found.every[:-1]])


def _folder(text: str, type: str) -> Answer:
    found = read(b'{"y": 1}\n', {"x": type, "y": "bigint"}, path=f"in/x={text}/file.json")
    return _answer(found.every[:-1])


@pytest.mark.parametrize("read_as", [_quoted_in_json, _csv, _xml, _folder])
@pytest.mark.parametrize("text", ANSWERS)
def test_one_rule_decides_which_texts_are_numbers(text: str, read_as: Callable[[str, str], Answer]) -> None:
    found = tuple(read_as(text, type) for type in _NUMERIC)
    assert list(map(repr, found)) == list(map(repr, ANSWERS[text]))


@pytest.mark.parametrize("text", [text for text in ANSWERS if _JSON_NUMBER.fullmatch(text)])
def test_quotes_around_a_json_number_change_nothing(text: str) -> None:
    found = tuple(_json(f'{{"x": {text}}}'.encode(), type) for type in _NUMERIC)
    assert list(map(repr, found)) == list(map(repr, ANSWERS[text]))


def test_a_block_with_texts_and_numbers_equals_its_single_rows() -> None:
    """Arrow reads quoted decimals in a block, but no other quoted number. Both paths must agree."""
    raws = [json.dumps({"x": text}).encode() for text in ANSWERS] * 20
    for type in _NUMERIC:
        target = _target(type, text=False)
        rows = [row for batch in json_text.rows(as_records(raws), target) for row in batch.to_pylist()]
        alone = fit_rows([json_text.parse(raw) for raw in raws], raws, target).to_pylist()
        assert list(map(repr, rows)) == list(map(repr, alone))
