"""Translates views from Spark SQL to DuckDB."""

from __future__ import annotations

from lakesmith.errors import UsageError
from lakesmith.ports import View, ViewColumn


def select_of(view: View, source: str) -> str:
    """Return the DuckDB SELECT of the view over `source`, which is DuckDB SQL already."""
    # sqlglot takes a tenth of a second to import, and most queries name no view.
    from sqlglot import parse_one
    from sqlglot.errors import SqlglotError

    from lakesmith.sqlproof.nesting import TooDeep, check_text

    try:
        written = "SELECT " + ", ".join(_column(column) for column in view.columns)
        check_text(written)
        select = parse_one(written, dialect="spark")
        return f"{select.sql(dialect='duckdb')} FROM {source}"
    except (SqlglotError, TooDeep, RecursionError) as error:
        raise UsageError(
            "query-failed",
            f"an earlier version of {view.table} cannot be translated to DuckDB: {str(error).splitlines()[0]}",
            hint="rewrite the SQL below `previous` in the contract",
        ) from None


def _column(column: ViewColumn) -> str:
    value = f"({column.sql})" if column.sql else f"`{column.name}`"
    return f"{f'CAST({value} AS {column.type})' if column.type else value} AS `{column.name}`"
