"""The rules of a table as Spark SQL text: for each row the rules that it breaks, one bit a rule."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lakesmith.columns import CORRUPT, FAILED, FLAG, RESCUED
from lakesmith.declare import Changes, Source, Table
from lakesmith.declare.checks import Limit, References, Severity, Unique
from lakesmith.declare.checks import RowRule as AskedOfRow
from lakesmith.declare.contract import Reaction
from lakesmith.declare.loads import OPS, key_columns, time_column
from lakesmith.errors import Place
from lakesmith.quality.conditions import condition_of, needs_flag, reason_of
from lakesmith.quality.measures import Measure, measures_of
from lakesmith.sql import literal, quoted

Outcome = Severity | Literal["discard"]
"""What becomes of a row or a batch; `discard` drops the row and counts it."""
_NONE = "CAST(array() AS array<string>)"
_BITS = 60
"""So many rules have their bits in one number."""
UNREADABLE = "unreadable"
"""The rule that a row which could not be parsed has broken."""
NEW_COLUMN = "new_column"
"""The rule that a row with a field which the table does not have has broken, where none may come."""
LIST_PLACE = "\\[[0-9]+\\]"
"""A regular expression: the place in a list, in the name under which a value is put beside its row."""
MISFIT = "type"
"""The rule that a row with a value which does not fit its column has broken, where none may be put beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A condition on one row. A row breaks it when it is false; unknown (NULL) is not false, as in SQL."""

    name: str
    condition: str
    severity: Outcome
    reason: str
    """What is said of a row that breaks it."""
    limit: Limit | None = None
    """The batch is refused when more rows break it."""
    where: str | None = None
    """SQL: only these rows are asked."""
    asks: AskedOfRow | None = None
    """What a flag has to tell, where one row alone cannot answer."""
    flag: str = ""
    """The column of the flag."""
    owner: str | None = None
    declared_at: Place

    @property
    def version(self) -> str:
        """Changes when the rule asks something else."""
        return hashlib.sha256(f"{self.condition}|{self.where}|{self.asks}".encode()).hexdigest()[:8]

    @property
    def met(self) -> str:
        """SQL, never NULL: the row does not break it."""
        met = f"coalesce(({self.condition}), true)"
        # First which rows are asked: of others the condition may be one that cannot be computed.
        return f"(NOT coalesce(({self.where}), false) OR {met})" if self.where else met


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules of a table."""

    rows: tuple[RowRule, ...]
    batch: tuple[Measure, ...]

    @property
    def gate(self) -> bool:
        """Something has to be judged before the commit, so the batch is held until then."""
        severities = [*(rule.severity for rule in self.rows), *(rule.severity for rule in self.batch)]
        return "fail" in severities or any(rule.limit for rule in self.rows)

    @property
    def sets_aside(self) -> bool:
        """Some rows may not be written."""
        return any(rule.severity in ("quarantine", "discard") for rule in self.rows)

    @property
    def flags(self) -> tuple[RowRule, ...]:
        """The rules that one row alone cannot answer."""
        return tuple(rule for rule in self.rows if rule.asks is not None)

    def failed(self) -> dict[str, str]:
        """SQL by column: numbers whose bits are the rules that a row broke."""
        return {
            f"{FAILED}_{number}": _bits(self.rows[start : start + _BITS])
            for number, start in enumerate(range(0, len(self.rows), _BITS))
        }

    def broke(self, rule: RowRule) -> str:
        """SQL over these numbers: the row broke the rule."""
        number, bit = divmod(self.rows.index(rule), _BITS)
        return f"({FAILED}_{number} & {1 << bit}L) <> 0"

    def has_bit(self, numbers: Sequence[int], index: int) -> bool:
        """Whether such numbers say that the row broke the rule."""
        number, bit = divmod(index, _BITS)
        return bool(numbers[number] >> bit & 1)

    def refused(self) -> str:
        """SQL over these numbers: the row goes to quarantine."""
        return self._any("quarantine")

    def discarded(self) -> str:
        """SQL over these numbers: the row is dropped."""
        return self._any("discard")

    def broken(self, rule: RowRule) -> str:
        """SQL aggregate: how many rows broke a rule."""
        return f"count_if({self.broke(rule)})"

    def names(self) -> str:
        """SQL over these numbers: the names of the rules that the row broke, in order."""
        return self._listed([literal(rule.name) for rule in self.rows])

    def reasons(self) -> str:
        """SQL over these numbers: the reason of each."""
        return self._listed([literal(rule.reason) for rule in self.rows])

    def versions(self) -> str:
        """SQL over these numbers: the version of each."""
        return self._listed([literal(rule.version) for rule in self.rows])

    def _listed(self, texts: Sequence[str]) -> str:
        if not self.rows:
            return _NONE
        told = zip(self.rows, texts, strict=True)
        # No lambda: one in a row's expressions keeps Spark from compiling the pass as a whole.
        cases = ", ".join(f"CASE WHEN {self.broke(rule)} THEN {text} ELSE '' END" for rule, text in told)
        return f"array_remove(array({cases}), '')"

    def _any(self, severity: Outcome) -> str:
        masks: dict[int, int] = {}
        for index, rule in enumerate(self.rows):
            if rule.severity == severity:
                number, bit = divmod(index, _BITS)
                masks[number] = masks.get(number, 0) | 1 << bit
        return " OR ".join(f"({FAILED}_{number} & {mask}L) <> 0" for number, mask in masks.items()) or "false"


def _bits(rules: Sequence[RowRule]) -> str:
    fine = " AND ".join(rule.met for rule in rules)
    bits = " + ".join(f"CASE WHEN {rule.met} THEN 0L ELSE {1 << bit}L END" for bit, rule in enumerate(rules))
    # Nearly all rows are fine, and must not pay for the others.
    return f"CASE WHEN {fine} THEN 0L ELSE {bits} END"


def only_readability(rules: Rules) -> bool:
    """Whether nothing is checked but that a record can be read."""
    return not rules.batch and [rule.name for rule in rules.rows] == [UNREADABLE]


@dataclass(slots=True, kw_only=True)
class _Making:
    """The rules of a table, as they are found one after the other."""

    table: Table
    rows: list[RowRule] = field(default_factory=list)

    def refuse(self, name: str, condition: str, reason: str, at: Place, severity: Outcome = "quarantine") -> None:
        self.rows.append(RowRule(name=name, condition=condition, severity=severity, reason=reason, declared_at=at))

    def ask(self, name: str, rule: AskedOfRow, at: Place) -> None:
        """A rule that a promise about columns stands for."""
        flag = f"{FLAG}{len(self.rows)}"
        self.rows.append(
            RowRule(
                name=name,
                condition=condition_of(rule, flag),
                severity="quarantine",
                reason=reason_of(rule),
                asks=rule if needs_flag(rule) else None,
                flag=flag,
                declared_at=at,
            )
        )


_SEVERITIES: Mapping[Reaction, Outcome] = {
    "evolve": "warn",
    "freeze": "fail",
    "quarantine": "quarantine",
    "discard": "discard",
}


def rules_of(
    table: Table,
    *,
    casts: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    missing: Sequence[str] = (),
    undeclared: Sequence[str] = (),
) -> Rules:
    """The rules that follow from a table's columns, load and checks.

    `casts` names the columns whose values are cast to the declared type, and for each the column that holds the value
    before the cast: a value that the cast would turn into NULL breaks the rule `column.type`. `fields` are the paths of
    the fields that a bronze table has; `missing` are declared columns that the batch does not bring, and `undeclared`
    are columns that it brings and the contract does not let in.
    """
    made, drift = _Making(table=table), table.drift
    if isinstance(table.origin, Source):
        made.rows.append(_unreadable(table.declared_at))
        _rescued(made, fields)
    columns = {column.name: column for column in table.columns}
    for name, before in (casts or {}).items():
        fits = f"{quoted(before)} IS NULL OR {quoted(name)} IS NOT NULL"
        what, at = f"{name} is not a {columns[name].type}", columns[name].declared_at
        made.refuse(f"{name}.type", fits, what, at, _SEVERITIES[drift.type])
    for name in missing if drift.missing_column != "evolve" else ():
        at, reaction = columns[name].declared_at, _SEVERITIES[drift.missing_column]
        made.refuse(f"{name}.missing", "false", f"the batch does not bring {name}", at, reaction)
    if undeclared:
        reason = f"the query also gives {', '.join(undeclared)}"
        made.refuse(NEW_COLUMN, "false", reason, table.declared_at, _of_new_column(drift.new_column))
    for name, (reason, told) in _required(table).items():
        if name in missing and name not in key_columns(table.load):
            continue
        at = columns[name].declared_at if name in columns else table.declared_at
        made.refuse(f"{name}.required", _has_value(table, name), reason, at, told)
    if isinstance(table.load, Changes):
        op = table.load.op
        made.refuse(f"{op}.known", f"({kind(table.load)}) IS NOT NULL", f"{op} is no known change", table.declared_at)
    for column in table.columns:
        if column.check:
            made.refuse(f"{column.name}.check", column.check, f"not {column.check}", column.declared_at)
        if column.unique:
            made.ask(f"{column.name}.unique", Unique(columns=(column.name,)), column.declared_at)
    keys = tuple(column.name for column in table.columns if column.key)
    if keys and set(keys) != set(key_columns(table.load)):
        made.ask("key.unique", Unique(columns=keys), columns[keys[0]].declared_at)
    for check in table.checks:
        if check.row_rule is None:
            continue
        flag = f"{FLAG}{len(made.rows)}"
        made.rows.append(
            RowRule(
                name=check.name,
                condition=condition_of(check.row_rule, flag),
                severity=check.on_fail,
                reason=check.description or reason_of(check.row_rule),
                limit=check.fail_above,
                where=check.where,
                asks=check.row_rule if needs_flag(check.row_rule) else None,
                flag=flag,
                owner=check.owner or table.owner,
                declared_at=check.declared_at,
            )
        )
    return Rules(rows=tuple(made.rows), batch=measures_of(table))


def _rescued(made: _Making, fields: Sequence[str]) -> None:
    """What is put beside a bronze row, because it has no column or does not fit it, may be more than is let in."""
    table, drift = made.table, made.table.drift
    if drift.type == "evolve" and drift.new_column == "evolve":
        return
    known = ", ".join(literal(path.lower()) for path in fields)
    # Values in lists are named by their place in it, which no column has.
    beside = f"json_object_keys(regexp_replace(lower({RESCUED}), {literal(LIST_PLACE)}, ''))"
    known = f"array({known})" if known else _NONE
    if drift.new_column != "evolve":
        reason = "it has a field that the contract does not let in"
        fine = f"{RESCUED} IS NULL OR size(array_except({beside}, {known})) = 0"
        made.refuse(NEW_COLUMN, fine, reason, table.declared_at, _of_new_column(drift.new_column))
    if drift.type != "evolve":
        reason = "it has a value that is not of the type which the contract promises"
        fine = f"{RESCUED} IS NULL OR size(array_intersect({beside}, {known})) = 0"
        made.refuse(MISFIT, fine, reason, table.declared_at, _SEVERITIES[drift.type])


def unreadable_version() -> str:
    """By what a row in quarantine is known that could not be read."""
    return _unreadable(Place("")).version


def _unreadable(at: Place) -> RowRule:
    return RowRule(
        name=UNREADABLE,
        condition=f"{CORRUPT} IS NULL",
        severity="quarantine",
        reason="the record could not be read",
        declared_at=at,
    )


def _of_new_column(reaction: Reaction) -> Outcome:
    """Of a field that is discarded only the values are left out: the row itself is fine, and counted."""
    return "warn" if reaction == "discard" else _SEVERITIES[reaction]


def looked_up(rules: Rules) -> tuple[References, ...]:
    """The references to other tables, whose versions a batch pins."""
    return tuple(rule.asks for rule in rules.rows if isinstance(rule.asks, References))


def kind(load: Changes) -> str:
    """SQL: what a row of a stream of changes means, a value of `OPS`, or NULL when that is not known."""
    known = {word: told for word, told in OPS.items() if load.amounts or told not in ("correction", "reversal")}
    pairs = ", ".join(f"{literal(word)}, {literal(told)}" for word, told in known.items())
    return f"try_element_at(map({pairs}), upper(CAST({quoted(load.op)} AS string)))"


def _required(table: Table) -> dict[str, tuple[str, Outcome]]:
    """The columns that have to have a value, each with the reason that a row without it is given."""
    lenient = _SEVERITIES[table.drift.nullability]
    promised = [column.name for column in table.columns if column.required or column.key]
    told: dict[str, tuple[str, Outcome]] = {name: (f"{name} has no value", lenient) for name in promised}
    told |= {
        name: (f"{name} has no value, and it is the table's key", "quarantine") for name in key_columns(table.load)
    }
    time = time_column(table.load)
    if time is not None and time not in key_columns(table.load):
        told[time] = (f"{time} has no value, and it tells the order of the rows", "quarantine")
    return told


def _has_value(table: Table, name: str) -> str:
    """SQL: the row has what it must have. A truncate is about all keys: it has no values but its time."""
    has = f"{quoted(name)} IS NOT NULL"
    if not isinstance(table.load, Changes) or name in (time_column(table.load), table.load.op):
        return has
    return f"{has} OR coalesce({kind(table.load)} = 'truncate', false)"
