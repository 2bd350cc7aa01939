"""Holds the declared contracts to those that were published: which version comes next, and what may not pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol

from lakesmith.contracts.differences import Difference, differences
from lakesmith.contracts.published import Definition, Published, definition_of
from lakesmith.contracts.versions import FIRST, Size, Version
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Compatibility
from lakesmith.errors import DeclarationError, Place
from lakesmith.records import ContractRecord
from lakesmith.reports import ContractChange, ContractDiff

_KEPT_FOR = timedelta(days=180)
"""How long the hint proposes to keep an old version."""


class Reading(Protocol):
    """Tells who reads columns of a table."""

    def of(self, table: TableName, columns: Sequence[str], was: Sequence[str]) -> tuple[str, ...]:
        """The columns and tables made from these columns; `was` are all columns that the table had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A table's contract as it is declared, against the newest that is published."""

    table: Table
    declared: Definition
    recorded: Published | None
    differences: tuple[Difference, ...]
    version: Version
    """The one that the declaration leads to."""
    acknowledged: bool
    """It breaks readers, and the declaration says with its version that it may."""

    @property
    def breaking(self) -> tuple[Difference, ...]:
        return tuple(each for each in self.differences if each.breaks(self.table.terms.compatibility))

    @property
    def is_new(self) -> bool:
        return self.recorded is None or bool(self.differences) or self.version != self.recorded.version

    @property
    def change(self) -> str:
        """What is new, in words."""
        if self.recorded is None:
            return "first version"
        return "; ".join(each.what for each in self.differences) or "the version alone"

    @property
    def until(self) -> str | None:
        """The last day of the major version before this one, where it is kept."""
        if self.recorded is None or self.recorded.version.major == self.version.major:
            return None
        kept = [each for each in self.table.terms.previous if each.major == self.recorded.version.major]
        return kept[0].until.isoformat() if kept else None


def judge_all(
    tables: Mapping[TableName, Table], published: Mapping[str, Sequence[Published]]
) -> dict[TableName, Verdict]:
    """A verdict for every table that has a contract: its columns are declared, or were."""
    newest = {name: next(iter(published.get(str(name), ())), None) for name in tables}
    return {name: _judge(table, newest[name]) for name, table in tables.items() if table.columns or newest[name]}


def _judge(table: Table, recorded: Published | None) -> Verdict:
    declared, written = definition_of(table), table.terms.version
    if recorded is None:
        return Verdict(
            table=table,
            declared=declared,
            recorded=None,
            differences=(),
            version=Version.parse(written) if written else FIRST,
            acknowledged=False,
        )
    same = declared.hash == recorded.definition.hash
    changed = () if same else differences(recorded.definition, declared)
    size = size_of(changed, table.terms.compatibility)
    counted = recorded.version.grown(size)
    raised = Version.parse(written) if written else counted
    grown = raised if raised > counted else counted
    return Verdict(
        table=table,
        declared=declared,
        recorded=recorded,
        differences=changed,
        version=grown,
        acknowledged=size == "major" and written is not None and raised.major > recorded.version.major,
    )


def size_of(changes: Sequence[Difference], compatibility: Compatibility) -> Size | None:
    """Which part of the version these changes make grow."""
    if any(each.breaks(compatibility) for each in changes):
        return "major"
    if any(each.kind != "words" for each in changes):
        return "minor"
    return "patch" if changes else None


def problems(verdict: Verdict, readers: Reading, today: date) -> list[DeclarationError]:
    """Why the declaration may not pass."""
    recorded, terms = verdict.recorded, verdict.table.terms
    if recorded is None:
        return []
    if verdict.breaking and not verdict.acknowledged:
        return [_breaking(verdict, recorded.version, each, readers, today) for each in verdict.breaking]
    if terms.version is not None and not verdict.version.starts_with(terms.version):
        return [_behind(verdict, recorded.version, terms.version)]
    old = recorded.version.major
    if verdict.version.major > old and terms.previous and old not in {each.major for each in terms.previous}:
        return [_unkept(verdict.table, old, today)]
    return []


def given_up(verdicts: Iterable[Verdict], today: date) -> tuple[str, ...]:
    """Versions whose readers will find nothing in their place: that is allowed, but may not have been thought of."""
    return tuple(
        f"version {verdict.recorded.version.major} of {verdict.table.name} will be gone; "
        f'previous: {{"{verdict.recorded.version.major}": {_kept(None, today)}}} in its contract keeps it as a view'
        for verdict in verdicts
        if verdict.recorded and verdict.acknowledged and not verdict.table.terms.previous
    )


def _breaking(
    verdict: Verdict, recorded: Version, change: Difference, readers: Reading, today: date
) -> DeclarationError:
    table = verdict.table
    hit = _hit(verdict, change, readers)
    read = f"; it is read by {_listed(hit)}" if hit else "; no table of the lake reads it"
    return DeclarationError(
        "breaking-change",
        f"{change.what}, which breaks {_directions(change)} of {table.name} {recorded}{read if change.columns else ''}",
        at=_place(table, change),
        table=str(table.name),
        hint=f"undo it, or acknowledge it with {_acknowledged(table, recorded.major, change, today)}, which keeps "
        f"version {recorded.major} as {table.name}_v{recorded.major} until that day",
    )


def _directions(change: Difference) -> str:
    broken = [
        *([] if change.backward else ["backward compatibility (new readers, old data)"]),
        *([] if change.forward else ["forward compatibility (old readers, new data)"]),
    ]
    return " and ".join(broken)


def _acknowledged(table: Table, major: int, change: Difference, today: date) -> str:
    """What to write so that the change passes."""
    mode = f"mode: {table.contract}, " if table.contract != "additive" else ""
    return f'contract: {{{mode}version: "{major + 1}", previous: {{"{major}": {_kept(change, today)}}}}}'


def _kept(change: Difference | None, today: date) -> str:
    sql = change is not None and change.kind in ("removed", "meaning")
    columns = f', columns: {{{change.columns[0]}: "SQL"}}' if sql and change else ""
    return f'{{until: "{today + _KEPT_FOR}"{columns}}}'


def _behind(verdict: Verdict, recorded: Version, written: str) -> DeclarationError:
    table = verdict.table
    lower = not recorded.starts_with(written) and Version.parse(written) < recorded
    what = f"the contract of {table.name} says version {written}"
    if lower:
        what += f", and {recorded} is published already"
    else:
        what += f", but is {verdict.version} by what changed: {verdict.change}"
    return DeclarationError(
        "version-behind",
        what,
        at=table.declared_at,
        table=str(table.name),
        hint=f'write version: "{verdict.version.major}", and the rest is counted; or version: "{verdict.version}"',
    )


def _unkept(table: Table, major: int, today: date) -> DeclarationError:
    return DeclarationError(
        "version-unkept",
        f"{table.name} keeps earlier versions, but not {major}, which is the one that is replaced",
        at=table.terms.previous[0].declared_at,
        table=str(table.name),
        hint=f'write previous: {{"{major}": {_kept(None, today)}}} too, or leave previous out altogether',
    )


def _place(table: Table, change: Difference) -> Place:
    declared = {column.name: column.declared_at for column in table.columns}
    return next((declared[name] for name in change.columns if name in declared), table.declared_at)


def _hit(verdict: Verdict, change: Difference, readers: Reading) -> tuple[str, ...]:
    assert verdict.recorded is not None
    was = [column.name for column in verdict.recorded.definition.columns]
    return readers.of(verdict.table.name, change.columns, was)


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def told(verdict: Verdict, readers: Reading) -> ContractDiff:
    """The verdict as a report."""
    compatibility = verdict.table.terms.compatibility
    return ContractDiff(
        table=str(verdict.table.name),
        recorded=str(verdict.recorded.version) if verdict.recorded else None,
        version=str(verdict.version),
        compatibility=compatibility,
        acknowledged=verdict.acknowledged,
        changes=tuple(
            ContractChange(
                kind=each.kind,
                path=each.path,
                what=each.what,
                backward=each.backward,
                forward=each.forward,
                breaking=each.breaks(compatibility),
                version=str(verdict.recorded.version.grown(size_of([each], compatibility))),
                consumers=_hit(verdict, each, readers) if each.kind not in ("added", "words") else (),
            )
            for each in verdict.differences
            if verdict.recorded
        ),
    )


def new_records(
    verdicts: Iterable[Verdict], well: Sequence[str], run_id: str, recorded_at: datetime
) -> list[ContractRecord]:
    """What has to be recorded after a run in which the steps of these tables went well."""
    return [
        ContractRecord(
            table=str(verdict.table.name),
            version=str(verdict.version),
            hash=verdict.declared.hash,
            definition=verdict.declared.text,
            compatibility=verdict.table.terms.compatibility,
            change=verdict.change,
            acknowledged=verdict.acknowledged,
            until=verdict.until,
            run_id=run_id,
            recorded_at=recorded_at,
        )
        for verdict in verdicts
        if verdict.is_new and str(verdict.table.name) in well
    ]
