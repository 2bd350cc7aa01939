"""Applies row rules to a batch, and splits it into good rows and rows for the quarantine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakesmith.columns import (
    ALREADY_INGESTED,
    AUDIT,
    CORRUPT,
    DISCARDED,
    ERROR_CODE,
    FILE_END,
    HIDDEN,
    RESCUED,
    ROW_HASH,
    SOURCE_ROW,
)
from lakesmith.declare import ReplacePartitions
from lakesmith.ledger.batch import Batch
from lakesmith.quality import Rules, checks_only_readability
from lakesmith.quality.rules import LIST_PLACE, NEW_COLUMN
from lakesmith.spark.build import BEFORE
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.types import EXACT_JSON
from lakesmith.sql import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_rows(incoming: IncomingBatch) -> DataFrame:
    """Return the rows with bit masks of the rules that each row failed. Rule flags must have been added before."""
    skipped = _skipped(incoming.rows.columns)
    failed = [
        f"CASE WHEN {skipped} THEN 0L ELSE {bits} END AS {name}" if skipped != "(false)" else f"{bits} AS {name}"
        for name, bits in incoming.rules.failed().items()
    ]
    rows = incoming.rows.selectExpr("*", *failed)
    drift = incoming.table.drift
    if RESCUED in rows.columns and drift.new_column == "discard":
        # New columns are discarded; the rule only counts the rows that have one.
        new = next(rule for rule in incoming.rules.rows if rule.name == NEW_COLUMN)
        known = ", ".join(literal(path.lower()) for path in field_paths(incoming.rows))
        place = f"regexp_replace(lower(name), {literal(LIST_PLACE)}, '')"
        fits = f"map_filter(from_json({RESCUED}, 'map<string,string>'), (name, _) -> {place} IN ({known}))"
        left = f"nullif(to_json({fits}), '{{}}')"
        cleaned = f"CASE WHEN {incoming.rules.breaks(new)} THEN {left} ELSE {RESCUED} END AS {RESCUED}"
        rows = rows.selectExpr(*(cleaned if name == RESCUED else quoted(name) for name in rows.columns))
    return rows


def _skipped(columns: Sequence[str]) -> str:
    """Return SQL: whether the rules skip the row."""
    closes = is_file_end(columns)
    return f"({closes} OR {ALREADY_INGESTED})" if ALREADY_INGESTED in columns else closes


def is_file_end(columns: Sequence[str]) -> str:
    """Return SQL: whether the row only marks the end of a file."""
    return f"({FILE_END} IS NOT NULL AND {CORRUPT} IS NULL)" if FILE_END in columns else "(false)"


def counted_by_readers(rules: Rules, columns: Sequence[str]) -> bool:
    """Whether the counts of the file readers are enough, because no rule checks more than that rows can be parsed.

    Counting again in Spark would cost as much as reading. The row reconciliation compares these counts with what the
    table and its quarantine gained, file by file.
    """
    return FILE_END in columns and ALREADY_INGESTED not in columns and checks_only_readability(rules)


def is_good(rules: Rules, columns: Sequence[str]) -> str:
    """Return SQL: whether no rule rejects or discards the row."""
    if counted_by_readers(rules, columns):
        return f"{CORRUPT} IS NULL AND {FILE_END} IS NULL"
    asides = [
        rules.quarantined(),
        rules.discarded(),
        _skipped(columns),
        DISCARDED if DISCARDED in columns else "false",
    ]
    return " AND ".join(f"NOT ({aside})" for aside in asides if aside not in ("false", "(false)")) or "true"


def good_rows(rows: DataFrame, rules: Rules) -> DataFrame:
    """Return the rows that no rule rejects or discards."""
    return rows.where(is_good(rules, rows.columns))


def rejected_rows(rows: DataFrame, incoming: IncomingBatch) -> DataFrame:
    """Return the rejected rows in the columns of the quarantine: raw row, failed rules and position."""
    return rows.where(incoming.rules.quarantined()).selectExpr(*quarantine_columns(rows.columns, incoming))


def quarantine_columns(columns: Sequence[str], incoming: IncomingBatch) -> list[str]:
    """Return SQL over checked rows: the columns of the quarantine."""
    batch, rules = incoming.batch, incoming.rules
    load = incoming.table.load
    return [
        "uuid() AS id",
        f"{raw_text(columns, incoming)} AS raw",
        f"{_json({name: name for name in incoming.payload})} AS fields",
        f"{_coded(rules.names(), 1, columns)} AS rules",
        f"{_coded(rules.reasons(), 2, columns)} AS reasons",
        f"{rules.versions()} AS rule_versions",
        f"{literal(batch.contract) if batch.contract else 'CAST(NULL AS string)'} AS contract",
        f"{_position(columns, batch)} AS position",
        f"CAST({quoted(load.by)} AS string) AS partition"
        if isinstance(load, ReplacePartitions)
        else "CAST(NULL AS string) AS partition",
        f"CAST({batch.sequence} AS bigint) AS batch",
        f"'{batch.run_id}' AS run_id",
        f"{ROW_HASH if ROW_HASH in columns else 'CAST(NULL AS string)'} AS row_hash",
        f"'{batch.definition}' AS definition",
        f"timestamp_millis({batch.pinned_at}) AS quarantined_at",
    ]


def rolled_back(batch: Batch) -> str:
    """Return SQL over the quarantine: whether a batch that was rolled back rejected the row."""
    return f"batch > {batch.parent}"


def raw_text(columns: Sequence[str], incoming: IncomingBatch) -> str:
    """Return SQL: the row as JSON or raw text, with the values before casts."""
    names = [name for name in incoming.payload if name not in AUDIT]
    before = {name: BEFORE + name if BEFORE + name in columns else name for name in names}
    if RESCUED in columns:
        before[RESCUED] = RESCUED
    return f"coalesce({CORRUPT}, {_json(before)})" if CORRUPT in columns else _json(before)


def _json(columns: dict[str, str]) -> str:
    row = ", ".join(f"{quoted(column)} AS {quoted(name)}" for name, column in columns.items())
    return f"to_json(struct({row}), {EXACT_JSON})"


def _coded(names: str, part: int, columns: Sequence[str]) -> str:
    """Return SQL: the reader's error code or text for an unparsable record, else the names."""
    if ERROR_CODE not in columns:
        return names
    reported = f"array(element_at(split({ERROR_CODE}, ': ', 2), {part}))"
    return f"CASE WHEN {ERROR_CODE} IS NOT NULL THEN {reported} ELSE {names} END"


def _position(columns: Sequence[str], batch: Batch) -> str:
    """Return SQL: where the row comes from."""
    if SOURCE_ROW in columns:
        return f"concat(_source_file, ':', {SOURCE_ROW})"
    if "_offset" in columns:
        return "concat(_topic, '/', _partition, ':', _offset)"
    found: dict[str, object] = {name: f"version {position.version}" for name, position in sorted(batch.inputs.items())}
    if batch.slice is not None:
        found = {"since": dict(batch.slice.since), "until": dict(batch.slice.until)}
    return literal(json.dumps(found))


def field_paths(rows: DataFrame) -> tuple[str, ...]:
    """Return the columns and nested fields of a bronze table as dotted names."""
    from pyspark.sql.types import ArrayType, DataType, StructType

    def within(prefix: str, kind: DataType) -> list[str]:
        while isinstance(kind, ArrayType):
            kind = kind.elementType
        inner = kind.fields if isinstance(kind, StructType) else []
        return [prefix, *(path for each in inner for path in within(f"{prefix}.{each.name}", each.dataType))]

    stored = [field for field in rows.schema.fields if not field.name.startswith(HIDDEN)]
    return tuple(path for each in stored for path in within(each.name, each.dataType))
