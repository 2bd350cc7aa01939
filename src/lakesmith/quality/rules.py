"""The rules of a table as Spark SQL text: one array of failed rule names a row, one aggregate a batch rule."""

from __future__ import annotations

from dataclasses import dataclass

from lakesmith.columns import CORRUPT, FAILED, RESCUED
from lakesmith.declare import Changes, Severity, Source, Table
from lakesmith.declare.loads import OPS, key_columns, time_column
from lakesmith.errors import Place
from lakesmith.sql import literal, quoted

_NONE = "CAST(array() AS array<string>)"
UNREADABLE = "unreadable"
"""The rule that a row which could not be parsed has broken."""
CONTRACT = "contract"
"""The rule that a row with fields that do not fit has broken, where the contract is strict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A condition on one row. A row breaks it when it is false; unknown (NULL) is not false, as in SQL."""

    name: str
    condition: str
    severity: Severity
    reason: str
    """What is said of a row that breaks it."""
    declared_at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A condition on aggregates of the rows that are about to be written."""

    name: str
    condition: str
    severity: Severity
    declared_at: Place

    def aggregates(self) -> tuple[str, ...]:
        """SQL: the aggregates in the condition, so that a failure can tell what they were."""
        import sqlglot
        from sqlglot import exp

        found = sqlglot.parse_one(self.condition, dialect="spark").find_all(exp.AggFunc)
        return tuple(dict.fromkeys(node.sql(dialect="spark") for node in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules of a table."""

    rows: tuple[RowRule, ...]
    batch: tuple[Expectation, ...]

    @property
    def gate(self) -> bool:
        """Something has to be judged before the commit, so the batch is held until then."""
        severities = [*(rule.severity for rule in self.rows), *(rule.severity for rule in self.batch)]
        return "fail" in severities

    def failed(self) -> str:
        """SQL: the names of the rules that a row broke, in order."""
        if not self.rows:
            return _NONE
        cases = ", ".join(f"CASE WHEN NOT ({rule.condition}) THEN {literal(rule.name)} END" for rule in self.rows)
        fine = " AND ".join(f"coalesce(({rule.condition}), true)" for rule in self.rows)
        # Nearly all rows are fine, and a filter with a lambda is not compiled: they must not pay for it.
        return f"CASE WHEN {fine} THEN {_NONE} ELSE filter(array({cases}), rule -> rule IS NOT NULL) END"

    def refused(self) -> str:
        """SQL over the failed names: the row goes to quarantine."""
        names = [rule.name for rule in self.rows if rule.severity == "quarantine"]
        if not names:
            return "false"
        if len(names) == len(self.rows):
            return f"size({FAILED}) > 0"
        return f"arrays_overlap({FAILED}, array({', '.join(map(literal, names))}))"

    def broken(self, rule: RowRule) -> str:
        """SQL aggregate: how many rows broke a rule."""
        return f"count_if(array_contains({FAILED}, {literal(rule.name)}))"

    def reasons(self) -> str:
        """SQL over the failed names: the reason of each."""
        if not self.rows:
            return _NONE
        pairs = ", ".join(f"{literal(rule.name)}, {literal(rule.reason)}" for rule in self.rows)
        return f"transform({FAILED}, rule -> element_at(map({pairs}), rule))"


def only_readability(rules: Rules) -> bool:
    """Whether nothing is checked but that a record can be read."""
    return not rules.batch and [rule.name for rule in rules.rows] == [UNREADABLE]


def rules_of(table: Table, *, casts: dict[str, str] | None = None) -> Rules:
    """The rules that follow from a table's columns, load and checks.

    `casts` names the columns whose values are cast to the declared type, and for each the column that holds the value
    before the cast: a value that the cast would turn into NULL breaks the rule `column.type`.
    """
    rows: list[RowRule] = []

    def refuse(name: str, condition: str, reason: str, at: Place) -> None:
        rows.append(RowRule(name=name, condition=condition, severity="quarantine", reason=reason, declared_at=at))

    if isinstance(table.origin, Source):
        refuse(UNREADABLE, f"{CORRUPT} IS NULL", "the record could not be read", table.declared_at)
        if table.contract == "strict":
            misfit = "not of the types that the strict contract promises"
            at = table.declared_at
            condition = f"{RESCUED} IS NULL"
            rows.append(RowRule(name=CONTRACT, condition=condition, severity="fail", reason=misfit, declared_at=at))
    columns = {column.name: column for column in table.columns}
    for name, before in (casts or {}).items():
        fits = f"{quoted(before)} IS NULL OR {quoted(name)} IS NOT NULL"
        refuse(f"{name}.type", fits, f"{name} is not a {columns[name].type}", columns[name].declared_at)
    for name, reason in _required(table).items():
        at = columns[name].declared_at if name in columns else table.declared_at
        refuse(f"{name}.required", _has_value(table, name), reason, at)
    if isinstance(table.load, Changes):
        op = table.load.op
        refuse(f"{op}.known", f"({kind(table.load)}) IS NOT NULL", f"{op} is no known change", table.declared_at)
    for column in table.columns:
        if column.check:
            refuse(f"{column.name}.check", column.check, f"not {column.check}", column.declared_at)
    for check in table.checks:
        if check.where:
            rows.append(
                RowRule(
                    name=check.name,
                    condition=check.where,
                    severity=check.on_fail,
                    reason=check.description or f"not {check.where}",
                    declared_at=check.declared_at,
                )
            )
    batch = tuple(
        Expectation(name=check.name, condition=check.expect, severity=check.on_fail, declared_at=check.declared_at)
        for check in table.checks
        if check.expect
    )
    return Rules(rows=tuple(rows), batch=batch)


def kind(load: Changes) -> str:
    """SQL: what a row of a stream of changes means, a value of `OPS`, or NULL when that is not known."""
    known = {word: told for word, told in OPS.items() if load.amounts or told not in ("correction", "reversal")}
    pairs = ", ".join(f"{literal(word)}, {literal(told)}" for word, told in known.items())
    return f"try_element_at(map({pairs}), upper(CAST({quoted(load.op)} AS string)))"


def _required(table: Table) -> dict[str, str]:
    """The columns that have to have a value, each with the reason that a row without it is given."""
    told = {column.name: f"{column.name} has no value" for column in table.columns if column.required}
    told |= {name: f"{name} has no value, and it is the table's key" for name in key_columns(table.load)}
    time = time_column(table.load)
    if time is not None and time not in key_columns(table.load):
        told[time] = f"{time} has no value, and it tells the order of the rows"
    return told


def _has_value(table: Table, name: str) -> str:
    """SQL: the row has what it must have. A truncate is about all keys: it has no values but its time."""
    has = f"{quoted(name)} IS NOT NULL"
    if not isinstance(table.load, Changes) or name in (time_column(table.load), table.load.op):
        return has
    return f"{has} OR coalesce({kind(table.load)} = 'truncate', false)"
