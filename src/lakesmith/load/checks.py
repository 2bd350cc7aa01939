"""Turn written checks and contracts into declarations."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

from lakesmith.declare.checks import (
    Anomaly,
    BatchSql,
    Bounds,
    Check,
    CheckRule,
    Distinct,
    Drift,
    Length,
    Pattern,
    Predicate,
    Range,
    Reconcile,
    References,
    Required,
    RowCount,
    RowRule,
    RowSql,
    SchemaIs,
    Severity,
)
from lakesmith.declare.contract import Contract, Previous, Terms, drifts
from lakesmith.declare.names import TableName
from lakesmith.load.check_models import RULES, CheckBlock, ContractBlock
from lakesmith.load.field_types import written_keys
from lakesmith.load.problems import ProblemList
from lakesmith.load.python import find_predicate


def read_check(name: str, block: CheckBlock, folder: str, problems: ProblemList) -> Check | None:
    """Return the check; None when it is invalid, with the reason in `problems`. `folder` is the lake's."""
    written = [key for key in RULES if key.removesuffix("_") in block.places]
    if len(written) > 1 or not (written or block.where):
        keys = ", ".join(key.removesuffix("_") for key in written) or "none"
        hint = "write one of where, " + ", ".join(key.removesuffix("_") for key in RULES)
        problems.add_error("one-of", f"the check '{name}' needs exactly one rule, found {keys}", block.at, hint)
        return None
    value = getattr(block, written[0]) if written else block.where
    if value is None:
        return None  # it could not be read, which is already reported
    rule = _rule(written[0] if written else "sql", value, folder)
    before = len(problems)
    _check_rule(f"the check '{name}'", rule, block, written[0] if written else "where", problems)
    if len(problems) > before:
        return None
    return Check(
        name=name,
        rule=rule,
        on_fail=block.on_fail or _severity(rule),
        where=block.where if written else None,
        fail_above=block.fail_above,
        owner=block.owner,
        description=block.description,
        declared_at=block.at,
    )


def _check_rule(check: str, rule: CheckRule, block: CheckBlock, key: str, problems: ProblemList) -> None:
    """Report what is wrong with a rule and its options."""
    at = block.places[key.removesuffix("_")]
    if not isinstance(rule, RowRule):
        if block.on_fail == "quarantine":
            what = f"{check} is on the batch, and only rows can be quarantined"
            hint = "on_fail: fail rejects the batch, on_fail: warn reports it"
            problems.add_error("bad-severity", what, block.places["on_fail"], hint)
        if block.fail_above:
            what = f"{check} is on the batch, and fail_above counts rows"
            hint = "fail_above is for rules on rows; this one has its own bounds"
            problems.add_error("bad-severity", what, block.places["fail_above"], hint)
    if isinstance(rule, SchemaIs | Reconcile) and block.where:
        what = f"{check} covers all rows and cannot have `where`"
        problems.add_error("bad-severity", what, block.places["where"], "remove `where`")
    match rule:
        case RowCount(min=None, max=None, change=float()):
            return
        case Range() | Length() | Distinct() | Bounds() | RowCount() if rule.min is None and rule.max is None:
            problems.add_error("missing-key", f"{check} has no bound", at, "give min, max or both")
        case Range() | Length() | Distinct() | Bounds() | RowCount() if _is_reversed(rule.min, rule.max):
            what = f"{check} can never pass: min {rule.min} is greater than max {rule.max}"
            problems.add_error("bad-bounds", what, at, "swap min and max")
        case Predicate(text=""):
            what = f"{check} names {rule.function}, which is not a function of a module in the lake's folder"
            hint = "write module.function for a def at the top of module.py beside lakesmith.yml"
            problems.add_error("unknown-function", what, at, hint)
        case References(columns=columns, key=others) if len(columns) != len(others):
            what = f"{check} names {len(columns)} columns and {len(others)} of the other table"
            problems.add_error("bad-rule", what, block.at, "name as many of each")
        case SchemaIs(columns=()) if not rule.types:
            problems.add_error("bad-rule", f"{check} names no column", block.at, "give columns, types or both")
        case Pattern(matches=text):
            try:
                re.compile(text)
            except re.error as error:
                # Syntax that only Java knows passes.
                if not set("+{&") & set(text) and "(?" not in text:
                    what = f"{check} has an invalid regular expression: {error}"
                    hint = "put a backslash before ( [ * + ? to match them literally"
                    problems.add_error("bad-rule", what, block.at, hint)


def _is_reversed(least: object, most: object) -> bool:
    return isinstance(least, int | Decimal) and isinstance(most, int | Decimal) and least > most


def _severity(rule: CheckRule) -> Severity:
    if isinstance(rule, Drift | Anomaly):
        return "warn"
    return "quarantine" if isinstance(rule, RowRule) else "fail"


def _rule(key: str, written: Any, folder: str) -> CheckRule:
    match key:
        case "sql":
            return RowSql(condition=written)
        case "expect":
            return BatchSql(condition=written)
        case "required":
            return Required(columns=written)
        case "python":
            return Predicate(function=written, folder=folder, text=find_predicate(written, folder) or "")
        case "references":
            return replace(cast(References, written), key=written.key or written.columns)
        case "reconcile":
            return replace(cast(Reconcile, written), theirs=written.theirs or written.own)
        case "sum" | "mean":
            return Bounds(of="sum" if key == "sum" else "mean", **written_keys(written))
        case "quantile":
            at = Decimal(str(written.at_))
            return Bounds(of="quantile", column=written.column, at=at, min=written.min, max=written.max)
        case _:
            return cast(CheckRule, written)


def read_terms(name: TableName, mode: Contract, block: ContractBlock | None, problems: ProblemList) -> Terms:
    """Return the parts of the contract besides its columns."""
    if block is None:
        return Terms()
    drift = None
    if block.drift is not None:
        drift = replace(drifts(mode, bronze=name.layer == "bronze"), **written_keys(block.drift))
    previous = []
    for major, older in block.previous.items():
        if not major.isdigit() or major == "0":
            hint = "write the first number of the version alone, such as 1"
            problems.add_error("bad-version", f"'{major[:40]}' is not a major version", older.at, hint)
            continue
        columns = dict(older.columns)
        previous.append(Previous(major=int(major), until=older.until, columns=columns, declared_at=older.at))
    registry = block.registry and replace(block.registry, subject=block.registry.subject or f"{name}-value")
    return Terms(
        version=block.version,
        compatibility=block.compatibility or "forward",
        drift=drift,
        previous=tuple(previous),
        registry=registry,
    )
