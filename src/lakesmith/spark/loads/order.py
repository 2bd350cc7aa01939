"""The order of rows: by the columns that were declared, then by content, so that the order of arrival never shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.quality.rules import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NESTED = ("struct", "array", "map")
# The default formats stop at milliseconds.
_JSON = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", 'timeZone', 'UTC')"
)
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


def content(rows: DataFrame) -> list[str]:
    """SQL: the stored columns as values that can be compared."""
    return [comparable(rows, name) for name in payload(rows)]


def comparable(rows: DataFrame, name: str, side: str = "") -> str:
    """SQL: a value that can be compared: of maps, and of structs whose fields may be others, their text."""
    held = f"{side}{quoted(name)}"
    return f"to_json({held}, {_JSON})" if rows.schema[name].dataType.typeName() in _NESTED else held


def ascending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} ASC NULLS FIRST" for term in terms)


def descending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} DESC NULLS LAST" for term in terms)


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
