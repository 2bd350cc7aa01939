"""Read quality rules of the Open Data Contract Standard as checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from lakesmith.declare.names import unique_name
from lakesmith.exchange.declaration_keys import Keys, given, share_text
from lakesmith.exchange.document_part import DocumentPart
from lakesmith.exchange.odcs_sql import PROPERTY, VENDOR, batch_condition, row_condition
from lakesmith.exchange.request import identifier, loader_problems
from lakesmith.sql import quoted, sql_value

_OPERATORS = {
    "mustBe": "=",
    "mustNotBe": "<>",
    "mustBeGreaterThan": ">",
    "mustBeGreaterOrEqualTo": ">=",
    "mustBeLessThan": "<",
    "mustBeLessOrEqualTo": "<=",
    "mustBeBetween": "between",
    "mustNotBeBetween": "not between",
}
_OLD_NAMES = {
    "nullCheck": "nullValues",
    "nullCount": "nullValues",
    "missingCount": "missingValues",
    "invalidCount": "invalidValues",
    "validValues": "invalidValues",
    "duplicateCount": "duplicateValues",
}
_MILD = ("info", "warning", "warn", "low", "minor")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedChecks:
    """Collects checks, and the conditions of columns."""

    checks: dict[str, Keys] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)

    def add(self, part: DocumentPart, column: str | None) -> None:
        """Import a rule, or report why not."""
        custom = part.custom("onFail", "where", "failAbove", "owner", "within")
        rule = _rule(part, column, custom)
        if isinstance(rule, str):
            part.drop(rule)
            return
        name, description, severity = part.text("name"), part.text("description"), part.text("severity")
        condition = rule.get("sql")
        if column and not (name or description or custom or severity) and condition and column not in self.conditions:
            self.conditions[column] = condition
            return
        mild = "warn" if severity and severity.lower() in _MILD else None
        options = given(
            where=custom.get("where"),
            on_fail=custom.get("onFail") or rule.get("on_fail") or mild,
            fail_above=custom.get("failAbove") or rule.get("fail_above"),
            owner=custom.get("owner"),
            description=description,
        )
        self.put(part, name or f"{column or 'table'}_{next(iter(rule))}", rule | options)

    def put(self, part: DocumentPart, name: str, keys: Keys) -> None:
        """Add a check under a unique name, if the loader accepts it."""
        name = unique_name(identifier(name) or "check", self.checks)
        if problems := loader_problems({"checks": {name: keys}}):
            part.drop("; ".join(problem.what for problem in problems))
        else:
            self.checks[name] = keys

    def add_if_new(self, part: DocumentPart, name: str, keys: Keys) -> None:
        """Add a check unless its rule exists already."""
        rule = next(iter(keys.items()))
        if not any(rule in check.items() for check in self.checks.values()):
            self.put(part, name, keys)


def _rule(part: DocumentPart, column: str | None, custom: Keys) -> Keys | str:
    """Return the keys of the check, or the reason why there is none."""
    match part.text("type") or "library":
        case "library":
            return _library(part, column, custom)
        case "sql":
            return _sql(part, column, custom)
        case "custom":
            return _custom(part)
        case _:
            return "a rule in natural language cannot be evaluated"


def _custom(part: DocumentPart) -> Keys | str:
    engine, rule = part.text("engine"), part.take("implementation")
    if engine != VENDOR:
        return f"rules of the engine {engine} are not supported"
    return dict(rule) if isinstance(rule, dict) and len(rule) == 1 else "the implementation is not one rule"


def _library(part: DocumentPart, column: str | None, custom: Keys) -> Keys | str:
    metric, old = part.text("metric"), part.text("rule")
    metric = metric or (_OLD_NAMES.get(old, old) if old else None)
    arguments = part.take("arguments") or {}
    # Documents of 3.0 have them beside the rule.
    valid = arguments.get("validValues") or part.take("validValues")
    comparison = _comparison(part)
    percent = part.text("unit") == "percent"
    if metric == "rowCount":
        return _row_count(comparison)
    columns = list(arguments.get("properties") or ([column] if column else []))
    if not columns:
        return "it names no property"
    only = columns[0]
    limit = _limit(comparison, percent)
    if limit is None:
        return "its bound has no equivalent in a check"
    rule: Keys
    match metric:
        case "nullValues" if percent and limit and len(columns) == 1:
            return {"null_rate": {"column": only, "max": limit["fail_above"]}}
        case "nullValues":
            rule = {"required": columns}
        case "missingValues":
            missing = list(arguments.get("missingValues") or [None])
            values = [sql_value(value) for value in missing if value is not None]
            present = [f"{quoted(only)} IS NOT NULL"] if None in missing else []
            listed = [f"{quoted(only)} NOT IN ({', '.join(values)})"] if values else []
            rule = {"sql": " AND ".join(present + listed)} if values else {"required": columns}
        case "invalidValues" if valid:
            rule = {"in": {"column": only, "values": list(valid)}}
        case "invalidValues" if arguments.get("pattern"):
            rule = {"pattern": {"column": only, "matches": arguments["pattern"]}}
        case "duplicateValues":
            within = {"within": custom["within"]} if custom.get("within") else {}
            rule = {"unique": {"columns": columns, **within}}
        case _:
            return f"the metric {metric} is not supported"
    return rule | limit


def _comparison(part: DocumentPart) -> tuple[str, Any] | None:
    """Return the operator and its operand, or None when there is not exactly one."""
    comparisons = [(sign, part.take(key)) for key, sign in _OPERATORS.items()]
    written = [(sign, value) for sign, value in comparisons if value is not None]
    return written[0] if len(written) == 1 else None


def _limit(comparison: tuple[str, Any] | None, percent: bool) -> Keys | None:
    """Return the keys for tolerated rows, empty when none are; None when it is another kind of bound."""
    match comparison:
        case None:
            return {}
        case ("=" | "<=", value) if value == 0:
            return {}
        case ("<" | "<=" as sign, int() | float() | Decimal() as value):
            if percent:
                share = float(Decimal(str(value)) / 100)
                return {"fail_above": share_text(share), "on_fail": "warn"} if 0 < share < 1 else None
            most = int(value) if sign == "<=" or value != int(value) else int(value) - 1
            return {"fail_above": most, "on_fail": "warn"} if most > 0 else {}
        case _:
            return None


def _row_count(comparison: tuple[str, Any] | None) -> Keys | str:
    match comparison:
        case (">=" | ">" as sign, value):
            return {"row_count": {"min": value + 1 if sign == ">" else value}}
        case ("<=" | "<" as sign, value):
            return {"row_count": {"max": value - 1 if sign == "<" else value}}
        case ("=", value):
            return {"row_count": {"min": value, "max": value}}
        case ("between", [least, most]):
            return {"row_count": {"min": least, "max": most}}
        case _:
            return "its bound on the number of rows has no equivalent in a check"


def _sql(part: DocumentPart, column: str | None, custom: Keys) -> Keys | str:
    query, comparison = part.text("query") or "", _comparison(part)
    where = custom.get("where")
    if column:
        query = PROPERTY.sub(lambda _: column, query)
    if comparison == ("=", 0) and comparison[1] is not False and (condition := row_condition(query, where)):
        return {"sql": condition}
    aggregate = batch_condition(query, comparison) if comparison else None
    if aggregate is None:
        return "the query is more than a condition on the table's rows or an aggregate of them"
    condition, query_where = aggregate
    if where and query_where != where:
        return "its query and its `where` differ"
    return {"expect": condition} | ({"where": query_where} if query_where else {})
