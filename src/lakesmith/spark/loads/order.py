"""The order of rows: by the columns that were declared, then by content, so that the order of arrival never shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.spark.types import EXACT_JSON, spelt
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NESTED = ("struct", "array", "map")
_PLACE = f"{HIDDEN}place"
DELETE = f"{HIDDEN}delete"
"""True in a row that says that its key is gone."""


def with_deletes(rows: DataFrame, condition: str | None) -> DataFrame:
    """The rows, each marked whether it is a delete, unless they are already."""
    if DELETE in rows.columns:
        return rows
    told = f"coalesce(({condition}), false)" if condition else "false"
    return rows.selectExpr("*", f"{told} AS {DELETE}")


def payload(rows: DataFrame) -> list[str]:
    """The columns that are stored."""
    return [name for name in rows.columns if not name.startswith(HIDDEN)]


def rank(rows: DataFrame, order_by: Sequence[str]) -> list[str]:
    """SQL: what tells which of two rows of a key comes later."""
    return [*map(quoted, order_by), *([DELETE] if DELETE in rows.columns else []), *content(rows)]


def place(order_by: Sequence[str]) -> str:
    """SQL: where a row stands by the columns that were declared alone; `o0`, `o1` and so on are their values."""
    return f"struct({', '.join(f'{quoted(name)} AS o{number}' for number, name in enumerate(order_by))})"


def first_of(rows: DataFrame, same: Iterable[str], order: str) -> DataFrame:
    """Of rows that have the same values, the first in an order (SQL both)."""
    window = f"PARTITION BY {', '.join(same)} ORDER BY {order}"
    return rows.selectExpr("*", f"row_number() OVER ({window}) AS {_PLACE}").where(f"{_PLACE} = 1").drop(_PLACE)


def greatest(key: Sequence[str], order_by: Sequence[str], rows: DataFrame) -> DataFrame:
    """The last row of each key, a delete as any other."""
    return first_of(rows, map(quoted, key), descending(rank(rows, order_by)))


def content(rows: DataFrame) -> list[str]:
    """SQL: the stored columns as values that can be compared."""
    return [comparable(rows, name) for name in payload(rows)]


def comparable(rows: DataFrame, name: str, side: str = "") -> str:
    """SQL: a value that can be compared: of maps, and of structs whose fields may be others, their text."""
    held = f"{side}{quoted(name)}"
    return f"to_json({held}, {EXACT_JSON})" if rows.schema[name].dataType.typeName() in _NESTED else held


def ascending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} ASC NULLS FIRST" for term in terms)


def descending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} DESC NULLS LAST" for term in terms)


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def have_values(names: Iterable[str]) -> str:
    """SQL: none of the columns is empty."""
    return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names)


def nothing(rows: DataFrame, name: str) -> str:
    """SQL: no value, of a column's type."""
    return f"CAST(NULL AS {spelt(rows.schema[name].dataType)})"


def only(rows: DataFrame, told: Mapping[str, str]) -> list[str]:
    """SQL: the stored columns, of which only some have a value."""
    return [f"{told.get(name) or nothing(rows, name)} AS {quoted(name)}" for name in payload(rows)]


def expression(text: str) -> Column:
    """SQL as a column, where Spark takes no text."""
    from pyspark.sql import functions as F

    return F.expr(text)
