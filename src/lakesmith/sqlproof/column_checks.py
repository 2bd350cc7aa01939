"""Checks the columns that queries, conditions, loads and contracts name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from lakesmith.declare import Append, Changes, Merge, Replace, ReplacePartitions, Scd2, Snapshot, SqlQuery, Table
from lakesmith.declare.checks import BatchRule, Check, columns_named, sql_named
from lakesmith.declare.loads import Load, added_columns
from lakesmith.errors import DeclarationError, LakesmithError, Place, did_you_mean
from lakesmith.sql import quoted
from lakesmith.sqlproof.analysis_cache import analysis_cache
from lakesmith.sqlproof.query import Schemas, known_schemas, place_in, read_query, statement_of


def check_columns(query: SqlQuery, schemas: Schemas) -> list[LakesmithError]:
    """Return errors for columns that no table in their scope has. Scopes with an unknown schema pass."""

    def read() -> list[object]:
        statement = statement_of(query)
        from lakesmith.sqlproof.columns import unknown

        return [[each.name, list(each.tables), each.line, list(each.known)] for each in unknown(statement, schemas)]

    return [
        DeclarationError(
            "unknown-column",
            f"column '{name}' is not in {' or '.join(tables)}",
            at=place_in(query, line),
            hint=did_you_mean(name, known, label="columns"),
        )
        for name, tables, line, known in analysis_cache.get(
            "unknown", [query.text, known_schemas(query, schemas)], read
        )
    ]


def check_conditions(table: Table, columns: Sequence[str] | None) -> list[LakesmithError]:
    """Return the errors in the table's conditions, and in the columns that its load and its contract name.

    `columns` are the known result columns of the query; a condition may use them and the declared ones.
    """
    origin = table.origin
    query_columns = read_query(origin).columns if isinstance(origin, SqlQuery) else None
    errors: list[LakesmithError] = [] if query_columns is None else list(_columns_not_given(table, query_columns))
    errors += _columns_added_twice(table, query_columns or columns or ())
    written = [(c.check, f"the check of column {c.name}", c.declared_at) for c in table.columns if c.check]
    for c in table.checks:
        named = [quoted(name) for name in columns_named(c.rule)]
        texts = (*sql_named(c.rule), *named, *([c.where] if c.where else []))
        written += [(text, f"check {c.name}", c.declared_at) for text in texts]
        errors.extend(_wrong_aggregates(table, c))
    if isinstance(table.load, Merge | Scd2) and table.load.delete is not None:
        written.append((table.load.delete, "the condition of delete", _load_place(table)))
    if not written:
        return errors
    known = None
    if query_columns is not None or columns is not None:
        known = list(dict.fromkeys((*(query_columns or columns or ()), *(column.name for column in table.columns))))
    for condition, shown, place in written:
        used, fault, _ = _condition_facts(condition)
        if fault is not None:
            errors.append(
                DeclarationError(
                    "sql-syntax",
                    f"{shown} is not valid SQL: {fault}",
                    at=place,
                    table=str(table.name),
                    hint="write a condition over columns, such as amount >= 0",
                )
            )
            continue
        if known is None:
            continue
        low = {column.lower() for column in known}
        errors.extend(
            _unknown_column(table, f"{shown} names column '{name}', which", name, known, place)
            for name in used
            if name.lower() not in low and not _is_audit(table, name)
        )
    return errors


def _wrong_aggregates(table: Table, check: Check) -> Iterator[LakesmithError]:
    """Yield errors: an aggregate in a check per row, or none in a check of the whole batch."""
    wants = isinstance(check.rule, BatchRule)
    what, hint = (
        ("has no aggregate, but `expect` checks the whole batch", "such as count(*) > 0; `sql` checks each row")
        if wants
        else ("has an aggregate, but `sql` checks each row", "`expect` checks the whole batch")
    )
    for condition in sql_named(check.rule):
        if _condition_facts(condition)[2] == (not wants):
            text = f"the condition of check {check.name} {what}"
            yield DeclarationError("bad-rule", text, at=check.declared_at, table=str(table.name), hint=hint)


def _condition_facts(condition: str) -> tuple[Sequence[str], str | None, bool | None]:
    """Return the columns that a condition names, its error if it has one, and whether it has an aggregate."""

    def read() -> tuple[tuple[str, ...], str | None, bool | None]:
        from lakesmith.sqlproof.conditions import ConditionFault, columns_of, has_aggregate

        try:
            return columns_of(condition), None, has_aggregate(condition)
        except ConditionFault as fault:
            return (), str(fault), None

    facts: tuple[Sequence[str], str | None, bool | None] = analysis_cache.get("condition", condition, read)
    return facts


def _columns_not_given(table: Table, query_columns: Sequence[str]) -> Iterator[LakesmithError]:
    """Yield errors for columns that a load or a contract needs and the query does not return."""
    low = {name.lower() for name in query_columns}
    for word, names in _columns_of_load(table.load):
        for name in names:
            if name.lower() not in low:
                yield _unknown_column(
                    table, f"{word} names column '{name}', which", name, query_columns, _load_place(table)
                )
    added = {name.lower() for name in added_columns(table.load)}
    if table.drift.missing_column != "freeze":
        return  # the contract defines what happens without it
    for column in table.columns:
        if column.name.lower() not in low | added:
            what = f"the declaration names column '{column.name}', which"
            yield _unknown_column(table, what, column.name, query_columns, column.declared_at)


def _columns_of_load(load: Load) -> list[tuple[str, Iterable[str]]]:
    """Return the columns that the query must return because the load names them, by declaration key."""
    match load:
        case ReplacePartitions(by=by):
            return [("replace_partitions", [by])]
        case Append(dedup=dedup, by=time):
            return [("append dedup", dedup), ("append by", [time] if time else [])]
        case Merge():
            return [("merge key", load.key), ("merge order_by", load.order_by), ("merge update", load.update)]
        case Scd2():
            tracked = [("scd2 track", load.track), ("scd2 ignore", load.ignore)]
            return [("scd2 key", load.key), ("scd2 order_by", load.order_by), *tracked]
        case Changes():
            options = [("changes amounts", load.amounts), ("changes previous_key", tuple(load.previous_key.values()))]
            return [("changes key", load.key), ("changes order_by", load.order_by), ("changes op", [load.op]), *options]
        case Snapshot():
            tracked = [("snapshot track", load.track), ("snapshot ignore", load.ignore)]
            return [("snapshot key", load.key), ("snapshot taken", [load.taken]), *tracked]
        case Replace():
            return []
        case _:
            assert_never(load)


def _columns_added_twice(table: Table, query_columns: Sequence[str]) -> Iterator[LakesmithError]:
    """Yield errors for columns that the load adds although the query returns or the declaration names them."""
    added = {name.lower() for name in added_columns(table.load)}
    for name in query_columns:
        if name.lower() in added:
            what = f"the query of {table.name} returns the column '{name}', which the load adds"
            yield _added_column(table, what, "give it another name in the query", _load_place(table))
    for column in table.columns:
        if column.name.lower() in added:
            what = f"'{column.name}' is added by the load, after types and checks are applied"
            yield _added_column(table, what, "remove it from columns", column.declared_at)


def _added_column(table: Table, what: str, hint: str, place: Place) -> DeclarationError:
    return DeclarationError("added-column", what, at=place, table=str(table.name), hint=hint)


def _load_place(table: Table) -> Place:
    return table.load_at or table.declared_at


def _unknown_column(table: Table, what: str, name: str, known: Sequence[str], place: Place) -> DeclarationError:
    return DeclarationError(
        "unknown-column",
        f"{what} {table.name} does not have",
        at=place,
        table=str(table.name),
        hint=did_you_mean(name, known, label="columns"),
    )


def _is_audit(table: Table, name: str) -> bool:
    return table.name.layer == "bronze" and name.startswith("_")
