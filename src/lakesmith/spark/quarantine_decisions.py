"""Applies earlier quarantine decisions to recomputed rows, so that fixes and discards survive a rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import DISCARDED, FAILED_RULES, HIDDEN
from lakesmith.declare import Source
from lakesmith.ledger.batches import flow
from lakesmith.ports import TableFormat
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.row_checks import raw_text
from lakesmith.spark.types import EXACT_JSON, sql_type
from lakesmith.sql import literal, quoted
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RAW, _DECIDED, _ROW = f"{HIDDEN}raw", f"{HIDDEN}decided", f"{HIDDEN}fixed"


def apply_decisions(rows: DataFrame, incoming: IncomingBatch, format: TableFormat, warehouse: Warehouse) -> DataFrame:
    """Return the checked rows. A rejected row that was fixed or discarded before is fixed or discarded again."""
    if isinstance(incoming.table.origin, Source) or not incoming.rules.rows:
        return rows
    folder = warehouse.quarantine_decisions(incoming.table.name)
    facts = format.facts(folder, flow(incoming.table.name))
    if facts is None:
        return rows
    from pyspark.sql import functions as F

    decisions = format.read(rows.sparkSession, folder, facts.version)
    newest = F.expr("max_by(struct(decision, fixed), decided_at)").alias(_DECIDED)
    decided = decisions.where("decision = 'discarded' OR fixed IS NOT NULL").groupBy(
        F.col("raw").alias(f"{_RAW}_decided")
    )
    raw = f"CASE WHEN {incoming.rules.quarantined()} THEN {raw_text(rows.columns, incoming)} END AS {_RAW}"
    joined = rows.selectExpr("*", raw).join(
        F.broadcast(decided.agg(newest)), F.expr(f"{_RAW} = {_RAW}_decided"), "left"
    )
    stored = set(incoming.payload)
    columns = ", ".join(f"{quoted(f.name)} {sql_type(f.dataType)}" for f in rows.schema.fields if f.name in stored)
    joined = joined.selectExpr("*", f"from_json({_DECIDED}.fixed, {literal(columns)}, {EXACT_JSON}) AS {_ROW}")

    def decided_value(name: str) -> str:
        if name.startswith(FAILED_RULES):
            return f"IF({_DECIDED} IS NULL, {name}, 0L) AS {name}"
        if name in stored:
            return f"IF({_ROW} IS NULL, {quoted(name)}, {_ROW}.{quoted(name)}) AS {quoted(name)}"
        return quoted(name)

    discarded = f"coalesce({_DECIDED}.decision = 'discarded', false) AS {DISCARDED}"
    return joined.selectExpr(*map(decided_value, rows.columns), discarded)
