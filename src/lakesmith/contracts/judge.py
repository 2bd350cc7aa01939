"""Holds the declared contracts to those that were published, and counts which version comes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from lakesmith.contracts.differences import Difference, differences
from lakesmith.contracts.published import Definition, Published, definition_of
from lakesmith.contracts.versions import FIRST, Size, Version
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Compatibility
from lakesmith.records import ContractRecord


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
    def compatibility(self) -> Compatibility:
        """By which it is judged: what was promised to readers until now and what is declared both have to hold, or the
        edit that breaks a promise could take it back."""
        return _stricter(self.table.terms.compatibility, self.recorded)

    @property
    def breaking(self) -> tuple[Difference, ...]:
        return tuple(each for each in self.differences if each.breaks(self.compatibility))

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
    size = size_of(changed, _stricter(table.terms.compatibility, recorded))
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


def _stricter(declared: Compatibility, recorded: Published | None) -> Compatibility:
    before = recorded.definition.terms.get("compatibility", declared) if recorded else declared
    both = {declared, before} - {"none"}
    if len(both) > 1:
        return "full"
    return cast(Compatibility, both.pop()) if both else "none"


def size_of(changes: Sequence[Difference], compatibility: Compatibility) -> Size | None:
    """Which part of the version these changes make grow."""
    if any(each.breaks(compatibility) for each in changes):
        return "major"
    if any(each.kind != "words" for each in changes):
        return "minor"
    return "patch" if changes else None


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
