"""Read queries of other tools that are one SELECT over one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_CLAUSES = ("expressions", "from_", "from", "where")


def plain_select(query: str) -> exp.Select | None:
    """Return the query, or None when it has groups, joins, subqueries or anything else besides a condition."""
    import sqlglot
    from sqlglot import exp

    from lakesmith.sqlproof.nesting import TooDeep, check_text

    try:
        check_text(query)
        statements = sqlglot.parse(query, dialect="spark")
    except (sqlglot.errors.SqlglotError, TooDeep, RecursionError):
        return None
    select = statements[0] if len(statements) == 1 else None
    if not isinstance(select, exp.Select) or len(list(select.find_all(exp.Query))) > 1:
        return None
    return None if any(value for key, value in select.args.items() if key not in _CLAUSES) else select
