"""Compile a rule on rows to a Spark SQL condition. A row breaks the rule when the condition is false, not NULL."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from lakesmith.declare.checks import (
    In,
    Length,
    Pattern,
    Predicate,
    Range,
    References,
    Required,
    RowRule,
    RowSql,
    Unique,
)
from lakesmith.declare.forms import Value
from lakesmith.sql import literal, quoted


def condition_of(rule: RowRule, flag: str) -> str:
    """Return SQL over the row. `flag` names the boolean column with the result of rules that need more than the row."""
    match rule:
        case RowSql():
            return rule.condition
        case Required():
            return " AND ".join(f"{quoted(column)} IS NOT NULL" for column in rule.columns)
        case In():
            return f"{quoted(rule.column)} IN ({', '.join(map(sql_value, rule.values))})"
        case Range():
            least = [f"{quoted(rule.column)} >= {sql_value(rule.min)}"] if rule.min is not None else []
            most = [f"{quoted(rule.column)} <= {sql_value(rule.max)}"] if rule.max is not None else []
            return " AND ".join(least + most)
        case Pattern():
            return f"{quoted(rule.column)} RLIKE {literal(rule.matches)}"
        case Length():
            length = f"char_length({quoted(rule.column)})"
            least = [f"{length} >= {rule.min}"] if rule.min is not None else []
            most = [f"{length} <= {rule.max}"] if rule.max is not None else []
            return " AND ".join(least + most)
        case Unique() | References() | Predicate():
            return quoted(flag)
        case _:
            assert_never(rule)


def needs_flag(rule: RowRule) -> bool:
    """Whether the rule needs other rows, another table or Python."""
    return isinstance(rule, Unique | References | Predicate)


def reason_of(rule: RowRule) -> str:
    """Return the reason that a row gets when it breaks the rule."""
    match rule:
        case RowSql():
            return f"not {rule.condition}"
        case Required():
            return f"{' or '.join(rule.columns)} is NULL"
        case Unique(columns=columns, within=within):
            return f"another row of the {within} has the same {', '.join(columns)}"
        case In():
            return f"{rule.column} is not one of {', '.join(map(str, rule.values))}"
        case Range():
            return f"{rule.column} is not {_between(rule.min, rule.max)}"
        case Pattern():
            return f"{rule.column} does not match {rule.matches}"
        case Length():
            return f"{rule.column} does not have {_between(rule.min, rule.max)} characters"
        case References():
            return f"{', '.join(rule.columns)} is not in {rule.table}"
        case Predicate():
            return f"not {rule.function}"
        case _:
            assert_never(rule)


def _between(least: object, most: object) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"between {least} and {most}"


def sql_value(value: Value) -> str:
    """Return the value as an SQL literal. Spark compares text with a date or time column as the column's type."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case str():
            return literal(value)
        case _:
            assert_never(value)
