"""Parses the conditions of checks, so that a syntax error is found before any row is read."""

from __future__ import annotations

import functools

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lakesmith.sqlproof.nesting import TooDeep, check_text, check_tree
from lakesmith.sqlproof.parsing import SPARK, unexpected_word


class ConditionFault(Exception):
    """The text is not one condition."""


@functools.lru_cache(maxsize=8192)
def columns_of(condition: str) -> tuple[str, ...]:
    """Return the columns that a condition names, in order of appearance."""
    tree = _parsed(condition)
    columns = sorted(tree.find_all(exp.Column), key=lambda column: int(column.parts[0].meta.get("start") or 0))
    return tuple(dict.fromkeys(column.parts[0].name for column in columns if not column.is_star))


def has_aggregate(condition: str) -> bool | None:
    """Whether the condition has an aggregate; None where a function may be user-defined."""
    tree = _parsed(condition)
    if tree.find(exp.AggFunc) is not None:
        return True
    return None if tree.find(exp.Anonymous) is not None else False


def _parsed(condition: str) -> exp.Expr:
    try:
        check_text(condition)
        trees = [tree for tree in SPARK.parse_into(exp.Condition, condition) if tree is not None]
        for tree in trees:
            check_tree(tree)
    except ParseError as error:
        word = unexpected_word(error)
        raise ConditionFault(f"syntax error near '{word}'" if word else "it is not a condition") from None
    except TokenError:
        raise ConditionFault("a quotation mark is not closed") from None
    except (TooDeep, RecursionError):
        raise ConditionFault("it is nested too deeply") from None
    if len(trees) != 1:
        raise ConditionFault("it must be one condition")
    if trees[0].find(exp.Query) is not None:
        raise ConditionFault("it has a subquery, but a check sees only the rows of the batch")
    return trees[0]
