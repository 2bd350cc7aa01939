"""Errors for contract changes that may not pass, with the affected readers and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta

from lakesmith.contracts.compare import ContractComparison, size_of
from lakesmith.contracts.differences import Difference
from lakesmith.contracts.versions import ContractVersion
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Previous, Terms
from lakesmith.errors import DeclarationError, Place
from lakesmith.reports import ContractChange, ContractDiff

_RETENTION = timedelta(days=180)
"""How long the hint proposes to keep an old version."""


ConsumersOf = Callable[[TableName, Sequence[str], Sequence[str]], tuple[str, ...]]
"""Returns who reads columns of a table, as `Consumers.of` does."""


def problems(comparison: ContractComparison, consumers_of: ConsumersOf, today: date) -> list[DeclarationError]:
    """Return the errors of a changed contract."""
    recorded, terms = comparison.recorded, comparison.table.terms
    if late := [each for each in terms.previous if each.major >= comparison.version.major]:
        return [_not_earlier(comparison, each) for each in late]
    if recorded is None:
        return []
    if comparison.breaking and not comparison.acknowledged:
        errors = [_breaking(comparison, recorded.version, each, consumers_of) for each in comparison.breaking]
        # One hint fixes all of them, so only the last error has it.
        errors[-1].hint = _way_out(comparison, recorded.version, today)
        return errors
    if terms.version is not None and not comparison.version.starts_with(terms.version):
        return [_behind(comparison, recorded.version, terms.version)]
    old = recorded.version.major
    if comparison.version.major > old and terms.previous and old not in {each.major for each in terms.previous}:
        return [_missing_previous(comparison.table, old, today)]
    return []


def dropped_versions(comparisons: Iterable[ContractComparison], today: date) -> tuple[str, ...]:
    """Return warnings for major versions that a breaking change removes without a view in their place."""
    return tuple(
        f"version {comparison.recorded.version.major} of {comparison.table.name} will no longer be available; "
        f'previous: {{"{comparison.recorded.version.major}": {_previous((), today)}}} in its contract keeps a view'
        for comparison in comparisons
        if comparison.recorded and comparison.acknowledged and not comparison.table.terms.previous
    )


def _breaking(
    comparison: ContractComparison, recorded: ContractVersion, change: Difference, consumers_of: ConsumersOf
) -> DeclarationError:
    table = comparison.table
    consumers = _consumers(comparison, change, consumers_of)
    read = f"; it is read by {_listed(consumers)}" if consumers else "; no table of the lake reads it"
    return DeclarationError(
        "breaking-change",
        f"{change.what}, which breaks {_directions(change)} of {table.name} {recorded}{read if change.columns else ''}",
        at=_place(table, change),
        table=str(table.name),
    )


def _directions(change: Difference) -> str:
    broken = [
        *([] if change.backward else ["backward compatibility (new readers, old data)"]),
        *([] if change.forward else ["forward compatibility (old readers, new data)"]),
    ]
    return " and ".join(broken)


def _way_out(comparison: ContractComparison, recorded: ContractVersion, today: date) -> str:
    """Return the hint that allows all breaking changes."""
    table, major, changes = comparison.table, recorded.major, comparison.breaking
    mode = f"mode: {table.contract}, " if table.contract != "additive" and table.terms == Terms() else ""
    undo = "undo it" if len(changes) == 1 else f"undo the {len(changes)} changes of {table.name}"
    hint = (
        f'{undo}, or acknowledge: add to `contract` of {table.name}: {mode}version: "{major + 1}", '
        f'previous: {{"{major}": {_previous(changes, today)}}}, which keeps version {major} as {table.name}_v{major} '
        "until that date"
    )
    declared = table.terms.compatibility
    if declared != comparison.compatibility:
        hint += f"; compatibility: {declared} applies to later changes, after a run has recorded it"
    return hint


def _previous(changes: Sequence[Difference], today: date) -> str:
    gone = dict.fromkeys(change.columns[0] for change in changes if change.kind in ("removed", "meaning"))
    sql = ", ".join(f'{name}: "SQL"' for name in gone)
    columns = f", columns: {{{sql}}}" if gone else ""
    return f'{{until: "{today + _RETENTION}"{columns}}}'


def _behind(comparison: ContractComparison, recorded: ContractVersion, written: str) -> DeclarationError:
    table = comparison.table
    lower = not recorded.starts_with(written) and ContractVersion.parse(written) < recorded
    what = f"the contract of {table.name} says version {written}"
    if lower:
        what += f", but {recorded} is already published"
    else:
        what += f", but its changes make it {comparison.version}: {comparison.change}"
    return DeclarationError(
        "version-behind",
        what,
        at=table.declared_at,
        table=str(table.name),
        hint=f'write version: "{comparison.version.major}" (the rest is computed), or version: "{comparison.version}"',
    )


def _missing_previous(table: Table, major: int, today: date) -> DeclarationError:
    return DeclarationError(
        "previous-missing",
        f"{table.name} keeps earlier versions, but not {major}, which this change replaces",
        at=table.terms.previous[0].declared_at,
        table=str(table.name),
        hint=f'write previous: {{"{major}": {_previous((), today)}}} too, or remove previous',
    )


def _not_earlier(comparison: ContractComparison, previous: Previous) -> DeclarationError:
    name, version = comparison.table.name, comparison.version
    earlier = f"name a version below {version.major}, " if version.major > 1 else ""
    return DeclarationError(
        "bad-version",
        f"{name} keeps version {previous.major} as a previous one, but its own version is {version}",
        at=previous.declared_at,
        table=str(name),
        hint=f'{earlier}remove it, or write version: "{previous.major + 1}" in the contract',
    )


def _place(table: Table, change: Difference) -> Place:
    declared = {column.name: column.declared_at for column in table.columns}
    return next((declared[name] for name in change.columns if name in declared), table.declared_at)


def _consumers(comparison: ContractComparison, change: Difference, consumers_of: ConsumersOf) -> tuple[str, ...]:
    assert comparison.recorded is not None
    was = [column.name for column in comparison.recorded.definition.columns]
    return consumers_of(comparison.table.name, change.columns, was)


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def diff_report(comparison: ContractComparison, consumers_of: ConsumersOf) -> ContractDiff:
    """Return the comparison as a report."""
    compatibility = comparison.compatibility
    return ContractDiff(
        table=str(comparison.table.name),
        recorded=str(comparison.recorded.version) if comparison.recorded else None,
        version=str(comparison.version),
        compatibility=compatibility,
        acknowledged=comparison.acknowledged,
        changes=tuple(
            ContractChange(
                kind=each.kind,
                path=each.path,
                what=each.what,
                backward=each.backward,
                forward=each.forward,
                breaking=each.breaks(compatibility),
                version=str(comparison.recorded.version.bumped(size_of([each], compatibility))),
                consumers=() if each.kind in ("added", "documentation") else _consumers(comparison, each, consumers_of),
            )
            for each in comparison.differences
            if comparison.recorded
        ),
    )
