"""Compile the rules of a table to Spark SQL that sets, for each row, one bit per broken rule."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from lakesmith.columns import CORRUPT, FAILED_RULES, RESCUED, RULE_FLAG
from lakesmith.declare import Changes, Source, Table
from lakesmith.declare.checks import Limit, References, Severity, Unique
from lakesmith.declare.checks import RowRule as DeclaredRowRule
from lakesmith.declare.contract import Reaction
from lakesmith.declare.loads import OPS, key_columns, time_column
from lakesmith.errors import Place
from lakesmith.quality.conditions import condition_of, needs_flag, reason_of
from lakesmith.quality.measures import Measure, measures_of
from lakesmith.sql import literal, quoted

Outcome = Severity | Literal["discard"]
"""What happens to a row or batch that breaks a rule; `discard` drops the row and counts it."""
_NONE = "CAST(array() AS array<string>)"
_BITS = 60
"""The number of rules whose bits fit into one column."""
UNREADABLE = "unreadable"
"""The rule that an unparsable record breaks."""
NEW_COLUMN = "new_column"
"""The rule that a row with an undeclared field breaks, when the contract allows none."""
LIST_PLACE = "\\[[0-9]+\\]"
"""A regular expression for the list index in the path of a rescued value."""
MISFIT = "type"
"""The rule that a row with a value of the wrong type breaks, when the contract allows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A condition on one row. A row breaks it when it is false; unknown (NULL) is not false, as in SQL."""

    name: str
    condition: str
    severity: Outcome
    reason: str
    """The reason that a broken row gets."""
    limit: Limit | None = None
    """The batch fails when more rows than this break the rule."""
    where: str | None = None
    """SQL: the rule applies only to these rows."""
    flag_rule: DeclaredRowRule | None = None
    """The declared rule that the flag column evaluates, when one row is not enough."""
    flag: str = ""
    """The name of the flag column."""
    owner: str | None = None
    declared_at: Place

    @property
    def version(self) -> str:
        """A hash of the rule's definition."""
        return hashlib.sha256(f"{self.condition}|{self.where}|{self.flag_rule}".encode()).hexdigest()[:8]

    @property
    def passes(self) -> str:
        """SQL, never NULL: the row passes the rule."""
        passes = f"coalesce(({self.condition}), true)"
        # `where` comes first: the condition may fail to evaluate on other rows.
        return f"(NOT coalesce(({self.where}), false) OR {passes})" if self.where else passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules of a table."""

    rows: tuple[RowRule, ...]
    batch: tuple[Measure, ...]

    @property
    def gate(self) -> bool:
        """A check can fail the batch, so its rows are judged before the commit."""
        severities = [*(rule.severity for rule in self.rows), *(rule.severity for rule in self.batch)]
        return "fail" in severities or any(rule.limit for rule in self.rows)

    @property
    def removes_rows(self) -> bool:
        """Some rows may go to quarantine or be dropped."""
        return any(rule.severity in ("quarantine", "discard") for rule in self.rows)

    @property
    def flags(self) -> tuple[RowRule, ...]:
        """The rules that need a flag column."""
        return tuple(rule for rule in self.rows if rule.flag_rule is not None)

    def failed(self) -> dict[str, str]:
        """Return SQL by column for the numbers whose bits are the rules that a row breaks."""
        return {
            f"{FAILED_RULES}_{number}": _bits(self.rows[start : start + _BITS])
            for number, start in enumerate(range(0, len(self.rows), _BITS))
        }

    def breaks(self, rule: RowRule) -> str:
        """Return SQL over these numbers: the row breaks the rule."""
        number, bit = divmod(self.rows.index(rule), _BITS)
        return f"({FAILED_RULES}_{number} & {1 << bit}L) <> 0"

    def has_bit(self, numbers: Sequence[int], index: int) -> bool:
        """Whether such numbers say that the row breaks the rule."""
        number, bit = divmod(index, _BITS)
        return bool(numbers[number] >> bit & 1)

    def quarantined(self) -> str:
        """Return SQL over these numbers: the row goes to quarantine."""
        return self._any("quarantine")

    def discarded(self) -> str:
        """Return SQL over these numbers: the row is dropped."""
        return self._any("discard")

    def broken_count(self, rule: RowRule) -> str:
        """Return an SQL aggregate: how many rows break a rule."""
        return f"count_if({self.breaks(rule)})"

    def names(self) -> str:
        """Return SQL over these numbers: the names of the broken rules, in order."""
        return self._listed([literal(rule.name) for rule in self.rows])

    def reasons(self) -> str:
        """Return SQL over these numbers: the reason of each broken rule."""
        return self._listed([literal(rule.reason) for rule in self.rows])

    def versions(self) -> str:
        """Return SQL over these numbers: the version of each broken rule."""
        return self._listed([literal(rule.version) for rule in self.rows])

    def _listed(self, texts: Sequence[str]) -> str:
        if not self.rows:
            return _NONE
        pairs = zip(self.rows, texts, strict=True)
        # No lambda: Spark cannot compile a whole stage with one in it.
        cases = ", ".join(f"CASE WHEN {self.breaks(rule)} THEN {text} ELSE '' END" for rule, text in pairs)
        return f"array_remove(array({cases}), '')"

    def _any(self, severity: Outcome) -> str:
        masks: dict[int, int] = {}
        for index, rule in enumerate(self.rows):
            if rule.severity == severity:
                number, bit = divmod(index, _BITS)
                masks[number] = masks.get(number, 0) | 1 << bit
        return " OR ".join(f"({FAILED_RULES}_{number} & {mask}L) <> 0" for number, mask in masks.items()) or "false"


def _bits(rules: Sequence[RowRule]) -> str:
    passes = " AND ".join(rule.passes for rule in rules)
    bits = " + ".join(f"CASE WHEN {rule.passes} THEN 0L ELSE {1 << bit}L END" for bit, rule in enumerate(rules))
    # Nearly all rows pass, so test that first.
    return f"CASE WHEN {passes} THEN 0L ELSE {bits} END"


def checks_only_readability(rules: Rules) -> bool:
    """Whether the only rule is that a record can be parsed."""
    return not rules.batch and [rule.name for rule in rules.rows] == [UNREADABLE]


@dataclass(slots=True, kw_only=True)
class _RuleBuilder:
    """Collects the rules of a table."""

    table: Table
    rows: list[RowRule] = field(default_factory=list)

    def add_condition(
        self, name: str, condition: str, reason: str, at: Place, severity: Outcome = "quarantine"
    ) -> None:
        self.rows.append(RowRule(name=name, condition=condition, severity=severity, reason=reason, declared_at=at))

    def add_rule(self, name: str, rule: DeclaredRowRule, at: Place) -> RowRule:
        """Add the rule of a check, or the one that a column promise implies."""
        flag = f"{RULE_FLAG}{len(self.rows)}"
        flag_rule = rule if needs_flag(rule) else None
        self.add_condition(name, condition_of(rule, flag), reason_of(rule), at)
        self.rows[-1] = replace(self.rows[-1], flag_rule=flag_rule, flag=flag)
        return self.rows[-1]


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
    """Return the rules that follow from a table's columns, load and checks.

    `casts` maps each cast column to the column with the value before the cast: a value that the cast turns into NULL
    breaks the rule `column.type`. `fields` are the paths of the fields of a bronze table. `missing` are declared
    columns that the batch does not have. `undeclared` are columns of the batch that the contract does not allow.
    """
    builder, drift = _RuleBuilder(table=table), table.drift
    if isinstance(table.origin, Source):
        builder.rows.append(_unreadable(table.declared_at))
        _rescued_rules(builder, fields)
    columns = {column.name: column for column in table.columns}
    for name, before in (casts or {}).items():
        fits = f"{quoted(before)} IS NULL OR {quoted(name)} IS NOT NULL"
        reason, at = f"{name} is not a {columns[name].type}", columns[name].declared_at
        builder.add_condition(f"{name}.type", fits, reason, at, _SEVERITIES[drift.type])
    for name in missing if drift.missing_column != "evolve" else ():
        at, reaction = columns[name].declared_at, _SEVERITIES[drift.missing_column]
        builder.add_condition(f"{name}.missing", "false", f"the batch does not have {name}", at, reaction)
    if undeclared:
        reason = f"the query returns undeclared columns: {', '.join(undeclared)}"
        builder.add_condition(NEW_COLUMN, "false", reason, table.declared_at, _of_new_column(drift.new_column))
    for name, (reason, severity) in _required(table).items():
        if name in missing and name not in key_columns(table.load):
            continue
        at = columns[name].declared_at if name in columns else table.declared_at
        builder.add_condition(f"{name}.required", _is_present(table, name), reason, at, severity)
    if isinstance(table.load, Changes):
        op, is_operation = table.load.op, f"({operation_sql(table.load)}) IS NOT NULL"
        reason = f"{op} is not an operation of a change stream"
        builder.add_condition(f"{op}.known", is_operation, reason, table.declared_at)
    for column in table.columns:
        if column.check:
            builder.add_condition(f"{column.name}.check", column.check, f"not {column.check}", column.declared_at)
        if column.unique:
            builder.add_rule(f"{column.name}.unique", Unique(columns=(column.name,)), column.declared_at)
    keys = tuple(column.name for column in table.columns if column.key)
    if keys and set(keys) != set(key_columns(table.load)):
        builder.add_rule("key.unique", Unique(columns=keys), columns[keys[0]].declared_at)
    for check in table.checks:
        if check.row_rule is not None:
            rule = builder.add_rule(check.name, check.row_rule, check.declared_at)
            builder.rows[-1] = replace(
                rule,
                severity=check.on_fail,
                reason=check.description or rule.reason,
                limit=check.fail_above,
                where=check.where,
                owner=check.owner or table.owner,
            )
    return Rules(rows=tuple(builder.rows), batch=measures_of(table))


def _rescued_rules(builder: _RuleBuilder, fields: Sequence[str]) -> None:
    """Add rules for values in the rescue column, when the contract allows no new fields or no wrong types."""
    table, drift = builder.table, builder.table.drift
    if drift.type == "evolve" and drift.new_column == "evolve":
        return
    columns = ", ".join(literal(path.lower()) for path in fields)
    # The path of a value in a list has an index, which no column has.
    rescued = f"json_object_keys(regexp_replace(lower({RESCUED}), {literal(LIST_PLACE)}, ''))"
    columns = f"array({columns})" if columns else _NONE
    if drift.new_column != "evolve":
        reason = "the row has a field that the contract does not allow"
        allowed = f"{RESCUED} IS NULL OR size(array_except({rescued}, {columns})) = 0"
        builder.add_condition(NEW_COLUMN, allowed, reason, table.declared_at, _of_new_column(drift.new_column))
    if drift.type != "evolve":
        reason = "the row has a value that is not of the declared type"
        allowed = f"{RESCUED} IS NULL OR size(array_intersect({rescued}, {columns})) = 0"
        builder.add_condition(MISFIT, allowed, reason, table.declared_at, _SEVERITIES[drift.type])


def unreadable_version() -> str:
    """Return the rule version by which quarantine marks unparsable records."""
    return _unreadable(Place("")).version


def _unreadable(at: Place) -> RowRule:
    return RowRule(
        name=UNREADABLE,
        condition=f"{CORRUPT} IS NULL",
        severity="quarantine",
        reason="the record cannot be parsed",
        declared_at=at,
    )


def _of_new_column(reaction: Reaction) -> Outcome:
    """`discard` drops only the values of a new field: the row itself is written and counted."""
    return "warn" if reaction == "discard" else _SEVERITIES[reaction]


def referenced_tables(rules: Rules) -> tuple[References, ...]:
    """Return the references to other tables, whose versions a batch pins."""
    return tuple(rule.flag_rule for rule in rules.rows if isinstance(rule.flag_rule, References))


def operation_sql(load: Changes) -> str:
    """Return SQL for the operation of a change-stream row, a value of `OPS`, or NULL when it is unknown."""
    pairs = ", ".join(
        f"{literal(word)}, {literal(meaning)}"
        for word, meaning in OPS.items()
        if load.amounts or meaning not in ("correction", "reversal")
    )
    return f"try_element_at(map({pairs}), upper(CAST({quoted(load.op)} AS string)))"


def _required(table: Table) -> dict[str, tuple[str, Outcome]]:
    """Return the columns that may not be NULL, each with the reason and severity."""
    lenient = _SEVERITIES[table.drift.nullability]
    promised = [column.name for column in table.columns if column.is_required]
    required: dict[str, tuple[str, Outcome]] = {name: (f"{name} is NULL", lenient) for name in promised}
    required |= {name: (f"{name} is NULL, but it is the table's key", "quarantine") for name in key_columns(table.load)}
    time = time_column(table.load)
    if time is not None and time not in key_columns(table.load):
        required[time] = (f"{time} is NULL, but it orders the rows", "quarantine")
    return required


def _is_present(table: Table, name: str) -> str:
    """Return SQL: the column is not NULL. A truncate concerns all keys and has only a time."""
    present = f"{quoted(name)} IS NOT NULL"
    if not isinstance(table.load, Changes) or name in (time_column(table.load), table.load.op):
        return present
    return f"{present} OR coalesce({operation_sql(table.load)} = 'truncate', false)"
