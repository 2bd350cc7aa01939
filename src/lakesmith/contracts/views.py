"""Earlier major versions of a contract as views over the table as it is now."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date

from lakesmith.contracts.differences import differences
from lakesmith.contracts.published import Definition, Published, definition_of
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Previous
from lakesmith.errors import DeclarationError, UsageError, did_you_mean
from lakesmith.ports import View, ViewColumn

_VIEW = re.compile(r"(?P<table>.+)_v(?P<major>[1-9][0-9]*)")


def view_name(table: TableName, major: int) -> TableName:
    return TableName(table.layer, f"{table.name}_v{major}")


def view_clashes(tables: Mapping[TableName, Table]) -> list[DeclarationError]:
    """Tables that are called like the view of an earlier version of another."""
    return [
        DeclarationError(
            "duplicate-table",
            f"{taken} is also the name under which version {kept.major} of {name} can be read",
            at=tables[taken].declared_at,
            table=str(taken),
            hint=f"rename the table, or keep no version {kept.major} in {kept.declared_at}",
        )
        for name, table in tables.items()
        for kept in table.terms.previous
        if (taken := view_name(name, kept.major)) in tables
    ]


def view_problems(
    table: Table, published: Sequence[Published], columns: Sequence[str] | None, today: date
) -> Iterator[DeclarationError]:
    """Why an earlier version could not be read from the table as it will be; `columns` are its own, where known.

    A version that was never recorded here, as in an environment that is younger, has no view and no problem.
    """
    for kept in table.terms.previous:
        old = _newest(published, kept.major)
        if old is None or kept.until < today:
            continue
        known = columns if columns is not None else [column.name for column in table.columns]
        yield from _problems(table, kept, old.definition, known)


def _problems(table: Table, kept: Previous, old: Definition, known: Sequence[str]) -> Iterator[DeclarationError]:
    promised = {column.name for column in old.columns}
    low = {name.lower() for name in known}
    meant = {each.path for each in differences(old, definition_of(table)) if each.kind == "meaning"}
    for name in promised - kept.columns.keys():
        gone = name.lower() not in low
        if gone or name in meant:
            why = "the table does not have any more" if gone else "means something else now"
            yield _unreadable(
                table,
                kept,
                f"has the column '{name}', which {why}",
                f'give its SQL over the columns of now: previous: {{"{kept.major}": {{columns: {{{name}: "SQL"}}}}}}',
            )
    for name, sql in kept.columns.items():
        if name not in promised:
            yield _unreadable(table, kept, f"has no column '{name}'", did_you_mean(name, promised, label="columns"))
        yield from _sql_problems(table, kept, name, sql, known)


def _sql_problems(
    table: Table, kept: Previous, name: str, sql: str, known: Sequence[str]
) -> Iterator[DeclarationError]:
    from lakesmith.sqlproof.conditions import ConditionFault, columns_of

    try:
        used = columns_of(sql)
    except ConditionFault as fault:
        yield _unreadable(table, kept, f"cannot be read: the SQL of '{name}': {fault}", "write Spark SQL over columns")
        return
    for column in used:
        if column.lower() not in {each.lower() for each in known}:
            what = f"makes '{name}' from '{column}', which {table.name} does not have"
            yield _unreadable(table, kept, what, did_you_mean(column, known, label="columns"))


def _unreadable(table: Table, kept: Previous, what: str, hint: str) -> DeclarationError:
    return DeclarationError(
        "previous-unreadable",
        f"version {kept.major} of {table.name} {what}",
        at=kept.declared_at,
        table=str(table.name),
        hint=hint,
    )


def find_views(
    written: Iterable[str],
    tables: Mapping[TableName, Table],
    published: Callable[[], Mapping[str, Sequence[Published]]],
    today: date,
) -> dict[str, View]:
    """By name as written, the earlier versions of contracts among the tables that a query names.

    What was `published` is asked for only when there is one.
    """
    found: dict[str, View] = {}
    for name in written:
        if match := _VIEW.fullmatch(name.lower()):
            table = TableName.parse(match["table"])
            if table is not None and table in tables and TableName.parse(name.lower()) not in tables:
                versions = published().get(str(table), ())
                found[name] = _view(name, tables[table], int(match["major"]), versions, today)
    return found


def _view(name: str, table: Table, major: int, published: Sequence[Published], today: date) -> View:
    kept = next((each for each in table.terms.previous if each.major == major), None)
    old = _newest(published, major)
    now = f"read {table.name}" + (f", which is version {published[0].version}" if published else "")
    if kept is None or old is None:
        why = "is not kept: `previous` of its contract does not name it" if kept is None else "was never published here"
        raise UsageError("unknown-version", f"version {major} of {table.name} {why}", table=name, hint=now)
    if kept.until < today:
        raise UsageError(
            "version-gone",
            f"{name} could be read until {kept.until}",
            table=name,
            hint=f"{now}; or move the day in {kept.declared_at}",
        )
    return View(
        table=str(table.name),
        columns=tuple(
            ViewColumn(name=column.name, sql=kept.columns.get(column.name), type=column.type)
            for column in old.definition.columns
        ),
    )


def _newest(published: Sequence[Published], major: int) -> Published | None:
    return next((each for each in published if each.version.major == major), None)
