"""What was seen in a table's columns becomes promises that its owner may make: proposals, and the YAML to paste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from lakesmith.declare import Replace, Table, TableName, is_identifier
from lakesmith.declare.checks import (
    Bounds,
    CheckRule,
    Freshness,
    In,
    Length,
    NullRate,
    Pattern,
    Range,
    References,
    Required,
    RowCount,
    Unique,
    columns_named,
)
from lakesmith.declare.loads import key_columns
from lakesmith.load.yaml_writer import flow, remark, word
from lakesmith.quality.text_patterns import FORMS
from lakesmith.reports import ColumnProfile, Proposal

FEW_VALUES = 20
"""A column with more values than these is not a list of words."""
_FEW_PART = 0.01
"""Nor is one whose values are not repeated about a hundred times each."""
_LONG_VALUE = 100
_ENOUGH = 100
"""With fewer rows than these, that values differ, or are alike, may well be chance."""
_MOST_NULLS = 0.95
_RECENT = timedelta(days=7)
_AGES = ("1h", "6h", "1d", "2d", "7d", "14d", "30d")
_HOURS = {"1h": 1, "6h": 6, "1d": 24, "2d": 48, "7d": 168, "14d": 336, "30d": 720}
_LETTERS = 25
"""Bounds that need more digits than these say nothing to people."""
_KEY_ENDS = ("id", "key", "uuid", "guid", "number", "no", "code", "hash", "sku", "iban", "email")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_KEYS: Mapping[type, str] = {
    Required: "required",
    Unique: "unique",
    In: "in",
    Range: "range",
    Pattern: "pattern",
    Length: "length",
    References: "references",
    Freshness: "freshness",
    RowCount: "row_count",
    NullRate: "null_rate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A column all of whose values are found in the key of another table."""

    column: str
    table: TableName
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known beside the columns."""

    table: Table
    rows: int
    """How many the table has."""
    looked_at: int
    references: tuple[Reference, ...]
    now: datetime

    @property
    def sampled(self) -> bool:
        return self.looked_at < self.rows

    @property
    def whole(self) -> bool:
        """Each batch is the whole table, so that what holds for all rows holds for a batch."""
        return isinstance(self.table.load, Replace)


def named_like_key(column: str) -> bool:
    """Whether the name is that of something which tells rows apart."""
    return column.lower().rpartition("_")[2] in _KEY_ENDS or column.lower().endswith(("id", "uuid"))


def propose(columns: Sequence[ColumnProfile], seen: Seen) -> tuple[Proposal, ...]:
    """What could be promised, and is not yet: first of columns, then of rows and batches."""
    if not seen.looked_at:
        return ()
    usable = [column for column in columns if is_identifier(column.column)]
    found = [each for column in usable for each in _of_column(column, seen)]
    found += _newest(usable, seen)
    found.append(_row_count(seen))
    there = {asked for check in seen.table.checks for asked in _asked(check.rule)}
    new = [each for each in found if each.asked not in there]
    declared = {column.name.lower() for column in seen.table.columns}
    return (*_types(usable, declared), *_named(new, seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A rule that holds, before it has a name."""

    key: str
    column: str | None
    body: object
    reason: str

    @property
    def asked(self) -> tuple[str, tuple[str, ...]]:
        return self.key, (self.column.lower(),) if self.column else ()


def _asked(rule: CheckRule) -> set[tuple[str, tuple[str, ...]]]:
    """The kind of a rule and its columns: a second one of the kind is not proposed."""
    key = rule.of if isinstance(rule, Bounds) else _KEYS.get(type(rule), "")
    columns = () if isinstance(rule, Freshness) else tuple(column.lower() for column in columns_named(rule))
    return {(key, (column,)) for column in columns} if isinstance(rule, Required) else {(key, columns)}


def _of_column(column: ColumnProfile, seen: Seen) -> Iterator[_Found]:
    present = seen.looked_at - column.nulls
    yield from _presence(column, present, seen)
    if not present:
        return
    yield from _uniqueness(column, present, seen)
    for reference in seen.references:
        if reference.column == column.column:
            body = {"columns": [column.column], "table": str(reference.table), "key": [reference.key]}
            yield _Found(
                key="references",
                column=column.column,
                body=body,
                reason=f"every value of {column.column} is in {reference.table}.{reference.key}",
            )
    if listed := _list(column, seen):
        yield listed
    elif column.longest is not None:
        yield from _text(column, present)
    elif not column.masked:
        yield from _bounds(column, present, seen)


def _presence(column: ColumnProfile, present: int, seen: Seen) -> Iterator[_Found]:
    name = column.column
    if not column.nulls:
        told = "has a value in each of " + _counted(seen.looked_at)
        yield _Found(key="required", column=name, body=[name], reason=f"{name} {told}")
    elif present and column.null_rate < _MOST_NULLS:
        most = min(_percent(column.null_rate * 1.5 + 0.01), 99)
        told = f"{name} is empty in {_share(column.null_rate)} of {_counted(seen.looked_at)}"
        yield _Found(key="null_rate", column=name, body={"column": name, "max": f"{most}%"}, reason=told)


def _uniqueness(column: ColumnProfile, present: int, seen: Seen) -> Iterator[_Found]:
    if not column.unique or present < 2 or (present < _ENOUGH and not named_like_key(column.column)):
        return
    told = f"{column.column} has {present:,} values in {_counted(seen.looked_at)}, all different"
    yield _Found(key="unique", column=column.column, body=column.column, reason=told)


def _list(column: ColumnProfile, seen: Seen) -> _Found | None:
    """The values, where they are few and each comes often."""
    values = [each.value for each in column.frequent]
    listed = column.counted and column.distinct == len(values) and 1 < len(values) <= FEW_VALUES
    often = all(each.rows is not None and each.rows > 1 for each in column.frequent)
    short = all(isinstance(value, int) or len(str(value)) <= _LONG_VALUE for value in values)
    if not (listed and often and short) or column.masked or len(values) >= seen.looked_at * _FEW_PART:
        return None
    if column.type not in (*_WHOLE, "string"):
        return None
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    told = f"{column.column} has {len(values)} values in {_counted(seen.looked_at)}"
    return _Found(key="in", column=column.column, body={"column": column.column, "values": ordered}, reason=told)


def _text(column: ColumnProfile, present: int) -> Iterator[_Found]:
    name = column.column
    form = next((form for form in FORMS if form.name == column.form), None)
    if form:
        told = f"every value of {name} looks like this: {form.name}"
        yield _Found(key="pattern", column=name, body={"column": name, "matches": form.matches}, reason=told)
    shortest, longest = column.shortest or 0, column.longest or 0
    if (form and form.length) or not longest:
        return
    body: dict[str, object] = {"column": name}
    if shortest == longest and present >= _ENOUGH:
        body |= {"min": shortest, "max": longest}
        told = f"every value of {name} has {longest} characters"
    else:
        if shortest:
            body["min"] = 1
        body["max"] = _roomy(longest)
        span = str(longest) if shortest == longest else f"{shortest} to {longest}"
        told = f"the values of {name} have {span} characters"
    yield _Found(key="length", column=name, body=body, reason=told)


def _bounds(column: ColumnProfile, present: int, seen: Seen) -> Iterator[_Found]:
    low, high, name = column.min, column.max, column.column
    if column.type in _TIMES:
        if isinstance(low, date) and isinstance(high, date) and (first := _first_day(low, high)):
            told = f"{name} begins with {low.isoformat()}; what comes is later"
            yield _Found(key="range", column=name, body={"column": name, "min": first}, reason=told)
        return
    if not isinstance(low, int | float | Decimal) or isinstance(low, bool) or column.not_finite:
        return
    assert isinstance(high, int | float | Decimal)
    bounds = _outwards(low, high)
    if bounds is None:
        return
    counts_up = column.type in _WHOLE and (named_like_key(name) or (column.unique and present >= _ENOUGH))
    told = f"{name} lies between {low} and {high}"
    if counts_up:
        if low < 0:
            return
        body: dict[str, object] = {"column": name, "min": min(int(low), 1)}
        told += ", and its numbers go on"
    else:
        body = {"column": name, "min": bounds[0], "max": bounds[1]}
    yield _Found(key="range", column=name, body=body, reason=told)
    if seen.whole and not counts_up and present >= _ENOUGH:
        yield from _middle(column)


def _middle(column: ColumnProfile) -> Iterator[_Found]:
    """Where the mean and the median should stay. Only of tables whose batches are whole: parts of one differ more."""
    name, mean, spread = column.column, column.mean, column.deviation
    if mean is not None and spread:
        room = spread / 2
        if bounds := _outwards(mean - room, mean + room, room=Decimal(0)):
            body = {"column": name, "min": bounds[0], "max": bounds[1]}
            told = f"the mean of {name} is {mean:.6g}, its standard deviation {spread:.6g}"
            yield _Found(key="mean", column=name, body=body, reason=told)
    low, middle, high = (column.quantiles.get(at) for at in ("0.25", "0.5", "0.75"))
    if low is None or middle is None or high is None or not low < middle < high:
        return
    if bounds := _outwards(low, high, room=Decimal(0)):
        body = {"column": name, "at": Decimal("0.5"), "min": bounds[0], "max": bounds[1]}
        told = f"half of the values of {name} lie between {low:.6g} and {high:.6g}, its median is {middle:.6g}"
        yield _Found(key="quantile", column=name, body=body, reason=told)


def _newest(columns: Iterable[ColumnProfile], seen: Seen) -> list[_Found]:
    """That the newest time is recent, for the column that has it."""
    ages: list[tuple[timedelta, str]] = []
    for column in columns:
        if column.type in _TIMES and not column.masked and isinstance(column.max, date):
            age = seen.now - _moment(column.max)
            if -timedelta(hours=1) <= age <= _RECENT:
                ages.append((age, column.column))
    if not ages:
        return []
    age, name = min(ages)
    hours = age.total_seconds() / 3600
    within = next(word for word in _AGES if _HOURS[word] >= max(2 * hours, 1))
    told = f"the newest {name} was {hours:.1f} hours old"
    body = {"column": name, "within": within}
    return [_Found(key="freshness", column=None, body=body, reason=told)]


def _row_count(seen: Seen) -> _Found:
    if seen.whole and seen.rows > 1:
        least = _nice(Decimal(seen.rows) / 2, down=True)
        told = f"the table has {seen.rows:,} rows, and each batch replaces it"
        return _Found(key="row_count", column=None, body={"min": max(1, int(least))}, reason=told)
    told = f"the table has {_counted(seen.rows)}, and a batch brings some of them"
    return _Found(key="row_count", column=None, body={"min": 1}, reason=told)


def _types(columns: Sequence[ColumnProfile], declared: set[str]) -> Iterator[Proposal]:
    """Columns that are not declared, with the types that they have. All else is a check: a promise of a column refuses
    rows, and nothing is to be refused by a guess."""
    for column in columns:
        if column.column.lower() not in declared and is_simple(column.type):
            reason = f"the table has {column.column} as {column.type}"
            yield Proposal(name=column.column, kind="column", rule={"type": column.type}, reason=reason)


def is_simple(kind: str) -> bool:
    """Whether a type is told in full, so that it can be declared."""
    simple = (*_WHOLE, *_TIMES, "string", "boolean", "double", "float", "binary")
    return kind in simple or kind.startswith("decimal(")


def _named(found: Sequence[_Found], seen: Seen) -> Iterator[Proposal]:
    """The checks, each with a name that no other has. What a column promises already is left out."""
    taken = {check.name.lower() for check in seen.table.checks}
    keys = key_columns(seen.table.load)
    for each in found:
        if each.key in ("required", "unique") and _promised(each, seen.table, keys):
            continue
        name = f"{each.column[:200]}_{each.key}" if each.column else each.key
        number = 2
        while name.lower() in taken:
            name = f"{name.removesuffix(f'_{number - 1}')}_{number}"
            number += 1
        taken.add(name.lower())
        sample = f" (in a sample of {_counted(seen.looked_at)})" if seen.sampled and each.key != "row_count" else ""
        rule = {each.key: each.body, "on_fail": "warn"}
        yield Proposal(name=name, kind="check", rule=rule, reason=each.reason + sample)


def _promised(found: _Found, table: Table, load_key: Sequence[str]) -> bool:
    assert found.column
    name = found.column.lower()
    declared = [column for column in table.columns if column.name.lower() == name]
    keys = {column.name.lower() for column in table.columns if column.key}
    of_load = {key.lower() for key in load_key}
    if found.key == "required":
        return any(column.required for column in declared) or name in keys | of_load
    return any(column.unique for column in declared) or keys == {name} or of_load == {name}


def yaml_block(proposals: Sequence[Proposal]) -> str:
    """The proposals as they are pasted into a declaration, each below the reason for it."""
    lines: list[str] = []
    for title, kind in (("columns:", "column"), ("checks:", "check")):
        of_kind = [each for each in proposals if each.kind == kind]
        if of_kind:
            lines.append(title)
        for each in of_kind:
            lines += [f"  {remark(each.reason)}", f"  {word(each.name)}: {flow(each.rule)}"]
    return "".join(f"{line}\n" for line in lines)


def _outwards(low: object, high: object, room: Decimal = Decimal("0.5")) -> tuple[object, object] | None:
    """Round numbers around two others, away by a part of their distance. What is not negative stays so."""
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
        bounds = _plain(below), _plain(above)
    return bounds if all(len(flow(bound)) <= _LETTERS for bound in bounds) else None


def _plain(number: Decimal) -> int | Decimal:
    return int(number) if number == number.to_integral_value() else number.normalize()


def _nice(number: Decimal, *, down: bool) -> Decimal:
    """The next number of one digit."""
    step = Decimal(10) ** number.adjusted()
    return (number / step).to_integral_value(ROUND_FLOOR if down else ROUND_CEILING) * step


def _roomy(longest: int) -> int:
    return int(_nice(Decimal(longest) * Decimal("1.5"), down=False))


def _first_day(low: date, high: date) -> str | None:
    """The first day of the year that lies before the least by half of the distance to the greatest."""
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


def _percent(share: float) -> int:
    return int(-(-share * 100 // 1))


def _share(rate: float) -> str:
    return f"{rate:.1%}" if rate >= 0.001 else "less than 0.1%"
