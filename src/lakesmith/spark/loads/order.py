"""Orders rows by the declared columns, then by content, so that the order of arrival has no effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.spark.types import EXACT_JSON, sql_type
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NESTED = ("struct", "array", "map")
_PLACE = f"{HIDDEN}place"
IS_DELETE = f"{HIDDEN}delete"
"""True in a row that deletes its key."""


def with_deletes(rows: DataFrame, condition: str | None) -> DataFrame:
    """Mark each row whether it is a delete, unless the rows are marked already."""
    if IS_DELETE in rows.columns:
        return rows
    expressions = f"coalesce(({condition}), false)" if condition else "false"
    return rows.selectExpr("*", f"{expressions} AS {IS_DELETE}")


def payload(rows: DataFrame) -> list[str]:
    """Return the stored columns."""
    return [name for name in rows.columns if not name.startswith(HIDDEN)]


def rank(rows: DataFrame, order_by: Sequence[str]) -> list[str]:
    """Return SQL terms that order the rows of a key completely."""
    return [*map(quoted, order_by), *([IS_DELETE] if IS_DELETE in rows.columns else []), *content(rows)]


def order_struct(order_by: Sequence[str]) -> str:
    """Return SQL: a struct of the declared order columns, with the fields `o0`, `o1` and so on."""
    return f"struct({', '.join(f'{quoted(name)} AS o{number}' for number, name in enumerate(order_by))})"


def first_of(rows: DataFrame, same: Iterable[str], order: str) -> DataFrame:
    """Return the first row of each group in an order (both SQL)."""
    window = f"PARTITION BY {', '.join(same)} ORDER BY {order}"
    return rows.selectExpr("*", f"row_number() OVER ({window}) AS {_PLACE}").where(f"{_PLACE} = 1").drop(_PLACE)


def greatest(key: Sequence[str], order_by: Sequence[str], rows: DataFrame) -> DataFrame:
    """Return the last row of each key, including deletes."""
    return first_of(rows, map(quoted, key), descending(rank(rows, order_by)))


def content(rows: DataFrame) -> list[str]:
    """Return SQL: the stored columns as comparable values."""
    return [comparable(rows, name) for name in payload(rows)]


def comparable(rows: DataFrame, name: str, side: str = "") -> str:
    """Return SQL: a comparable value. Maps and structs (whose fields may differ) compare as JSON."""
    stored = f"{side}{quoted(name)}"
    return f"to_json({stored}, {EXACT_JSON})" if rows.schema[name].dataType.typeName() in _NESTED else stored


def ascending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} ASC NULLS FIRST" for term in terms)


def descending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} DESC NULLS LAST" for term in terms)


def column_list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def all_not_null(names: Iterable[str]) -> str:
    """Return SQL: whether none of the columns is NULL."""
    return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names)


def null_of(rows: DataFrame, name: str) -> str:
    """Return SQL: NULL with a column's type."""
    return f"CAST(NULL AS {sql_type(rows.schema[name].dataType)})"


def sparse_columns(rows: DataFrame, expressions: Mapping[str, str]) -> list[str]:
    """Return SQL: the stored columns with the given expressions, the others NULL."""
    return [f"{expressions.get(name) or null_of(rows, name)} AS {quoted(name)}" for name in payload(rows)]


def expression(text: str) -> Column:
    """Return SQL as a column, for functions that accept no text."""
    from pyspark.sql import functions as F

    return F.expr(text)
