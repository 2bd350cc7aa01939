"""Propose checks and column types from a table's profile, with the YAML to paste."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from lakesmith.declare import Replace, Table, TableName, is_identifier
from lakesmith.declare.checks import Bounds, CheckRule, Freshness, Required, columns_named
from lakesmith.declare.loads import key_columns
from lakesmith.declare.names import unique_name
from lakesmith.declare.spark_type import INTEGER_DIGITS, SIMPLE_TYPES, DecimalType, read_type
from lakesmith.load.check_models import RULE_KEYS
from lakesmith.load.yaml_writer import yaml_block, yaml_flow
from lakesmith.quality.text_patterns import TEXT_PATTERNS
from lakesmith.reports import ColumnProfile, Proposal

FEW_VALUES = 20
"""A column with more distinct values gets no `in` check."""
_MAX_DISTINCT_SHARE = 0.01
"""Neither does one whose values repeat fewer than about a hundred times each."""
_LONG_VALUE = 100
_ENOUGH = 100
"""With fewer rows, equal or distinct values may be chance."""
_MOST_NULLS = 0.95
_RECENT = timedelta(days=7)
_HOURS = {"1h": 1, "6h": 6, "1d": 24, "2d": 48, "7d": 168, "14d": 336, "30d": 720}
_MAX_DIGITS = 25
"""Bounds with more digits are not proposed: nobody can read them."""
_KEY_SUFFIXES = ("id", "key", "uuid", "guid", "number", "no", "code", "hash", "sku", "iban", "email")
_TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A column whose values are all in the key of another table."""

    column: str
    table: TableName
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledTable:
    """The profiled table and its rows."""

    table: Table
    rows: int
    """The number of rows in the table."""
    profiled_rows: int
    references: tuple[ForeignKey, ...]
    now: datetime

    @property
    def sampled(self) -> bool:
        return self.profiled_rows < self.rows

    @property
    def full_batches(self) -> bool:
        """Each batch replaces the table, so what holds for all rows holds for a batch."""
        return isinstance(self.table.load, Replace)


def _named_like_key(column: str) -> bool:
    """Whether the name is typical of a key."""
    return column.lower().rpartition("_")[2] in _KEY_SUFFIXES or column.lower().endswith(("id", "uuid"))


def propose(columns: Sequence[ColumnProfile], profiled: ProfiledTable) -> tuple[Proposal, ...]:
    """Return proposals that the table does not declare yet: first columns, then checks."""
    if not profiled.profiled_rows:
        return ()
    usable = [column for column in columns if is_identifier(column.column)]
    candidates = [each for column in usable for each in _column_checks(column, profiled)]
    candidates += [*_freshness(usable, profiled), _row_count(profiled)]
    existing = {identity for check in profiled.table.checks for identity in _existing_rules(check.rule)}
    new = [each for each in candidates if each.identity not in existing]
    declared = {column.name.lower() for column in profiled.table.columns}
    return (*_types(usable, declared), *_named(new, profiled))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A rule that the data pass, before it has a name."""

    key: str
    column: str | None
    body: object
    reason: str

    @property
    def identity(self) -> tuple[str, tuple[str, ...]]:
        return self.key, (self.column.lower(),) if self.column else ()


def _existing_rules(rule: CheckRule) -> set[tuple[str, tuple[str, ...]]]:
    """Return the rule's kind and columns: a second rule with the same is not proposed."""
    key = rule.of if isinstance(rule, Bounds) else RULE_KEYS.get(type(rule), "")
    columns = () if isinstance(rule, Freshness) else tuple(column.lower() for column in columns_named(rule))
    return {(key, (column,)) for column in columns} if isinstance(rule, Required) else {(key, columns)}


def _column_checks(column: ColumnProfile, profiled: ProfiledTable) -> Iterator[_Candidate]:
    present = profiled.profiled_rows - column.nulls
    yield from _null_checks(column, present, profiled)
    if not present:
        return
    yield from _unique_check(column, present, profiled)
    for reference in profiled.references:
        if reference.column == column.column:
            body = {"columns": [column.column], "table": str(reference.table), "key": [reference.key]}
            reason = f"every value of {column.column} is in {reference.table}.{reference.key}"
            yield _Candidate(key="references", column=column.column, body=body, reason=reason)
    if listed := _value_list(column, profiled):
        yield listed
    elif column.longest is not None:
        yield from _text_checks(column, present)
    elif not column.masked:
        yield from _range_checks(column, present, profiled)


def _null_checks(column: ColumnProfile, present: int, profiled: ProfiledTable) -> Iterator[_Candidate]:
    name = column.column
    if not column.nulls:
        reason = f"{name} is not NULL in any of {_counted(profiled.profiled_rows)}"
        yield _Candidate(key="required", column=name, body=[name], reason=reason)
    elif present and column.null_rate < _MOST_NULLS:
        most = min(math.ceil((column.null_rate * 1.5 + 0.01) * 100), 99)
        reason = f"{name} is NULL in {_share(column.null_rate)} of {_counted(profiled.profiled_rows)}"
        yield _Candidate(key="null_rate", column=name, body={"column": name, "max": f"{most}%"}, reason=reason)


def _unique_check(column: ColumnProfile, present: int, profiled: ProfiledTable) -> Iterator[_Candidate]:
    if not column.unique or present < 2 or (present < _ENOUGH and not _named_like_key(column.column)):
        return
    reason = f"{column.column} has {present:,} values in {_counted(profiled.profiled_rows)}, all different"
    yield _Candidate(key="unique", column=column.column, body=column.column, reason=reason)


def _value_list(column: ColumnProfile, profiled: ProfiledTable) -> _Candidate | None:
    """Return an `in` check when the values are few and each is frequent."""
    values = [each.value for each in column.frequent]
    listed = column.counted and column.distinct == len(values) and 1 < len(values) <= FEW_VALUES
    often = all(each.rows is not None and each.rows > 1 for each in column.frequent)
    short = all(isinstance(value, int) or len(str(value)) <= _LONG_VALUE for value in values)
    if not (listed and often and short) or column.masked or len(values) >= profiled.profiled_rows * _MAX_DISTINCT_SHARE:
        return None
    if column.type not in (*INTEGER_DIGITS, "string"):
        return None
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    reason = f"{column.column} has {len(values)} values in {_counted(profiled.profiled_rows)}"
    return _Candidate(key="in", column=column.column, body={"column": column.column, "values": ordered}, reason=reason)


def _text_checks(column: ColumnProfile, present: int) -> Iterator[_Candidate]:
    name = column.column
    pattern = next((each for each in TEXT_PATTERNS if each.name == column.pattern), None)
    if pattern:
        reason = f"every value of {name} has the format {pattern.name}"
        yield _Candidate(key="pattern", column=name, body={"column": name, "matches": pattern.matches}, reason=reason)
    shortest, longest = column.shortest or 0, column.longest or 0
    if (pattern and pattern.length) or not longest:
        return
    body: dict[str, object] = {"column": name}
    if shortest == longest and present >= _ENOUGH:
        body |= {"min": shortest, "max": longest}
        reason = f"every value of {name} has {longest} characters"
    else:
        if shortest:
            body["min"] = 1
        body["max"] = int(_round_number(Decimal(longest) * Decimal("1.5"), down=False))
        span = str(longest) if shortest == longest else f"{shortest} to {longest}"
        reason = f"the values of {name} have {span} characters"
    yield _Candidate(key="length", column=name, body=body, reason=reason)


def _range_checks(column: ColumnProfile, present: int, profiled: ProfiledTable) -> Iterator[_Candidate]:
    low, high, name = column.min, column.max, column.column
    if column.type in _TIMES:
        if isinstance(low, date) and isinstance(high, date) and (first := _first_day(low, high)):
            reason = f"{name} starts at {low.isoformat()}; new values are later"
            yield _Candidate(key="range", column=name, body={"column": name, "min": first}, reason=reason)
        return
    if not isinstance(low, int | float | Decimal) or isinstance(low, bool) or column.not_finite:
        return
    assert isinstance(high, int | float | Decimal)
    bounds = _round_bounds(low, high)
    if bounds is None:
        return
    counts_up = column.type in INTEGER_DIGITS and (_named_like_key(name) or (column.unique and present >= _ENOUGH))
    reason = f"{name} is between {low} and {high}"
    if counts_up:
        if low < 0:
            return
        body: dict[str, object] = {"column": name, "min": min(int(low), 1)}
        reason += ", and its numbers increase"
    else:
        body = {"column": name, "min": bounds[0], "max": bounds[1]}
    yield _Candidate(key="range", column=name, body=body, reason=reason)
    if profiled.full_batches and not counts_up and present >= _ENOUGH:
        yield from _typical_value_checks(column)


def _typical_value_checks(column: ColumnProfile) -> Iterator[_Candidate]:
    """Propose bounds for mean and median. Only for tables that each batch replaces: increments vary more."""
    name, mean, spread = column.column, column.mean, column.deviation
    if mean is not None and spread:
        room = spread / 2
        if bounds := _round_bounds(mean - room, mean + room, room=Decimal(0)):
            body = {"column": name, "min": bounds[0], "max": bounds[1]}
            reason = f"the mean of {name} is {mean:.6g}, its standard deviation {spread:.6g}"
            yield _Candidate(key="mean", column=name, body=body, reason=reason)
    low, middle, high = (column.quantiles.get(at) for at in ("0.25", "0.5", "0.75"))
    if low is None or middle is None or high is None or not low < middle < high:
        return
    if bounds := _round_bounds(low, high, room=Decimal(0)):
        body = {"column": name, "at": Decimal("0.5"), "min": bounds[0], "max": bounds[1]}
        reason = f"half of the values of {name} are between {low:.6g} and {high:.6g}, the median is {middle:.6g}"
        yield _Candidate(key="quantile", column=name, body=body, reason=reason)


def _freshness(columns: Iterable[ColumnProfile], profiled: ProfiledTable) -> list[_Candidate]:
    """Propose freshness for the column with the most recent time."""
    ages = [
        (profiled.now - _moment(column.max), column.column)
        for column in columns
        if column.type in _TIMES and not column.masked and isinstance(column.max, date)
    ]
    recent = [(age, name) for age, name in ages if -timedelta(hours=1) <= age <= _RECENT]
    if not recent:
        return []
    age, name = min(recent)
    hours = age.total_seconds() / 3600
    within = next(word for word, size in _HOURS.items() if size >= max(2 * hours, 1))
    reason = f"the newest {name} was {hours:.1f} hours old"
    body = {"column": name, "within": within}
    return [_Candidate(key="freshness", column=None, body=body, reason=reason)]


def _row_count(profiled: ProfiledTable) -> _Candidate:
    if profiled.full_batches and profiled.rows > 1:
        least = _round_number(Decimal(profiled.rows) / 2, down=True)
        reason = f"the table has {profiled.rows:,} rows, and each batch replaces it"
        return _Candidate(key="row_count", column=None, body={"min": max(1, int(least))}, reason=reason)
    reason = f"the table has {_counted(profiled.rows)}, and a batch adds some of them"
    return _Candidate(key="row_count", column=None, body={"min": 1}, reason=reason)


def _types(columns: Sequence[ColumnProfile], declared: set[str]) -> Iterator[Proposal]:
    """Propose types for undeclared columns. The rest are checks that warn: a column promise rejects rows, and a guess
    must not."""
    for column in columns:
        if column.column.lower() not in declared and _is_simple(column.type):
            reason = f"{column.column} is {column.type} in the table"
            yield Proposal(name=column.column, kind="column", rule={"type": column.type}, reason=reason)


def _is_simple(text: str) -> bool:
    """Whether the type is complete, so that it can be declared."""
    type = read_type(text)
    return isinstance(type, DecimalType) or str(type) in SIMPLE_TYPES


def _named(candidates: Sequence[_Candidate], profiled: ProfiledTable) -> Iterator[Proposal]:
    """Return the checks with unique names, without those that a column promises already."""
    taken = {check.name for check in profiled.table.checks}
    keys = key_columns(profiled.table.load)
    for each in candidates:
        if each.key in ("required", "unique") and _promised(each, profiled.table, keys):
            continue
        name = unique_name(f"{each.column[:200]}_{each.key}" if each.column else each.key, taken)
        taken.add(name)
        in_sample = profiled.sampled and each.key != "row_count"
        sample = f" (in a sample of {_counted(profiled.profiled_rows)})" if in_sample else ""
        rule = {each.key: each.body, "on_fail": "warn"}
        yield Proposal(name=name, kind="check", rule=rule, reason=each.reason + sample)


def _promised(candidate: _Candidate, table: Table, load_key: Sequence[str]) -> bool:
    assert candidate.column
    name = candidate.column.lower()
    declared = [column for column in table.columns if column.name.lower() == name]
    keys = {column.name.lower() for column in table.columns if column.key}
    of_load = {key.lower() for key in load_key}
    if candidate.key == "required":
        return any(column.required for column in declared) or name in keys | of_load
    return any(column.unique for column in declared) or keys == {name} or of_load == {name}


def proposals_text(proposals: Sequence[Proposal]) -> str:
    """Return the proposals as YAML to paste into a declaration, each below its reason."""
    lines: list[str] = []
    for key, kind in (("columns", "column"), ("checks", "check")):
        of_kind = {each.name: each for each in proposals if each.kind == kind}
        if of_kind:
            rules = {name: each.rule for name, each in of_kind.items()}
            lines += yaml_block(key, rules, {name: each.reason for name, each in of_kind.items()})
    return "".join(f"{line}\n" for line in lines)


def _round_bounds(low: object, high: object, room: Decimal = Decimal("0.5")) -> tuple[object, object] | None:
    """Return round bounds around two numbers, with some room. Bounds of non-negative numbers stay non-negative."""
    with localcontext(prec=700):
        least, most = Decimal(str(low)), Decimal(str(high))
        span = most - least
        if not span:
            return None
        step = Decimal(10) ** span.adjusted()
        below = ((least - span * room) / step).to_integral_value(ROUND_FLOOR) * step
        above = ((most + span * room) / step).to_integral_value(ROUND_CEILING) * step
        if least >= 0:
            below = max(below, Decimal(0))
        bounds = _plain_number(below), _plain_number(above)
    return bounds if all(len(yaml_flow(bound)) <= _MAX_DIGITS for bound in bounds) else None


def _plain_number(number: Decimal) -> int | Decimal:
    return int(number) if number == number.to_integral_value() else number.normalize()


def _round_number(number: Decimal, *, down: bool) -> Decimal:
    """Return the next number with one significant digit."""
    step = Decimal(10) ** number.adjusted()
    return (number / step).to_integral_value(ROUND_FLOOR if down else ROUND_CEILING) * step


def _first_day(low: date, high: date) -> str | None:
    """Return 1 January of the year that is half the span before the first day."""
    days = (_day(high) - _day(low)).days // 2
    ordinal = _day(low).toordinal() - days
    return date(date.fromordinal(ordinal).year, 1, 1).isoformat() if ordinal > 0 else None


def _day(when: date) -> date:
    return _moment(when).date() if isinstance(when, datetime) else when


def _moment(when: date) -> datetime:
    if not isinstance(when, datetime):
        return datetime(when.year, when.month, when.day, tzinfo=UTC)
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def _counted(rows: int) -> str:
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def _share(rate: float) -> str:
    return f"{rate:.1%}" if rate >= 0.001 else "less than 0.1%"
