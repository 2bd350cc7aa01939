"""Reads the conditions of checks, so that a misspelt one is found before any row has moved."""

from __future__ import annotations

import functools

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lakesmith.sqlproof.nesting import TooDeep, check_text, check_tree
from lakesmith.sqlproof.parsing import SPARK


class ConditionFault(Exception):
    """The text is not one condition."""


@functools.lru_cache(maxsize=8192)
def columns_of(condition: str) -> tuple[str, ...]:
    """The columns that a condition names, in order of appearance."""
    try:
        check_text(condition)
        read = SPARK.parse_into(exp.Condition, condition)
        for node in read:
            if node is not None:
                check_tree(node)
    except ParseError as error:
        told = error.errors[0] if error.errors else {}
        near = str(told.get("highlight") or "").strip()
        raise ConditionFault(f"it goes wrong near '{near}'" if near else "it is not a condition") from None
    except TokenError:
        raise ConditionFault("a quotation mark is opened and never closed") from None
    except (TooDeep, RecursionError):
        raise ConditionFault("it is nested too deeply") from None
    nodes = [node for node in read if node is not None]
    if len(nodes) != 1:
        raise ConditionFault("it has to be one condition")
    if next(nodes[0].find_all(exp.Query), None) is not None:
        raise ConditionFault("it has a subquery, and a check sees only the rows that are on their way")
    columns = sorted(nodes[0].find_all(exp.Column), key=lambda column: int(column.parts[0].meta.get("start") or 0))
    return tuple(dict.fromkeys(column.parts[0].name for column in columns if not column.is_star))


def has_aggregate(condition: str) -> bool | None:
    """Whether the condition asks many rows; None where that cannot be told."""
    try:
        check_text(condition)
        read = SPARK.parse_into(exp.Condition, condition)
    except (ParseError, TokenError, TooDeep, RecursionError):
        return None
    nodes = [node for node in read if node is not None]
    if any(node.find(exp.AggFunc) is not None for node in nodes):
        return True
    return None if any(node.find(exp.Anonymous) is not None for node in nodes) else False
