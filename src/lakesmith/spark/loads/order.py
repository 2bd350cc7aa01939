"""The order of rows: by the columns that were declared, then by content, so that the order of arrival never shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.quality.rules import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    """SQL: the stored columns as values that can be compared. Maps cannot be; their text can."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    return [f"to_json({quoted(name)})" if "map<" in types[name] else quoted(name) for name in payload(rows)]


def ascending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} ASC NULLS FIRST" for term in terms)


def descending(terms: Iterable[str]) -> str:
    return ", ".join(f"{term} DESC NULLS LAST" for term in terms)


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
