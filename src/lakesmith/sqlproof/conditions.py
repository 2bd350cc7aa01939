"""Parses the conditions of checks, so that a syntax error is found before any row is read."""

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
    """Return the columns that a condition names, in order of appearance."""
    try:
        check_text(condition)
        read = SPARK.parse_into(exp.Condition, condition)
        for node in read:
            if node is not None:
                check_tree(node)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        near = str(detail.get("highlight") or "").strip()
        raise ConditionFault(f"syntax error near '{near}'" if near else "it is not a condition") from None
    except TokenError:
        raise ConditionFault("a quotation mark is not closed") from None
    except (TooDeep, RecursionError):
        raise ConditionFault("it is nested too deeply") from None
    nodes = [node for node in read if node is not None]
    if len(nodes) != 1:
        raise ConditionFault("it must be one condition")
    if next(nodes[0].find_all(exp.Query), None) is not None:
        raise ConditionFault("it has a subquery, but a check sees only the rows of the batch")
    columns = sorted(nodes[0].find_all(exp.Column), key=lambda column: int(column.parts[0].meta.get("start") or 0))
    return tuple(dict.fromkeys(column.parts[0].name for column in columns if not column.is_star))


def has_aggregate(condition: str) -> bool | None:
    """Whether the condition has an aggregate; None where that is unknown."""
    try:
        check_text(condition)
        read = SPARK.parse_into(exp.Condition, condition)
    except (ParseError, TokenError, TooDeep, RecursionError):
        return None
    nodes = [node for node in read if node is not None]
    if any(node.find(exp.AggFunc) is not None for node in nodes):
        return True
    return None if any(node.find(exp.Anonymous) is not None for node in nodes) else False
