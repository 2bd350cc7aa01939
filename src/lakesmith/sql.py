"""Spark SQL in text: names, values, and between which values a column lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXACT = ("tinyint", "smallint", "int", "bigint", "string", "date")
"""Types whose values text tells exactly, and which all tables order alike."""


def literal(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted(name: str) -> str:
    """An identifier."""
    return f"`{name.replace('`', '``')}`"


def bounds(rows: DataFrame, name: str, side: str = "") -> tuple[int, str | None]:
    """How many rows these are; and SQL: the column lies between the least and the greatest value it has in them."""
    kind, held = rows.schema[name].dataType.simpleString(), quoted(name)
    ((count, least, most),) = rows.selectExpr(
        "count(*)", f"CAST(min({held}) AS string)", f"CAST(max({held}) AS string)"
    ).collect()
    if kind not in _EXACT or least is None:
        return count, None
    low, high = (f"CAST({literal(bound)} AS {kind})" for bound in (least, most))
    return count, f"{side}{held} BETWEEN {low} AND {high}"
