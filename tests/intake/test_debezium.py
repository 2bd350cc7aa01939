"""Debezium's envelope: the row and its operation."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakesmith.intake.debezium import COLUMNS, flat, row_type, unwrap, unwrapped
from lakesmith.intake.rows import Target, Unreadable, fit_rows

SOURCE = {
    "connector": "postgresql",
    "ts_ms": 1_700_000_000_123,
    "lsn": 24_023_128,
    "sequence": '["24023119","24023128"]',
}
ROW = {"id": 1, "name": "Ada"}


def envelope(op: str, before: object = None, after: object = None, **more: object) -> dict[str, object]:
    return {"before": before, "after": after, "op": op, "ts_ms": 1_700_000_009_000, "source": SOURCE, **more}


@pytest.mark.parametrize(("op", "expected"), [("c", "insert"), ("r", "insert")])
def test_an_insert_and_a_row_of_a_snapshot_are_inserts_of_the_row_after(op: str, expected: str) -> None:
    found = unwrap(envelope(op, after=ROW))
    assert not isinstance(found, Unreadable)
    row, audit = found
    assert (row, audit["_op"], audit["_before"]) == (ROW, expected, None)
    assert audit["_changed_at"] == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)


def test_an_update_has_the_previous_row_as_json() -> None:
    found = unwrap(envelope("u", before=ROW, after={"id": 1, "name": "Äda"}))
    assert not isinstance(found, Unreadable)
    row, audit = found
    assert row == {"id": 1, "name": "Äda"}
    assert audit["_op"] == "update"
    assert json.loads(str(audit["_before"])) == ROW


def test_a_delete_has_the_previous_row() -> None:
    found = unwrap(envelope("d", before=ROW))
    assert not isinstance(found, Unreadable)
    row, audit = found
    assert (row, audit["_op"]) == (ROW, "delete")
    assert json.loads(str(audit["_before"])) == ROW


def test_a_delete_without_the_previous_row_has_the_fields_of_its_key() -> None:
    found = unwrap(envelope("d"), {"schema": {}, "payload": {"id": 7}})
    assert not isinstance(found, Unreadable)
    assert found[0] == {"id": 7}


def test_a_truncation_has_no_row() -> None:
    found = unwrap(envelope("t"))
    assert not isinstance(found, Unreadable)
    assert (found[0], found[1]["_op"]) == ({}, "truncate")


@pytest.mark.parametrize(("key", "row"), [({"id": 3}, {"id": 3}), (None, {}), ("text", {})])
def test_a_tombstone_keeps_the_fields_of_its_key(key: object, row: dict[str, object]) -> None:
    found = unwrap(None, key)
    assert not isinstance(found, Unreadable)
    assert (found[0], found[1]["_op"], found[1]["_changed_at"]) == (row, "tombstone", None)


def test_the_wrapper_of_connect_s_json_converter_is_removed() -> None:
    assert unwrap({"schema": {"type": "struct"}, "payload": envelope("c", after=ROW)}) == unwrap(
        envelope("c", after=ROW)
    )


def test_a_schema_change_is_stored_completely() -> None:
    change = {"source": SOURCE, "ts_ms": 1, "databaseName": "shop", "ddl": "ALTER TABLE a", "tableChanges": []}
    found = unwrap(change)
    assert not isinstance(found, Unreadable)
    row, audit = found
    assert (row, audit["_op"]) == ({}, "schema")
    assert json.loads(str(audit["_before"])) == change


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"id": 1}, "not-an-envelope"),
        ({"schema": None, "payload": None}, "not-an-envelope"),
        (envelope("c"), "not-an-envelope"),
        (envelope("m"), "unknown-op"),
    ],
)
def test_a_record_that_is_not_a_change_is_unreadable_with_a_code(record: dict[str, object], code: str) -> None:
    found = unwrap(record)
    assert isinstance(found, Unreadable)
    assert found.code == code


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"file": "bin.000002", "pos": 999, "row": 0}, {"file": "bin.000002", "pos": 1000, "row": 0}),
        ({"file": "bin.000002", "pos": 99, "row": 9}, {"file": "bin.000002", "pos": 99, "row": 10}),
        ({"file": "bin.000002", "pos": 999, "row": 0}, {"file": "bin.000010", "pos": 4, "row": 0}),
        ({"lsn": 999}, {"lsn": 1000}),
        # Of two overlapping transactions, the one that commits first comes first.
        ({"lsn": 500, "sequence": '["90","500"]'}, {"lsn": 400, "sequence": '["600","400"]'}),
        ({"lsn": 500, "sequence": '[null,"500"]'}, {"lsn": 400, "sequence": '["600","400"]'}),
        ({"scn": "999", "commit_scn": "1000"}, {"scn": "998", "commit_scn": "1001"}),
        (
            {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 1},
            {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2},
        ),
        ({"ts_ms": 5, "ord": 9}, {"ts_ms": 5, "ord": 10}),
        ({"ts_ms": 999}, {"ts_ms": 1000}),
    ],
)
def test_positions_sort_in_the_order_of_the_changes(earlier: dict[str, object], later: dict[str, object]) -> None:
    positions = []
    for source in (earlier, later):
        found = unwrap({"op": "c", "after": ROW, "source": source})
        assert not isinstance(found, Unreadable)
        positions.append(str(found[1]["_change_position"]))
    assert positions == sorted(positions)
    assert positions[0] != positions[1]


def test_the_most_exact_time_is_used_or_else_that_of_the_envelope() -> None:
    exact = unwrap({"op": "c", "after": ROW, "source": {"ts_ms": 1000, "ts_us": 1_000_001}})
    plain = unwrap({"op": "c", "after": ROW, "ts_ms": 2000})
    assert not isinstance(exact, Unreadable)
    assert not isinstance(plain, Unreadable)
    assert exact[1]["_changed_at"] == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    assert plain[1]["_changed_at"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)


def test_a_field_with_the_name_of_an_audit_column_is_rescued() -> None:
    record = flat(envelope("c", after={"id": 1, "_Op": "mine"}))
    assert not isinstance(record, Unreadable)
    target = Target(schema=pa.schema([("id", pa.int64()), *COLUMNS]))
    (row,) = fit_rows([record], [b""], target).to_pylist()
    assert (row["id"], row["_op"]) == (1, "insert")
    assert json.loads(row["_rescued"]) == {"_Op (of the row)": "mine"}


def test_records_of_a_file_are_unwrapped_and_the_unreadable_pass_through() -> None:
    problem = Unreadable("not-json", "…")
    change, passed = unwrapped([envelope("c", after=ROW), problem])
    assert isinstance(change, dict)
    assert change["_op"] == "insert"
    assert passed == problem


def test_the_row_type_is_the_type_of_after() -> None:
    row = pa.struct([("id", pa.int64())])
    assert row_type(pa.struct([("before", row), ("after", row), ("op", pa.string())])) == row
    assert row_type(pa.struct([("op", pa.string())])) == pa.struct([])
