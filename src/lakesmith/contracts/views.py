"""Earlier major versions of a contract as views over the current table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date

from lakesmith.contracts.differences import differences
from lakesmith.contracts.published import Definition, PublishedContract, definition_of
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Previous
from lakesmith.errors import DeclarationError, UsageError, did_you_mean
from lakesmith.ports import View, ViewColumn

_VIEW = re.compile(r"(?P<table>.+)_v(?P<major>[1-9][0-9]*)")


def view_name(table: TableName, major: int) -> TableName:
    return TableName(table.layer, f"{table.name}_v{major}")


def view_clashes(tables: Mapping[TableName, Table]) -> list[DeclarationError]:
    """Return errors for tables with the name of the view of another table's earlier version."""
    return [
        DeclarationError(
            "duplicate-table",
            f"{taken} is also the name of the view for version {previous.major} of {name}",
            at=tables[taken].declared_at,
            table=str(taken),
            hint=f"rename the table, or remove version {previous.major} from `previous` in {previous.declared_at}",
        )
        for name, table in tables.items()
        for previous in table.terms.previous
        if (taken := view_name(name, previous.major)) in tables
    ]


def view_problems(
    table: Table, published: Sequence[PublishedContract], columns: Sequence[str] | None, today: date
) -> Iterator[DeclarationError]:
    """Return errors for earlier versions that the table cannot serve; `columns` are its columns, or None.

    A version that was never recorded in this environment has no view and no errors.
    """
    for previous in table.terms.previous:
        old = _newest(published, previous.major)
        if old is None or previous.until < today:
            continue
        current = columns if columns is not None else [column.name for column in table.columns]
        yield from _problems(table, previous, old.definition, current)


def _problems(table: Table, previous: Previous, old: Definition, current: Sequence[str]) -> Iterator[DeclarationError]:
    promised = {column.name for column in old.columns}
    low = {name.lower() for name in current}
    changed_meaning = {each.path for each in differences(old, definition_of(table)) if each.kind == "meaning"}
    for name in promised - previous.columns.keys():
        gone = name.lower() not in low
        if gone or name in changed_meaning:
            why = "the table no longer has" if gone else "has another meaning now"
            yield _unreadable(
                table,
                previous,
                f"has the column '{name}', which {why}",
                f'give SQL over the current columns: previous: {{"{previous.major}": {{columns: {{{name}: "SQL"}}}}}}',
            )
    for name, sql in previous.columns.items():
        if name not in promised:
            yield _unreadable(table, previous, f"has no column '{name}'", did_you_mean(name, promised, label="columns"))
        yield from _sql_problems(table, previous, name, sql, current)


def _sql_problems(
    table: Table, previous: Previous, name: str, sql: str, current: Sequence[str]
) -> Iterator[DeclarationError]:
    from lakesmith.sqlproof.conditions import ConditionFault, columns_of

    try:
        used = columns_of(sql)
    except ConditionFault as fault:
        yield _unreadable(
            table, previous, f"cannot be read: the SQL of '{name}': {fault}", "write Spark SQL over columns"
        )
        return
    for column in used:
        if column.lower() not in {each.lower() for each in current}:
            what = f"makes '{name}' from '{column}', which {table.name} does not have"
            yield _unreadable(table, previous, what, did_you_mean(column, current, label="columns"))


def _unreadable(table: Table, previous: Previous, what: str, hint: str) -> DeclarationError:
    return DeclarationError(
        "previous-unreadable",
        f"version {previous.major} of {table.name} {what}",
        at=previous.declared_at,
        table=str(table.name),
        hint=hint,
    )


def earlier_versions(
    written: Iterable[str],
    tables: Mapping[TableName, Table],
    published: Callable[[], Mapping[str, Sequence[PublishedContract]]],
    today: date,
) -> dict[str, View]:
    """Return the views of earlier contract versions that a query names, by name as written.

    `published` is called only when a name matches.
    """
    views: dict[str, View] = {}
    for name in written:
        if match := _VIEW.fullmatch(name.lower()):
            table = TableName.parse(match["table"])
            if table is not None and table in tables and TableName.parse(name.lower()) not in tables:
                versions = published().get(str(table), ())
                views[name] = _view(name, tables[table], int(match["major"]), versions, today)
    return views


def _view(name: str, table: Table, major: int, published: Sequence[PublishedContract], today: date) -> View:
    previous = next((each for each in table.terms.previous if each.major == major), None)
    old = _newest(published, major)
    now = f"read {table.name}" + (f", which is version {published[0].version}" if published else "")
    if previous is None or old is None:
        why = (
            "is not available: `previous` of its contract does not list it"
            if previous is None
            else "was never published here"
        )
        raise UsageError("unknown-version", f"version {major} of {table.name} {why}", table=name, hint=now)
    if previous.until < today:
        raise UsageError(
            "version-gone",
            f"{name} was available until {previous.until}",
            table=name,
            hint=f"{now}; or change the date in {previous.declared_at}",
        )
    return View(
        table=str(table.name),
        columns=tuple(
            ViewColumn(name=column.name, sql=previous.columns.get(column.name), type=column.type)
            for column in old.definition.columns
        ),
    )


def _newest(published: Sequence[PublishedContract], major: int) -> PublishedContract | None:
    return next((each for each in published if each.version.major == major), None)
