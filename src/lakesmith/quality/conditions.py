"""Compile a rule on rows to a Spark SQL condition. A row breaks the rule when the condition is false, not NULL."""

from __future__ import annotations

from typing import assert_never

from lakesmith.declare import checks
from lakesmith.declare.forms import Value
from lakesmith.sql import literal, quoted, sql_value


def condition_of(rule: checks.RowRule, flag: str) -> str:
    """Return SQL over the row. `flag` names the boolean column with the result of rules that need more than the row."""
    match rule:
        case checks.RowSql():
            return rule.condition
        case checks.Required():
            return " AND ".join(f"{quoted(column)} IS NOT NULL" for column in rule.columns)
        case checks.In():
            return f"{quoted(rule.column)} IN ({', '.join(map(sql_value, rule.values))})"
        case checks.Range():
            return _within(quoted(rule.column), rule.min, rule.max)
        case checks.Pattern():
            return f"{quoted(rule.column)} RLIKE {literal(rule.matches)}"
        case checks.Length():
            return _within(f"char_length({quoted(rule.column)})", rule.min, rule.max)
        case checks.Unique() | checks.References() | checks.Predicate():
            return quoted(flag)
        case _:
            assert_never(rule)


def _within(sql: str, least: Value | None, most: Value | None) -> str:
    bounds = ((">=", least), ("<=", most))
    return " AND ".join(f"{sql} {sign} {sql_value(bound)}" for sign, bound in bounds if bound is not None)


def needs_flag(rule: checks.RowRule) -> bool:
    """Whether the rule needs other rows, another table or Python."""
    return isinstance(rule, checks.Unique | checks.References | checks.Predicate)


def reason_of(rule: checks.RowRule) -> str:
    """Return the reason that a row gets when it breaks the rule."""
    match rule:
        case checks.RowSql():
            return f"not {rule.condition}"
        case checks.Required():
            return f"{' or '.join(rule.columns)} is NULL"
        case checks.Unique(columns=columns, within=within):
            return f"another row of the {within} has the same {', '.join(columns)}"
        case checks.In():
            return f"{rule.column} is not one of {', '.join(map(str, rule.values))}"
        case checks.Range():
            return f"{rule.column} is not {_between(rule.min, rule.max)}"
        case checks.Pattern():
            return f"{rule.column} does not match {rule.matches}"
        case checks.Length():
            return f"{rule.column} does not have {_between(rule.min, rule.max)} characters"
        case checks.References():
            return f"{', '.join(rule.columns)} is not in {rule.table}"
        case checks.Predicate():
            return f"not {rule.function}"
        case _:
            assert_never(rule)


def _between(least: object, most: object) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"between {least} and {most}"
