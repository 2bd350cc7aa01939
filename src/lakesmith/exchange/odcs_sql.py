"""Translate conditions to queries of the Open Data Contract Standard, and back.

A condition is only exported as a query that is read back as the same condition.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from lakesmith.sql import literal

VENDOR = "lakesmith"
"""The engine of custom rules, and the vendor of custom properties."""
PROPERTY = re.compile(r"\$?\{(?:property|column|field)\}")
_OBJECT = re.compile(r"\$?\{(?:object|table|model|schema|property|column|field)\}")
_COUNT = re.compile(r"\s*SELECT\s+COUNT\(\*\)\s+FROM\s+\S+\s+WHERE\s+(.+?);?\s*", re.IGNORECASE | re.DOTALL)
_SELECT = re.compile(r"\s*SELECT\s+(.+?)\s+FROM\s+[^\s()]+(?:\s+WHERE\s+(.+?))?;?\s*", re.IGNORECASE | re.DOTALL)


def row_query(condition: str, where: str | None) -> str:
    """Return a query that counts the rows that break a condition."""
    only = f" AND ({where})" if where else ""
    return f"SELECT COUNT(*) FROM ${{object}} WHERE NOT ({condition}){only}"


def row_condition(query: str, where: str | None = None) -> str | None:
    """Return the condition that the counted rows break, or None for another kind of query."""
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
    inner = _unwrapped(breaking.removeprefix("NOT ")) if breaking.startswith("NOT (") else None
    return inner or f"NOT ({breaking})"


def batch_query(condition: str, where: str | None) -> str:
    """Return a query that evaluates a condition on aggregates."""
    return f"SELECT ({condition}) FROM ${{object}}" + (f" WHERE ({where})" if where else "")


def batch_condition(query: str, comparison: tuple[str, Any]) -> tuple[str, str | None] | None:
    """Return the condition on aggregates that a query and a comparison express, and its `where`."""
    found = _SELECT.fullmatch(query)
    if found is None or not _is_plain(query):
        return None
    value, where = found[1], found[2]
    if _OBJECT.search(value) or (where and _OBJECT.search(where)):
        return None
    sign, expected = comparison
    if sign == "=" and expected is True:
        condition = _unwrapped(value) or value
    elif isinstance(expected, list) and len(expected) != 2:
        return None
    elif isinstance(expected, list):
        condition = f"({value}) {sign.upper()} {value_text(expected[0])} AND {value_text(expected[1])}"
    else:
        condition = f"({value}) {sign} {value_text(expected)}"
    return condition, (_unwrapped(where) or where) if where else None


def value_text(value: object) -> str:
    """Return a value as an SQL literal."""
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
    """Whether the query is one SELECT over one table, without groups, joins or subqueries."""
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
    """Return the text between outer parentheses that match each other, or None."""
    import sqlglot

    if not (text.startswith("(") and text.endswith(")")):
        return None
    depth = 0
    for token in sqlglot.tokenize(text, dialect="spark"):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.end < len(text) - 1:
            return None
    return text[1:-1] if depth == 0 else None
