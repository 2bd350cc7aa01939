"""Rows that are computed again meet what was decided of them in quarantine: a mend holds, and so does a discard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import FAILED, GIVEN_UP, HIDDEN
from lakesmith.declare import Source
from lakesmith.ledger.batches import flow
from lakesmith.ports import TableFormat
from lakesmith.spark.checked import raw_text
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.types import EXACT_JSON, spelt
from lakesmith.sql import literal, quoted
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RAW, _DECIDED, _ROW = f"{HIDDEN}raw", f"{HIDDEN}decided", f"{HIDDEN}mended"


def recalled(rows: DataFrame, arrival: IncomingBatch, format: TableFormat, warehouse: Warehouse) -> DataFrame:
    """The checked rows; those that are refused now and were mended or discarded before are so again."""
    if isinstance(arrival.table.origin, Source) or not arrival.rules.rows:
        return rows
    location = warehouse.settled(arrival.table.name)
    facts = format.facts(location, flow(arrival.table.name))
    if facts is None:
        return rows
    from pyspark.sql import functions as F

    kept = format.read(rows.sparkSession, location, facts.version)
    newest = F.expr("max_by(struct(how, mended), settled_at)").alias(_DECIDED)
    decided = kept.where("how = 'discarded' OR mended IS NOT NULL").groupBy(F.col("raw").alias(f"{_RAW}_kept"))
    asked = f"CASE WHEN {arrival.rules.refused()} THEN {raw_text(rows.columns, arrival)} END AS {_RAW}"
    joined = rows.selectExpr("*", asked).join(F.broadcast(decided.agg(newest)), F.expr(f"{_RAW} = {_RAW}_kept"), "left")
    stored = set(arrival.payload)
    columns = ", ".join(f"{quoted(f.name)} {spelt(f.dataType)}" for f in rows.schema.fields if f.name in stored)
    joined = joined.selectExpr("*", f"from_json({_DECIDED}.mended, {literal(columns)}, {EXACT_JSON}) AS {_ROW}")

    def told(name: str) -> str:
        if name.startswith(FAILED):
            return f"IF({_DECIDED} IS NULL, {name}, 0L) AS {name}"
        if name in stored:
            return f"IF({_ROW} IS NULL, {quoted(name)}, {_ROW}.{quoted(name)}) AS {quoted(name)}"
        return quoted(name)

    given_up = f"coalesce({_DECIDED}.how = 'discarded', false) AS {GIVEN_UP}"
    return joined.selectExpr(*map(told, rows.columns), given_up)
