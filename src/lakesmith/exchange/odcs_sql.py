"""Conditions as the queries that the Open Data Contract Standard takes, and such queries as conditions.

What was written here is read back as the same condition, or it is not written as a query.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from lakesmith.sql import literal

VENDOR = "lakesmith"
"""The engine of rules that the standard has no words for, and the vendor of its custom properties."""
PROPERTY = re.compile(r"\$?\{(?:property|column|field)\}")
_OBJECT = re.compile(r"\$?\{(?:object|table|model|schema|property|column|field)\}")
_COUNT = re.compile(r"\s*SELECT\s+COUNT\(\*\)\s+FROM\s+\S+\s+WHERE\s+(.+?);?\s*", re.IGNORECASE | re.DOTALL)
_SELECT = re.compile(r"\s*SELECT\s+(.+?)\s+FROM\s+[^\s()]+(?:\s+WHERE\s+(.+?))?;?\s*", re.IGNORECASE | re.DOTALL)


def row_query(condition: str, where: str | None) -> str:
    """Counts the rows that break a condition."""
    only = f" AND ({where})" if where else ""
    return f"SELECT COUNT(*) FROM ${{object}} WHERE NOT ({condition}){only}"


def row_condition(query: str, where: str | None = None) -> str | None:
    """The condition that rows break which a query counts; None when it counts in another way."""
    found = _COUNT.fullmatch(query)
    if found is None or not _is_plain(query):
        return None
    breaking = found[1]
    if where:
        if not breaking.endswith(tail := f" AND ({where})"):
            return None
        breaking = breaking[: -len(tail)]
    if _OBJECT.search(breaking):
        return None
    kept = _unwrapped(breaking.removeprefix("NOT ")) if breaking.startswith("NOT (") else None
    return kept or f"NOT ({breaking})"


def batch_query(condition: str, where: str | None) -> str:
    """Tells whether the rows meet a condition on their aggregates."""
    return f"SELECT ({condition}) FROM ${{object}}" + (f" WHERE ({where})" if where else "")


def batch_condition(query: str, comparison: tuple[str, Any]) -> tuple[str, str | None] | None:
    """The condition on aggregates that a query and what its answer is compared with make, and on which rows."""
    found = _SELECT.fullmatch(query)
    if found is None or not _is_plain(query):
        return None
    value, where = found[1], found[2]
    if _OBJECT.search(value) or (where and _OBJECT.search(where)):
        return None
    sign, wanted = comparison
    if sign == "=" and wanted is True:
        condition = _unwrapped(value) or value
    elif isinstance(wanted, list) and len(wanted) != 2:
        return None
    elif isinstance(wanted, list):
        condition = f"({value}) {sign.upper()} {value_text(wanted[0])} AND {value_text(wanted[1])}"
    else:
        condition = f"({value}) {sign} {value_text(wanted)}"
    return condition, (_unwrapped(where) or where) if where else None


def value_text(value: object) -> str:
    """A value in SQL."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case Decimal():
            return format(value, "f")
        case _:
            return literal(str(value))


def _is_plain(query: str) -> bool:
    """One SELECT over one table, without groups, joins or subqueries."""
    import sqlglot
    from sqlglot import exp

    from lakesmith.sqlproof.nesting import TooDeep, check_text

    try:
        check_text(query)
        found = sqlglot.parse(_OBJECT.sub("lakesmith_object", query), dialect="spark")
    except (sqlglot.errors.SqlglotError, TooDeep, RecursionError):
        return False
    select = found[0] if len(found) == 1 else None
    if not isinstance(select, exp.Select):
        return False
    others = [value for key, value in select.args.items() if key not in ("expressions", "from_", "from", "where")]
    return not any(others) and len(select.expressions) == 1 and len(list(select.find_all(exp.Select))) == 1


def _unwrapped(text: str) -> str | None:
    """What is between the brackets, when the first closes with the last; None otherwise."""
    import sqlglot

    if not (text.startswith("(") and text.endswith(")")):
        return None
    depth = 0
    for token in sqlglot.tokenize(text, dialect="spark"):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.end < len(text) - 1:
            return None
    return text[1:-1] if depth == 0 else None
