"""Translate conditions to queries of the Open Data Contract Standard, and back.

A condition is only exported as a query that is read back as the same condition.
"""

from __future__ import annotations

import re
from typing import Any

from lakesmith.exchange.plain_select import plain_select
from lakesmith.sql import sql_value

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
    match = _COUNT.fullmatch(query)
    if match is None or not _is_plain(query):
        return None
    breaking = match[1]
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
    match = _SELECT.fullmatch(query)
    if match is None or not _is_plain(query):
        return None
    value, where = match[1], match[2]
    if _OBJECT.search(value) or (where and _OBJECT.search(where)):
        return None
    sign, expected = comparison
    if sign == "=" and expected is True:
        condition = _unwrapped(value) or value
    elif isinstance(expected, list):
        if len(expected) != 2:
            return None
        condition = f"({value}) {sign.upper()} {sql_value(expected[0])} AND {sql_value(expected[1])}"
    else:
        condition = f"({value}) {sign} {sql_value(expected)}"
    return condition, (_unwrapped(where) or where) if where else None


def _is_plain(query: str) -> bool:
    select = plain_select(_OBJECT.sub("lakesmith_object", query))
    return select is not None and len(select.expressions) == 1


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
