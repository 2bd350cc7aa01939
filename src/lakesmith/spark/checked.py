"""The rows of a batch with what the rules think of them; the good ones, and those for the quarantine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakesmith.columns import AGAIN, AUDIT, CODE, CORRUPT, END, GIVEN_UP, HIDDEN, RESCUED, ROW_HASH, SOURCE_ROW
from lakesmith.declare import ReplacePartitions
from lakesmith.ledger.batch import Batch
from lakesmith.quality import Rules, only_readability
from lakesmith.quality.rules import LIST_PLACE, NEW_COLUMN
from lakesmith.spark.build import BEFORE
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.types import EXACT_JSON
from lakesmith.sql import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def checked(arrival: IncomingBatch) -> DataFrame:
    """The rows with the rules that each has broken. Flags of rules that ask other rows have to be there already."""
    passed_over = _passed_over(arrival.rows.columns)
    failed = [
        f"CASE WHEN {passed_over} THEN 0L ELSE {bits} END AS {name}"
        if passed_over != "(false)"
        else f"{bits} AS {name}"
        for name, bits in arrival.rules.failed().items()
    ]
    rows = arrival.rows.selectExpr("*", *failed)
    drift = arrival.table.drift
    if RESCUED in rows.columns and drift.new_column == "discard":
        # Its values are left out, and how many rows had one is told.
        new = next(rule for rule in arrival.rules.rows if rule.name == NEW_COLUMN)
        known = ", ".join(literal(path.lower()) for path in field_paths(arrival.rows))
        place = f"regexp_replace(lower(name), {literal(LIST_PLACE)}, '')"
        fits = f"map_filter(from_json({RESCUED}, 'map<string,string>'), (name, _) -> {place} IN ({known}))"
        left = f"nullif(to_json({fits}), '{{}}')"
        kept = f"CASE WHEN {arrival.rules.broke(new)} THEN {left} ELSE {RESCUED} END AS {RESCUED}"
        rows = rows.selectExpr(*(kept if name == RESCUED else quoted(name) for name in rows.columns))
    return rows


def _passed_over(columns: Sequence[str]) -> str:
    """SQL: the row is not judged."""
    closes = closes_file(columns)
    return f"({closes} OR {AGAIN})" if AGAIN in columns else closes


def closes_file(columns: Sequence[str]) -> str:
    """SQL: the row is no row of the table, but tells that a file has ended."""
    return f"({END} IS NOT NULL AND {CORRUPT} IS NULL)" if END in columns else "(false)"


def counted_by_readers(rules: Rules, columns: Sequence[str]) -> bool:
    """Whether the readers of files have counted all there is to know: nothing is checked but that rows can be read.

    Spark then need not count each row again, which costs as much as reading it. What the table and its quarantine
    have gained is held against these counts, file by file.
    """
    return END in columns and AGAIN not in columns and only_readability(rules)


def is_good(rules: Rules, columns: Sequence[str]) -> str:
    """SQL: no rule sets the row aside."""
    if counted_by_readers(rules, columns):
        return f"{CORRUPT} IS NULL AND {END} IS NULL"
    asides = [rules.refused(), rules.discarded(), _passed_over(columns), GIVEN_UP if GIVEN_UP in columns else "false"]
    return " AND ".join(f"NOT ({aside})" for aside in asides if aside not in ("false", "(false)")) or "true"


def good_rows(rows: DataFrame, rules: Rules) -> DataFrame:
    """The rows that no rule sets aside."""
    return rows.where(is_good(rules, rows.columns))


def refused_rows(rows: DataFrame, arrival: IncomingBatch) -> DataFrame:
    """The rows of the quarantine: what came, what was wrong with it, and where it was found."""
    return rows.where(arrival.rules.refused()).selectExpr(*refused_columns(rows.columns, arrival))


def refused_columns(columns: Sequence[str], arrival: IncomingBatch) -> list[str]:
    """SQL over a checked row: the columns of the quarantine."""
    batch, rules = arrival.batch, arrival.rules
    load = arrival.table.load
    return [
        "uuid() AS id",
        f"{raw_text(columns, arrival)} AS raw",
        f"{_json({name: name for name in arrival.payload})} AS fields",
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
    """SQL over the quarantine: the row was refused by a batch that this one does not build upon."""
    return f"batch > {batch.parent}"


def raw_text(columns: Sequence[str], arrival: IncomingBatch) -> str:
    """SQL: the row as it came, before values were cast."""
    names = [name for name in arrival.payload if name not in AUDIT]
    before = {name: BEFORE + name if BEFORE + name in columns else name for name in names}
    if RESCUED in columns:
        before[RESCUED] = RESCUED
    return f"coalesce({CORRUPT}, {_json(before)})" if CORRUPT in columns else _json(before)


def _json(held: dict[str, str]) -> str:
    row = ", ".join(f"{quoted(column)} AS {quoted(name)}" for name, column in held.items())
    return f"to_json(struct({row}), {EXACT_JSON})"


def _coded(names: str, part: int, columns: Sequence[str]) -> str:
    """SQL: for what could not be read at all, the reader's own code or words."""
    if CODE not in columns:
        return names
    return f"CASE WHEN {CODE} IS NOT NULL THEN array(element_at(split({CODE}, ': ', 2), {part})) ELSE {names} END"


def _position(columns: Sequence[str], batch: Batch) -> str:
    """SQL: where the row was found."""
    if SOURCE_ROW in columns:
        return f"concat(_source_file, ':', {SOURCE_ROW})"
    if "_offset" in columns:
        return "concat(_topic, '/', _partition, ':', _offset)"
    found: dict[str, object] = {name: f"version {position.version}" for name, position in sorted(batch.inputs.items())}
    if batch.slice is not None:
        found = {"since": dict(batch.slice.since), "until": dict(batch.slice.until)}
    return literal(json.dumps(found))


def field_paths(rows: DataFrame) -> tuple[str, ...]:
    """The columns of a bronze table and the fields in them, by dotted names."""
    from pyspark.sql.types import ArrayType, DataType, StructType

    def within(prefix: str, kind: DataType) -> list[str]:
        while isinstance(kind, ArrayType):
            kind = kind.elementType
        inner = kind.fields if isinstance(kind, StructType) else []
        return [prefix, *(path for each in inner for path in within(f"{prefix}.{each.name}", each.dataType))]

    told = [field for field in rows.schema.fields if not field.name.startswith(HIDDEN)]
    return tuple(path for each in told for path in within(each.name, each.dataType))
