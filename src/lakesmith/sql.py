"""Spark SQL text for identifiers, literals and column ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXACT = ("tinyint", "smallint", "int", "bigint", "string", "date")
"""Types whose text form is exact, and which all tables sort in the same order."""


def literal(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted(name: str) -> str:
    """An identifier."""
    return f"`{name.replace('`', '``')}`"


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
