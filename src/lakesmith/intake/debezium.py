"""Unwrap Debezium envelopes into rows with their operation, as the `changes` load reads them.

The row is that after the change (before it, for a delete). Its audit columns are `_op` (insert, update, delete,
truncate, tombstone, schema), `_changed_at`, `_change_position`, whose text sorts in the order of the changes, and
`_before`, the row before an update or a delete as JSON. Nothing is cast or dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesmith.columns import CHANGE_AUDIT
from lakesmith.intake.rows import Unreadable, as_json
from lakesmith.intake.shapes import STRING

COLUMNS = pa.schema(
    [(name, pa.timestamp("us", tz="UTC") if name == "_changed_at" else STRING) for name in CHANGE_AUDIT]
)
"""The audit columns."""

Row = Mapping[str, object]
_OPERATIONS = {"c": "insert", "r": "insert", "u": "update", "d": "delete", "t": "truncate"}
_SCHEMA_KEYS = ("ddl", "tableChanges")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unwrapped(records: Iterable[Row | Unreadable]) -> Iterator[Row | Unreadable]:
    """Yield the records of a file with each envelope unwrapped."""
    return (record if isinstance(record, Unreadable) else flat(record) for record in records)


def flat(record: Row | None, key: object | None = None) -> Row | Unreadable:
    """Return the row of a change and its audit columns in one mapping."""
    change = unwrap(record, key)
    if isinstance(change, Unreadable):
        return change
    payload, audit = change
    if any(name.lower() in CHANGE_AUDIT for name in payload):
        # A column name cannot contain a space, so such a field is rescued and does not replace an audit column.
        payload = {f"{name} (of the row)" if name.lower() in CHANGE_AUDIT else name: v for name, v in payload.items()}
    return {**payload, **audit}


def unwrap(record: Row | None, key: object | None = None) -> tuple[Row, Row] | Unreadable:
    """Return the row of a change, and its audit columns. None is a tombstone; `key` is the record's parsed key."""
    if record is None:
        return _of_key(key), _audit("tombstone", {})
    envelope = _payload(record)
    if not isinstance(envelope, Mapping):
        return Unreadable("not-an-envelope", "the payload is not an object")
    source = envelope.get("source")
    source = source if isinstance(source, Mapping) else {}
    if "op" not in envelope:
        if any(name in envelope for name in _SCHEMA_KEYS):
            return {}, _audit("schema", envelope, source, stored=envelope)
        return Unreadable("not-an-envelope", "it has neither an op nor a schema change")
    operation = _OPERATIONS.get(str(envelope["op"]))
    if operation is None:
        return Unreadable("unknown-op", f"op {envelope['op']!r} is not one of {', '.join(_OPERATIONS)}")
    before, after = envelope.get("before"), envelope.get("after")
    row = before if operation == "delete" else after
    if operation in ("insert", "update") and not isinstance(row, Mapping):
        return Unreadable("not-an-envelope", f"an {operation} without the row after it")
    stored = before if operation in ("update", "delete") else None
    payload = row if isinstance(row, Mapping) else _of_key(key) if operation == "delete" else {}
    return payload, _audit(operation, envelope, source, stored=stored)


def row_type(envelope: pa.DataType) -> pa.DataType:
    """Return the row type for an envelope type."""
    for name in ("after", "before"):
        if envelope.get_field_index(name) >= 0 and pa.types.is_struct(envelope.field(name).type):
            return envelope.field(name).type
    return pa.struct([])


def _payload(record: Row) -> object:
    """Return the payload, which Connect's JSON converter may wrap with its schema."""
    return record["payload"] if record.keys() == {"schema", "payload"} else record


def _of_key(key: object | None) -> Row:
    if not isinstance(key, Mapping):
        return {}
    payload = _payload(key)
    return payload if isinstance(payload, Mapping) else {}


def _audit(operation: str, envelope: Row, source: Row | None = None, stored: object = None) -> Row:
    return {
        "_op": operation,
        "_changed_at": _moment(source or {}) or _moment(envelope),
        "_change_position": _position(source or {}),
        "_before": None if stored is None else as_json(stored),
    }


def _moment(source: Row) -> datetime | None:
    """Return the most precise time available."""
    for name, unit in (("ts_us", 1), ("ts_ms", 1000)):
        value = source.get(name)
        if isinstance(value, int):
            try:
                return _EPOCH + timedelta(microseconds=value * unit)
            except OverflowError:
                return None
        if isinstance(value, datetime):
            return value
    return None


def _position(source: Row) -> str | None:
    """Return the position of the change in its database's log, as text that sorts in log order."""
    match source:
        case {"file": str(file), "pos": position}:  # MySQL, MariaDB
            return "/".join((file, _padded(position), _padded(source.get("row"))))
        case {"commit_lsn": commit} if commit is not None:  # SQL Server, whose numbers are padded
            serial = _padded(source.get("event_serial_no"))
            return "/".join((str(commit), str(source.get("change_lsn") or ""), serial))
        case {"lsn": lsn} if lsn is not None:  # PostgreSQL
            return "/".join((_padded(_last_commit(source)), _padded(lsn)))
        case {"scn": scn} if scn is not None:  # Oracle
            return "/".join((_padded(source.get("commit_scn")), _padded(scn), _padded(source.get("ssn"))))
        case {"ord": order, "ts_ms": moment}:  # MongoDB
            return "/".join((_padded(moment), _padded(order)))
        case {"ts_ms": moment} if moment is not None:
            return _padded(moment)
        case _:
            return None


def _last_commit(source: Row) -> object:
    """Return the position of the last commit: changes arrive in commit order, not in the order of their positions."""
    try:
        return json.loads(str(source["sequence"]))[0]
    except (KeyError, ValueError, IndexError, TypeError):
        return None


def _padded(value: object) -> str:
    text = str(value if value is not None else 0)
    return text.zfill(20)
