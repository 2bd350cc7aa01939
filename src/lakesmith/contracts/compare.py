"""Compare declared contracts with published ones, and compute the next version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from lakesmith.contracts.differences import Difference, differences
from lakesmith.contracts.published import Definition, PublishedContract, definition_of
from lakesmith.contracts.versions import FIRST, ContractVersion, Size
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Compatibility
from lakesmith.records import ContractRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractComparison:
    """A table's declared contract, compared with the newest published one."""

    table: Table
    declared: Definition
    recorded: PublishedContract | None
    differences: tuple[Difference, ...]
    version: ContractVersion
    """The version of the declared contract."""
    acknowledged: bool
    """The declaration raises the major version to allow a breaking change."""

    @property
    def compatibility(self) -> Compatibility:
        """The compatibility that applies: the published and the declared one together. Otherwise an edit could drop the
        promise that it breaks."""
        return _stricter(self.table.terms.compatibility, self.recorded)

    @property
    def breaking(self) -> tuple[Difference, ...]:
        return tuple(each for each in self.differences if each.breaks(self.compatibility))

    @property
    def is_new(self) -> bool:
        return self.recorded is None or bool(self.differences) or self.version != self.recorded.version

    @property
    def change(self) -> str:
        """The changes as a sentence."""
        if self.recorded is None:
            return "first version"
        return "; ".join(each.what for each in self.differences) or "only the version"

    @property
    def until(self) -> str | None:
        """The last day of the previous major version, when the contract keeps it."""
        if self.recorded is None or self.recorded.version.major == self.version.major:
            return None
        previous = [each for each in self.table.terms.previous if each.major == self.recorded.version.major]
        return previous[0].until.isoformat() if previous else None


def compare_all(
    tables: Mapping[TableName, Table], published: Mapping[str, Sequence[PublishedContract]]
) -> dict[TableName, ContractComparison]:
    """Compare every table that declares columns or has a published contract."""
    newest = {name: next(iter(published.get(str(name), ())), None) for name in tables}
    return {name: _compare(table, newest[name]) for name, table in tables.items() if table.columns or newest[name]}


def _compare(table: Table, recorded: PublishedContract | None) -> ContractComparison:
    declared, written = definition_of(table), table.terms.version
    requested = ContractVersion.parse(written) if written else FIRST
    changes: tuple[Difference, ...] = ()
    acknowledged, version = False, requested
    if recorded is not None:
        if declared.hash != recorded.definition.hash:
            changes = differences(recorded.definition, declared)
        size = size_of(changes, _stricter(table.terms.compatibility, recorded))
        acknowledged = size == "major" and requested.major > recorded.version.major
        version = max(requested, recorded.version.bumped(size))
    return ContractComparison(
        table=table,
        declared=declared,
        recorded=recorded,
        differences=changes,
        version=version,
        acknowledged=acknowledged,
    )


def _stricter(declared: Compatibility, recorded: PublishedContract | None) -> Compatibility:
    before = recorded.definition.terms.get("compatibility", declared) if recorded else declared
    both = {declared, before} - {"none"}
    if len(both) > 1:
        return "full"
    return cast(Compatibility, both.pop()) if both else "none"


def size_of(changes: Sequence[Difference], compatibility: Compatibility) -> Size | None:
    """Return which part of the version these changes raise."""
    if any(each.breaks(compatibility) for each in changes):
        return "major"
    if any(each.kind != "documentation" for each in changes):
        return "minor"
    return "patch" if changes else None


def new_records(
    comparisons: Iterable[ContractComparison], updated: Sequence[str], run_id: str, recorded_at: datetime
) -> list[ContractRecord]:
    """Return the new contract versions of the tables whose steps succeeded."""
    return [
        ContractRecord(
            table=str(comparison.table.name),
            version=str(comparison.version),
            hash=comparison.declared.hash,
            definition=comparison.declared.text,
            compatibility=comparison.table.terms.compatibility,
            change=comparison.change,
            acknowledged=comparison.acknowledged,
            until=comparison.until,
            run_id=run_id,
            recorded_at=recorded_at,
        )
        for comparison in comparisons
        if comparison.is_new and str(comparison.table.name) in updated
    ]
