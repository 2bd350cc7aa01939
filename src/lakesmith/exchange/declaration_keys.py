"""Turn declared values back into the keys of a YAML declaration."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, assert_never

from lakesmith.declare.checks import (
    Anomaly,
    BatchSql,
    Bounds,
    Check,
    CheckRule,
    Distinct,
    Drift,
    Freshness,
    In,
    Length,
    Limit,
    NullRate,
    Pattern,
    Predicate,
    Range,
    Reconcile,
    References,
    Required,
    RowCount,
    RowSql,
    SchemaIs,
    Unique,
)
from lakesmith.declare.contract import Contract, Drifts, QuarantinePolicy, Terms
from lakesmith.declare.table import Column

Keys = dict[str, Any]
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


def column_keys(column: Column) -> Keys:
    """Return the keys below a column's name."""
    return _given(
        type=column.type,
        required=column.required or None,
        key=column.key or None,
        unique=column.unique or None,
        check=column.check,
        tags=list(column.tags) or None,
        description=column.description,
        since=column.since,
        deprecated=column.deprecated,
        currency=column.currency,
        timezone=column.timezone,
    )


def check_keys(check: Check) -> Keys:
    """Return the keys below a check's name."""
    key, value = rule_keys(check.rule)
    return {key: value} | _given(
        where=check.where,
        on_fail=check.on_fail,
        fail_above=limit_text(check.fail_above),
        owner=check.owner,
        description=check.description,
    )


def rule_keys(rule: CheckRule) -> tuple[str, Any]:
    """Return the key of a rule and its value."""
    match rule:
        case RowSql():
            return "sql", rule.condition
        case BatchSql():
            return "expect", rule.condition
        case Required():
            return "required", list(rule.columns)
        case Unique():
            within = rule.within if rule.within != "batch" else None
            return "unique", _given(columns=list(rule.columns), within=within)
        case In():
            return "in", {"column": rule.column, "values": list(rule.values)}
        case Range():
            return "range", _given(column=rule.column, min=rule.min, max=rule.max)
        case Pattern():
            return "pattern", {"column": rule.column, "matches": rule.matches}
        case Length():
            return "length", _given(column=rule.column, min=rule.min, max=rule.max)
        case References():
            key = list(rule.key) if rule.key != rule.columns else None
            return "references", _given(columns=list(rule.columns), table=str(rule.table), key=key)
        case Predicate():
            return "python", rule.function
        case Freshness():
            return "freshness", {"column": rule.column, "within": duration_text(rule.within)}
        case RowCount():
            change = share_text(rule.change)
            last = rule.last if rule.last != RowCount().last else None
            return "row_count", _given(min=rule.min, max=rule.max, change=change, last=last)
        case NullRate():
            return "null_rate", {"column": rule.column, "max": share_text(rule.max)}
        case Distinct():
            return "distinct", _given(column=rule.column, min=rule.min, max=rule.max, exact=rule.exact or None)
        case Bounds():
            at = share_text(float(rule.at)) if rule.at is not None else None
            return rule.of, _given(column=rule.column, at=at, min=rule.min, max=rule.max)
        case Reconcile():
            theirs = rule.theirs if rule.theirs != rule.own else None
            tolerance = share_text(rule.tolerance)
            return "reconcile", _given(table=str(rule.table), own=rule.own, theirs=theirs, tolerance=tolerance)
        case Drift():
            return "drift", {"column": rule.column, "method": rule.method, "max": rule.max, "last": rule.last}
        case Anomaly():
            return "anomaly", {
                "of": rule.of,
                "season": rule.season,
                "deviations": rule.deviations,
                "last": rule.last,
            }
        case SchemaIs():
            columns, types = list(rule.columns) or None, dict(rule.types) or None
            return "schema", _given(columns=columns, types=types, exact=rule.exact or None)
        case _:
            assert_never(rule)


def contract_keys(mode: Contract, terms: Terms) -> Keys:
    """Return the keys below `contract`."""
    drift = {key: getattr(terms.drift, key) for key in Drifts.__dataclass_fields__} if terms.drift else {}
    previous = {
        str(each.major): _given(until=each.until.isoformat(), columns=dict(each.columns) or None)
        for each in terms.previous
    }
    registry = terms.registry and {
        "connection": terms.registry.connection,
        "subject": terms.registry.subject,
        "truth": terms.registry.truth,
    }
    return {"mode": mode} | _given(
        version=terms.version,
        compatibility=terms.compatibility,
        drift=drift or None,
        previous=previous or None,
        registry=registry,
    )


def quarantine_keys(policy: QuarantinePolicy) -> Keys:
    """Return the keys below `quarantine`."""
    return _given(
        alert_after=duration_text(policy.alert_after),
        alert_rows=policy.alert_rows,
        discard_after=duration_text(policy.discard_after),
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


def limit_text(limit: Limit | None) -> str | int | None:
    """Return a tolerance as it is written."""
    if limit is None:
        return None
    return limit.rows if limit.rows is not None else share_text(limit.share)


def _given(**keys: Any) -> Keys:
    return {key: value for key, value in keys.items() if value is not None}
