"""Says of verdicts what may not pass, whom it would hit, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Protocol

from lakesmith.contracts.differences import Difference
from lakesmith.contracts.judge import Verdict, size_of
from lakesmith.contracts.versions import Version
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Previous, Terms
from lakesmith.errors import DeclarationError, Place
from lakesmith.reports import ContractChange, ContractDiff

_KEPT_FOR = timedelta(days=180)
"""How long the hint proposes to keep an old version."""


class Reading(Protocol):
    """Tells who reads columns of a table."""

    def of(self, table: TableName, columns: Sequence[str], was: Sequence[str]) -> tuple[str, ...]:
        """The columns and tables made from these columns; `was` are all columns that the table had."""


def problems(verdict: Verdict, readers: Reading, today: date) -> list[DeclarationError]:
    """Why the declaration may not pass."""
    recorded, terms = verdict.recorded, verdict.table.terms
    if late := [each for each in terms.previous if each.major >= verdict.version.major]:
        return [_not_earlier(verdict, each) for each in late]
    if recorded is None:
        return []
    if verdict.breaking and not verdict.acknowledged:
        errors = [_breaking(verdict, recorded.version, each, readers) for each in verdict.breaking]
        # All of them pass with the same words, which are told once.
        errors[-1].hint = _way_out(verdict, recorded.version, today)
        return errors
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
        f'previous: {{"{verdict.recorded.version.major}": {_kept((), today)}}} in its contract keeps it as a view'
        for verdict in verdicts
        if verdict.recorded and verdict.acknowledged and not verdict.table.terms.previous
    )


def _breaking(verdict: Verdict, recorded: Version, change: Difference, readers: Reading) -> DeclarationError:
    table = verdict.table
    hit = _hit(verdict, change, readers)
    read = f"; it is read by {_listed(hit)}" if hit else "; no table of the lake reads it"
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


def _way_out(verdict: Verdict, recorded: Version, today: date) -> str:
    """What to write so that all that is breaking passes."""
    table, major, changes = verdict.table, recorded.major, verdict.breaking
    mode = f"mode: {table.contract}, " if table.contract != "additive" and table.terms == Terms() else ""
    undo = "undo it" if len(changes) == 1 else f"undo the {len(changes)} changes of {table.name}"
    hint = (
        f'{undo}, or acknowledge: add to `contract` of {table.name}: {mode}version: "{major + 1}", '
        f'previous: {{"{major}": {_kept(changes, today)}}}, which keeps version {major} as {table.name}_v{major} '
        "until that day"
    )
    declared = table.terms.compatibility
    if declared != verdict.compatibility:
        hint += f"; compatibility: {declared} holds from the next change on, once a run has recorded it"
    return hint


def _kept(changes: Sequence[Difference], today: date) -> str:
    gone = dict.fromkeys(change.columns[0] for change in changes if change.kind in ("removed", "meaning"))
    sql = ", ".join(f'{name}: "SQL"' for name in gone)
    columns = f", columns: {{{sql}}}" if gone else ""
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
        hint=f'write previous: {{"{major}": {_kept((), today)}}} too, or leave previous out altogether',
    )


def _not_earlier(verdict: Verdict, kept: Previous) -> DeclarationError:
    name, version = verdict.table.name, verdict.version
    earlier = f"name a version below {version.major}, " if version.major > 1 else ""
    return DeclarationError(
        "bad-version",
        f"{name} keeps version {kept.major} as an earlier one, but is {version} itself",
        at=kept.declared_at,
        table=str(name),
        hint=f'{earlier}leave it out, or write version: "{kept.major + 1}" in the contract',
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
    compatibility = verdict.compatibility
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
