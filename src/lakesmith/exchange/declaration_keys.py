"""Turn declared values back into the keys of a YAML declaration."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakesmith.declare import checks
from lakesmith.declare.contract import Contract, Drifts, Terms
from lakesmith.declare.forms import Form
from lakesmith.load.check_models import RULE_KEYS
from lakesmith.load.field_types import FieldType, Lists, keys_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Keys = dict[str, Any]
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


def rule_keys(rule: checks.CheckRule) -> tuple[str, Any]:
    """Return the key of a rule and its value."""
    key = RULE_KEYS.get(type(rule), "")
    match rule:
        case checks.RowSql() | checks.BatchSql():
            return key, rule.condition
        case checks.Required():
            return key, list(rule.columns)
        case checks.Predicate():
            return key, rule.function
        case checks.References():
            return key, written_keys(replace(rule, key=() if rule.key == rule.columns else rule.key))
        case checks.Reconcile():
            return key, written_keys(replace(rule, theirs="" if rule.theirs == rule.own else rule.theirs))
        case checks.Bounds():
            at = share_text(float(rule.at)) if rule.at is not None else None
            return rule.of, given(column=rule.column, at=at, min=rule.min, max=rule.max)
        case _:
            return key, written_keys(rule)


def written_keys(declaration: DataclassInstance) -> Keys:
    """Return the keys of a declaration that is its own model, without those that have their default."""
    keys = keys_of(type(declaration))
    values = {each: getattr(declaration, each.name) for each in fields(declaration)}
    return {
        each.name: _text(keys[each.name].kind, value)
        for each, value in values.items()
        if value not in (each.default, {})
    }


def _text(type: FieldType, value: Any) -> Any:
    match type:
        case Form.SHARE:
            return share_text(value)
        case Form.DURATION:
            return duration_text(value)
        case Form.TABLE:
            return str(value)
        case Lists():
            return list(value)
        case _:
            return value


def contract_keys(mode: Contract, terms: Terms) -> Keys:
    """Return the keys below `contract`."""
    drift = {key: getattr(terms.drift, key) for key in Drifts.__dataclass_fields__} if terms.drift else {}
    previous = {
        str(each.major): given(until=each.until.isoformat(), columns=dict(each.columns) or None)
        for each in terms.previous
    }
    return {"mode": mode} | given(
        version=terms.version,
        compatibility=terms.compatibility,
        drift=drift or None,
        previous=previous or None,
        registry=written_keys(terms.registry) if terms.registry else None,
    )


def duration_text(seconds: float | None) -> str | None:
    """Return a duration in the largest unit that represents it exactly."""
    if seconds is None:
        return None
    for decimals in (0, 3):
        for unit, size in _UNITS.items():
            number = format(seconds / size, f".{decimals}f")
            if float(number) * size == seconds and float(number) < 1_000_000:
                return f"{number.rstrip('0').rstrip('.') if decimals else number}{unit}"
    return f"{seconds:.3f}s"


def share_text(share: float | None) -> str | None:
    """Return a share, in percent where that represents it exactly."""
    if share is None:
        return None
    percent = format((Decimal(repr(share)) * 100).normalize(), "f")
    return f"{percent}%" if float(percent) / 100 == share else format(Decimal(repr(share)), "f")


def limit_text(limit: checks.Limit | None) -> str | int | None:
    """Return a tolerance as it is written."""
    if limit is None:
        return None
    return limit.rows if limit.rows is not None else share_text(limit.share)


def exact_number(value: Decimal) -> int | float:
    """Return a number as JSON has it: a whole number without a fraction."""
    return int(value) if value == value.to_integral_value() else float(value)


def given(**keys: Any) -> Keys:
    """Return the keys that have a value."""
    return {key: value for key, value in keys.items() if value is not None}
