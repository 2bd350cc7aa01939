"""Spark SQL text for identifiers, literals and column ranges, and statements that use frames as tables."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_EXACT = ("tinyint", "smallint", "int", "bigint", "string", "date")
"""Types whose text form is exact, and which all tables sort in the same order."""


def literal(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_value(value: object) -> str:
    """A literal of a text, a number or a truth value. Spark compares a text with a date or time as its type."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case _:
            return literal(str(value))


def quoted(name: str) -> str:
    """An identifier."""
    return f"`{name.replace('`', '``')}`"


def frame_name() -> str:
    """A unique name for a frame in a statement."""
    return f"frame_{uuid4().hex}"


def run_sql(spark: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Run a statement that uses frames as tables. The keys of `frames` are names from `frame_name`.

    PySpark makes a unique view of each frame for this statement only. A view with a fixed name returns wrong rows on
    Spark Connect, which resolves views when rows are read: by then, another statement has replaced the view.
    """
    if not frames:
        return spark.sql(text)
    template = text.replace("{", "{{").replace("}", "}}")
    for name in frames:
        template = template.replace(name, f"{{{name}}}")
    tables: dict[str, Any] = dict(frames)
    return spark.sql(template, **tables)


def collect_arrow(rows: DataFrame) -> pa.Table:
    """Collect rows as an Arrow table.

    A local Spark plans them in this call first. It collects Arrow in a thread of its own, and an error that ends this
    thread, such as a lack of memory, would never reach the caller.
    """
    if (local := getattr(rows, "_jdf", None)) is not None:
        local.queryExecution().executedPlan()
    return rows.toArrow()


def bounds(rows: DataFrame, name: str, side: str = "") -> tuple[int, str | None]:
    """The number of rows, and a SQL condition that the column lies between its minimum and maximum in them."""
    kind, held = rows.schema[name].dataType.simpleString(), quoted(name)
    ((count, least, most),) = rows.selectExpr(
        "count(*)", f"CAST(min({held}) AS string)", f"CAST(max({held}) AS string)"
    ).collect()
    if kind not in _EXACT or least is None:
        return count, None
    low, high = (f"CAST({literal(bound)} AS {kind})" for bound in (least, most))
    return count, f"{side}{held} BETWEEN {low} AND {high}"
