"""Turn written checks and contracts into declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
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
from lakesmith.declare.contract import (
    Contract,
    Drifts,
    Previous,
    QuarantinePolicy,
    Terms,
    drifts,
)
from lakesmith.declare.names import TableName
from lakesmith.errors import DeclarationError, LakesmithError, Place
from lakesmith.load.check_models import (
    RULES,
    CheckBlock,
    ContractBlock,
)
from lakesmith.load.field_types import Block
from lakesmith.load.python import find_predicate


def read_check(name: str, block: CheckBlock, folder: str, problems: list[LakesmithError]) -> Check | None:
    """Return the check; None when it is invalid, with the reason in `problems`. `folder` is the lake's."""
    written = [key for key in RULES if key.removesuffix("_") in block.places]
    if len(written) > 1 or not (written or block.where):
        keys = ", ".join(key.removesuffix("_") for key in written) or "none"
        problems.append(
            DeclarationError(
                "one-of",
                f"the check '{name}' needs exactly one rule, found {keys}",
                at=block.at,
                hint="write one of where, " + ", ".join(key.removesuffix("_") for key in RULES),
            )
        )
        return None
    found = len(problems)
    value = getattr(block, written[0]) if written else block.where
    if value is None:
        return None  # it could not be read, which is already reported
    rule = _rule(written[0] if written else "sql", value)
    if isinstance(rule, Range | Length | Distinct | Bounds | RowCount):
        _check_bounds(name, rule, block.places[written[0]], problems)
    if isinstance(rule, Predicate):
        rule = _predicate(name, rule.function, folder, block, problems)
    problems.extend(
        DeclarationError("bad-severity", f"the check '{name}' {what}", at=block.places[key], hint=hint)
        for key, what, hint in _misplaced_options(rule, block)
    )
    problems.extend(_cannot_work(name, rule, block))
    if len(problems) > found:
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


def _misplaced_options(rule: CheckRule, block: CheckBlock) -> Iterator[tuple[str, str, str]]:
    """Yield the options that do not apply to the rule: the key, what is wrong, and a hint."""
    if not isinstance(rule, RowRule):
        if block.on_fail == "quarantine":
            hint = "on_fail: fail rejects the batch, on_fail: warn reports it"
            yield "on_fail", "is on the batch, and only rows can be quarantined", hint
        if block.fail_above:
            hint = "fail_above is for rules on rows; this one has its own bounds"
            yield "fail_above", "is on the batch, and fail_above counts rows", hint
    if isinstance(rule, SchemaIs | Reconcile) and block.where:
        yield "where", "covers all rows and cannot have `where`", "remove `where`"


def _predicate(name: str, function: str, folder: str, block: CheckBlock, problems: list[LakesmithError]) -> Predicate:
    text = find_predicate(function, folder)
    if text is None:
        problems.append(
            DeclarationError(
                "unknown-function",
                f"the check '{name}' names {function}, which is not a function of a module in the lake's folder",
                at=block.places["python"],
                hint="write module.function for a def at the top of module.py beside lakesmith.yml",
            )
        )
    return Predicate(function=function, folder=folder, text=text or "")


def _cannot_work(name: str, rule: CheckRule, block: CheckBlock) -> Iterator[LakesmithError]:
    what = hint = None
    match rule:
        case References(columns=columns, key=key) if len(columns) != len(key):
            what, hint = f"names {len(columns)} columns and {len(key)} of the other table", "name as many of each"
        case SchemaIs(columns=()) if not rule.types:
            what, hint = "names no column", "give columns, types or both"
        case Pattern(matches=text):
            try:
                re.compile(text)
            except re.error as error:
                # Syntax that only Java knows passes.
                if not set("+{&") & set(text) and "(?" not in text:
                    what, hint = (
                        f"has an invalid regular expression: {error}",
                        "put a backslash before ( [ * + ? to match them literally",
                    )
        case _:
            return
    if what is not None:
        yield DeclarationError("bad-rule", f"the check '{name}' {what}", at=block.at, hint=hint)


def _check_bounds(name: str, rule: Any, at: Place, problems: list[LakesmithError]) -> None:
    change = isinstance(rule, RowCount) and rule.change is not None
    if rule.min is None and rule.max is None and not change:
        problems.append(
            DeclarationError("missing-key", f"the check '{name}' has no bound", at=at, hint="give min, max or both")
        )
    elif _is_reversed(rule.min, rule.max):
        what = f"the check '{name}' can never pass: min {rule.min} is greater than max {rule.max}"
        problems.append(DeclarationError("bad-bounds", what, at=at, hint="swap min and max"))


def _is_reversed(least: Any, most: Any) -> bool:
    numbers = all(isinstance(each, int | Decimal) for each in (least, most))
    return bool(numbers and least > most)


def _severity(rule: CheckRule) -> Severity:
    if isinstance(rule, Drift | Anomaly):
        return "warn"
    return "quarantine" if isinstance(rule, RowRule) else "fail"


def _rule(key: str, written: Any) -> CheckRule:
    match key:
        case "sql":
            return RowSql(condition=written)
        case "expect":
            return BatchSql(condition=written)
        case "required":
            return Required(columns=written)
        case "python":
            return Predicate(function=written)
        case "references":
            return replace(cast(References, written), key=written.key or written.columns)
        case "reconcile":
            return replace(cast(Reconcile, written), theirs=written.theirs or written.own)
        case "sum" | "mean":
            return Bounds(of="sum" if key == "sum" else "mean", column=written.column, min=written.min, max=written.max)
        case "quantile":
            at = Decimal(str(written.at_))
            return Bounds(of="quantile", column=written.column, at=at, min=written.min, max=written.max)
        case _:
            rule: CheckRule = written
            return rule


def _given(block: Block, *keys: str) -> dict[str, Any]:
    """Return the written keys, which the rule has under the same names."""
    return {key: getattr(block, key) for key in keys if getattr(block, key) is not None}


def read_terms(name: TableName, mode: Contract, block: ContractBlock | None, problems: list[LakesmithError]) -> Terms:
    """The parts of the contract besides its columns."""
    if block is None:
        return Terms()
    drift = None
    if block.drift is not None:
        usual = drifts(mode, bronze=name.layer == "bronze")
        declared = _given(block.drift, "new_column", "missing_column", "type", "nullability")
        drift = Drifts(**{key: declared.get(key, getattr(usual, key)) for key in Drifts.__dataclass_fields__})
    previous = []
    for major, older in block.previous.items():
        if not major.isdigit() or major == "0":
            problems.append(
                DeclarationError(
                    "bad-version",
                    f"'{major[:40]}' is not a major version",
                    at=older.at,
                    table=str(name),
                    hint="write the first number of the version alone, such as 1",
                )
            )
            continue
        previous.append(
            Previous(major=int(major), until=older.until, columns=dict(older.columns), declared_at=older.at)
        )
    registry = block.registry and replace(block.registry, subject=block.registry.subject or f"{name}-value")
    return Terms(
        version=block.version,
        compatibility=block.compatibility or "forward",
        drift=drift,
        previous=tuple(previous),
        registry=registry,
    )


def policy_with(policy: QuarantinePolicy | None, otherwise: QuarantinePolicy | None) -> QuarantinePolicy:
    """Return the quarantine policy: the written keys, and `otherwise` for the rest."""
    written = {key: value for key, value in asdict(policy).items() if value is not None} if policy else {}
    return replace(otherwise or QuarantinePolicy(), **written)


def contract_word(written: Contract | ContractBlock | None, default: Contract | None) -> Contract:
    """Return the contract mode."""
    word = written.mode if isinstance(written, ContractBlock) else written
    return word or default or "additive"
