"""What can be known of a query without running it: inputs, columns, and whether it can follow changes.

This is the light side of `statement`: importing it costs nothing until there is SQL to read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, assert_never

from lakesmith.declare import (
    Append,
    Changes,
    Files,
    Jdbc,
    Kafka,
    Merge,
    OtherTable,
    PythonQuery,
    Replace,
    ReplacePartitions,
    Scd2,
    Snapshot,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.declare.checks import BatchRule, Check, columns_named, sql_named
from lakesmith.declare.loads import Load, added_columns
from lakesmith.errors import DeclarationError, LakesmithError, Place, did_you_mean, raise_all
from lakesmith.sql import quoted
from lakesmith.sqlproof.analysis_cache import analysis_cache

if TYPE_CHECKING:
    from lakesmith.sqlproof.statement import ColumnUse, Fault, Scope, Source, Statement

Schemas = Mapping[TableName, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What the text of a query tells."""

    refs: tuple[TableName, ...]
    """The tables that it reads, in order of appearance."""
    columns: tuple[str, ...] | None
    """The names of its columns; None where a `*` cannot be expanded without schemas."""
    rowwise: bool
    """Each output row is proved to depend on one input row only."""
    not_rowwise_because: str | None
    reads: Mapping[TableName, frozenset[str]]
    """The columns that it reads, for the tables where that is decidable from the text."""
    lines: Mapping[TableName, int]
    """For each table, the line of the file on which it is first read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTrace:
    """The table whose rows decide into which partition a row falls, and how."""

    table: TableName
    expression: str
    """SQL over that table's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFinder:
    """How the keys are found whose rows change when rows of an input do."""

    queries: Mapping[TableName, SqlQuery]
    """By input, for `bind`: its columns are the key's. In the place of that input stand its changed rows, as they were
    and as they are; in the place of every other one the rows before and after. It may find keys whose rows stay the
    same, and keys with nulls, but together the queries of the inputs that changed miss none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """How the rows of a key, one of the table and one of new input rows alone, make the row of both."""

    combine: Mapping[str, Literal["add", "least", "greatest"]]
    """For each column that is not of the key. A null on one side leaves the other side's value."""
    exact_only_for: tuple[str, ...]
    """The sums: exact in any order when their type is an integer or a decimal, not when it is a float or a double."""


def read_query(query: SqlQuery, declared: Iterable[TableName] = ()) -> QueryFacts:
    """What the query's text tells. Raises what is wrong with it; `declared` only makes the hints better."""

    def read() -> dict[str, object]:
        statement = _statement(query)
        raise_all([_error(query, fault, declared) for fault in statement.faults])
        return _told(_facts(query))

    return _from_text(analysis_cache.answer("facts", [query.text, query.declared_at.line], read))


def bind(query: SqlQuery, names: Mapping[TableName, str]) -> str:
    """The query's own text with each table replaced by the view that stands for it."""
    statement = _statement(query)
    raise_all([_error(query, fault, ()) for fault in statement.faults])
    raise_all(list(_qualified_column_errors(query, statement)))
    text = statement.text
    edits: list[tuple[int, int, str]] = []
    for reference in statement.references:
        alias = "" if reference.alias else f" AS `{reference.table.name}`"
        view = names[reference.table].replace("`", "``")
        edits.append((reference.start, reference.end, f"`{view}`{alias}"))
    edits.extend((start, end, "") for start, end in _layer_prefixes(statement))
    edits.extend((start, end, "") for start, end in _last_semicolon(statement))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def random_call(query: SqlQuery) -> tuple[str, int] | None:
    """The function that makes the query give other rows each time, and its line in the file."""
    from lakesmith.sqlproof.functions import RANDOM

    called = _statement(query).called(RANDOM)
    return None if called is None else (called[0], called[1] + query.declared_at.line - 1)


def partition_trace(query: SqlQuery, by: str) -> PartitionTrace | str:
    """What decides the partition column `by`, or in words why that cannot be proved."""
    statement = _statement(query)
    from lakesmith.sqlproof.statement import Reason
    from lakesmith.sqlproof.trace import trace

    found = trace(statement, by)
    if isinstance(found, Reason):
        return found.describe(query.declared_at.line)
    return PartitionTrace(table=found.table, expression=found.text)


def partition_source(table: Table) -> PartitionTrace | str:
    """What decides the partition of a `replace_partitions` table: its `same_as`, or what its SQL proves."""
    load, origin = table.load, table.origin
    if not isinstance(load, ReplacePartitions):
        return "its load is not replace_partitions"
    if load.same_as is not None:
        layer, name, column = load.same_as.split(".", 2)
        return PartitionTrace(table=TableName(layer, name), expression=f"`{column}`")
    if isinstance(origin, SqlQuery):
        return partition_trace(origin, load.by)
    return "a Python query tells with same_as which input column decides the partition, and this one does not"


def rowwise(table: Table) -> str | None:
    """Why the table's query cannot be computed from changed rows alone, or None when it can."""
    match table.origin:
        case SqlQuery() as query:
            return read_query(query).not_rowwise_because
        case PythonQuery(rowwise=True):
            return None
        case PythonQuery():
            return "a Python query is not known to work row by row unless it says rowwise=True"
        case Files() | Kafka() | Jdbc() | OtherTable():
            return None


def key_finder(query: SqlQuery, key: Sequence[str]) -> KeyFinder | str:
    """How to find the keys that changed rows touch, or in words why that cannot be proved."""

    def read() -> dict[str, str] | str:
        statement = _statement(query)
        from lakesmith.sqlproof.key_finders import finders
        from lakesmith.sqlproof.statement import Reason

        found = finders(statement, key)
        if isinstance(found, Reason):
            return found.describe(query.declared_at.line)
        return {str(name): text for name, text in found.items()}

    told = analysis_cache.answer("finders", [query.text, query.declared_at.line, list(key)], read)
    if isinstance(told, str):
        return told
    return KeyFinder(queries={_name(name): replace(query, text=text) for name, text in told.items()})


def uses_key_finder(table: Table) -> bool:
    """Whether the keys that changes touch are found by a query of their own: the table's gives one row a key."""
    return isinstance(table.load, Merge) and not table.load.order_by and isinstance(table.origin, SqlQuery)


def sums(query: SqlQuery, key: Sequence[str]) -> Sums | str:
    """How new rows alone keep the result right while no input row changes or goes, or in words why they cannot."""

    def read() -> dict[str, object] | str:
        statement = _statement(query)
        from lakesmith.sqlproof.statement import Reason
        from lakesmith.sqlproof.sums import combinations

        found = combinations(statement, key)
        if isinstance(found, Reason):
            return found.describe(query.declared_at.line)
        return {"combine": found.by_column, "sums": found.sums}

    told = analysis_cache.answer("sums", [query.text, query.declared_at.line, list(key)], read)
    if isinstance(told, str):
        return told
    return Sums(combine=dict(told["combine"]), exact_only_for=tuple(told["sums"]))


def inputs(table: Table, declared: Iterable[TableName] = ()) -> tuple[TableName, ...]:
    """The tables that a table is made from, in order of appearance."""
    match table.origin:
        case SqlQuery() as query:
            return read_query(query, declared).refs
        case PythonQuery(refs=refs):
            return tuple(dict.fromkeys(name for _, name in refs))
        case Files() | Kafka() | Jdbc() | OtherTable():
            return ()


def output_columns(query: SqlQuery, schemas: Schemas) -> tuple[str, ...] | None:
    """The names of the query's columns, with the help of the schemas that are known."""

    def read() -> tuple[str, ...] | None:
        statement = _statement(query)
        from lakesmith.sqlproof.statement import outputs

        return outputs(statement.root, schemas)

    found = analysis_cache.answer("columns", [query.text, _known(query, schemas)], read)
    return None if found is None else tuple(found)


def table_columns(table: Table, schemas: Schemas) -> tuple[str, ...] | None:
    """The names of a table's columns where its query tells them: those that it gives, and those that the load adds."""
    given = output_columns(table.origin, schemas) if isinstance(table.origin, SqlQuery) else None
    return None if given is None else tuple(dict.fromkeys((*given, *added_columns(table.load))))


def given_columns(table: Table, schemas: Schemas) -> tuple[str, ...] | None:
    """The names of the columns that a table's query gives; where only the table's are known, those but the load's."""
    given = output_columns(table.origin, schemas) if isinstance(table.origin, SqlQuery) else None
    if given is not None or table.name not in schemas:
        return given
    return tuple(name for name in schemas[table.name] if name not in added_columns(table.load))


def check_columns(query: SqlQuery, schemas: Schemas) -> list[LakesmithError]:
    """The columns that no table in their scope has. Only scopes whose every table is known are judged."""

    def read() -> list[object]:
        statement = _statement(query)
        from lakesmith.sqlproof.columns import unknown

        return [[each.name, list(each.tables), each.line, list(each.known)] for each in unknown(statement, schemas)]

    return [
        DeclarationError(
            "unknown-column",
            f"column '{name}' is not in {' or '.join(tables)}",
            at=_place(query, line),
            hint=did_you_mean(name, known, label="columns"),
        )
        for name, tables, line, known in analysis_cache.answer("unknown", [query.text, _known(query, schemas)], read)
    ]


def check_conditions(table: Table, columns: Sequence[str] | None) -> list[LakesmithError]:
    """What is wrong with the table's conditions, and with the columns that its load and its contract name.

    `columns` are those that the query is known to give; a condition may use them and the declared ones.
    """
    origin = table.origin
    given = read_query(origin).columns if isinstance(origin, SqlQuery) else None
    errors: list[LakesmithError] = [] if given is None else list(_columns_not_given(table, given))
    errors += _columns_added_twice(table, given or columns or ())
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
    if given is not None or columns is not None:
        known = list(dict.fromkeys((*(given or columns or ()), *(column.name for column in table.columns))))
    for condition, shown, place in written:
        used, fault = analysis_cache.answer("condition", condition, functools.partial(_read_condition, condition))
        if fault is not None:
            errors.append(
                DeclarationError(
                    "sql-syntax",
                    f"{shown} cannot be read: {fault}",
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
            _unknown_promise(table, f"{shown} names column '{name}', which", name, known, place)
            for name in used
            if name.lower() not in low and not _is_audit(table, name)
        )
    return errors


def _wrong_aggregates(table: Table, check: Check) -> Iterator[LakesmithError]:
    """An aggregate where each row is asked, or none where all of them are."""
    wants = isinstance(check.rule, BatchRule)
    for text in sql_named(check.rule):
        if analysis_cache.answer("aggregate", text, functools.partial(_has_aggregate, text)) == (not wants):
            what, hint = (
                ("has no aggregate, and is about the whole batch", "such as count(*) > 0; `sql` is about each row")
                if wants
                else ("has an aggregate, and is about each row", "`expect` is about the whole batch")
            )
            told = f"the condition of check {check.name} {what}"
            yield DeclarationError("bad-rule", told, at=check.declared_at, table=str(table.name), hint=hint)


def _has_aggregate(condition: str) -> bool | None:
    """None where it cannot be told: a function may be anybody's."""
    from lakesmith.sqlproof.conditions import has_aggregate

    return has_aggregate(condition)


def _read_condition(condition: str) -> tuple[tuple[str, ...], str | None]:
    """The columns that a condition names, and what is wrong with it."""
    from lakesmith.sqlproof.conditions import ConditionFault, columns_of

    try:
        return columns_of(condition), None
    except ConditionFault as fault:
        return (), str(fault)


def column_origins(query: SqlQuery, schemas: Schemas) -> dict[str, frozenset[tuple[TableName, str]]]:
    """For each column of the result that can be followed, the table columns that it is made from."""
    statement = _statement(query)
    from lakesmith.sqlproof.columns import origins

    return origins(statement, schemas)


def _columns_not_given(table: Table, given: Sequence[str]) -> Iterator[LakesmithError]:
    """The columns that a load or a contract counts on and the query does not give."""
    low = {name.lower() for name in given}
    for word, names in _columns_of_load(table.load):
        for name in names:
            if name.lower() not in low:
                yield _unknown_promise(table, f"{word} names column '{name}', which", name, given, _load_place(table))
    added = {name.lower() for name in added_columns(table.load)}
    if table.drift.missing_column != "freeze":
        return  # the contract says what is done without it
    for column in table.columns:
        if column.name.lower() not in low | added:
            what = f"the declared column '{column.name}' is one that"
            yield _unknown_promise(table, what, column.name, given, column.declared_at)


def _columns_of_load(load: Load) -> list[tuple[str, Iterable[str]]]:
    """The columns that the query has to give because the load names them, with the words of the declaration."""
    match load:
        case ReplacePartitions(by=by):
            return [("replace_partitions", [by])]
        case Append(dedup=dedup, by=time):
            return [("append dedup", dedup), ("append by", [time] if time else [])]
        case Merge():
            return [("merge key", load.key), ("merge order_by", load.order_by), ("merge update", load.update)]
        case Scd2():
            kept = [("scd2 track", load.track), ("scd2 ignore", load.ignore)]
            return [("scd2 key", load.key), ("scd2 order_by", load.order_by), *kept]
        case Changes():
            kept = [("changes amounts", load.amounts), ("changes previous_key", tuple(load.previous_key.values()))]
            return [("changes key", load.key), ("changes order_by", load.order_by), ("changes op", [load.op]), *kept]
        case Snapshot():
            kept = [("snapshot track", load.track), ("snapshot ignore", load.ignore)]
            return [("snapshot key", load.key), ("snapshot taken", [load.taken]), *kept]
        case Replace():
            return []
        case _:
            assert_never(load)


def _columns_added_twice(table: Table, given: Sequence[str]) -> Iterator[LakesmithError]:
    """The columns that the load adds and that the query gives too, or that are promised as if it gave them."""
    added = {name.lower() for name in added_columns(table.load)}
    for name in given:
        if name.lower() in added:
            what = f"the query of {table.name} gives the column '{name}', which the load adds"
            yield _added(table, what, "give it another name in the query", _load_place(table))
    for column in table.columns:
        if column.name.lower() in added:
            what = f"'{column.name}' is added by the load, after types and checks have been looked at"
            yield _added(table, what, "remove it from columns", column.declared_at)


def _added(table: Table, what: str, hint: str, place: Place) -> DeclarationError:
    return DeclarationError("added-column", what, at=place, table=str(table.name), hint=hint)


def _load_place(table: Table) -> Place:
    return table.load_at or table.declared_at


def _unknown_promise(table: Table, what: str, name: str, known: Sequence[str], place: Place) -> DeclarationError:
    return DeclarationError(
        "unknown-column",
        f"{what} {table.name} does not have",
        at=place,
        table=str(table.name),
        hint=did_you_mean(name, known, label="columns"),
    )


def _is_audit(table: Table, name: str) -> bool:
    return table.name.layer == "bronze" and name.startswith("_")


def _known(query: SqlQuery, schemas: Schemas) -> list[object]:
    """What the schemas tell of the tables that a query reads."""
    return [[str(name), list(schemas[name])] for name in read_query(query).refs if name in schemas]


def _told(facts: QueryFacts) -> dict[str, object]:
    """Facts as JSON holds them."""
    return {
        "refs": [str(name) for name in facts.refs],
        "columns": facts.columns,
        "rowwise": facts.rowwise,
        "not_rowwise_because": facts.not_rowwise_because,
        "reads": {str(name): sorted(columns) for name, columns in facts.reads.items()},
        "lines": {str(name): line for name, line in facts.lines.items()},
    }


def _from_text(told: Mapping[str, Any]) -> QueryFacts:
    return QueryFacts(
        refs=tuple(map(_name, told["refs"])),
        columns=None if told["columns"] is None else tuple(told["columns"]),
        rowwise=told["rowwise"],
        not_rowwise_because=told["not_rowwise_because"],
        reads={_name(name): frozenset(columns) for name, columns in told["reads"].items()},
        lines={_name(name): line for name, line in told["lines"].items()},
    )


def _name(text: str) -> TableName:
    return TableName(*text.split(".", 1))


def _statement(query: SqlQuery) -> Statement:
    # sqlglot costs a quarter of a second to import; status and history never need it.
    from lakesmith.sqlproof.statement import Unreadable, read

    try:
        return read(query.text)
    except Unreadable as error:
        raise _error(query, error.fault, ()) from None


@functools.lru_cache(maxsize=4096)
def _facts(query: SqlQuery) -> QueryFacts:
    statement = _statement(query)
    from lakesmith.sqlproof.columns import reads
    from lakesmith.sqlproof.rowwise import not_rowwise
    from lakesmith.sqlproof.statement import outputs

    reason = not_rowwise(statement)
    first = query.declared_at.line
    lines: dict[TableName, int] = {}
    for reference in statement.references:
        lines.setdefault(reference.table, reference.line + first - 1)
    return QueryFacts(
        refs=tuple(lines),
        columns=None if statement.pipes else outputs(statement.root, {}),
        rowwise=reason is None,
        not_rowwise_because=None if reason is None else reason.describe(first),
        reads=reads(statement),
        lines=lines,
    )


def _place(query: SqlQuery, line: int) -> Place:
    return Place(query.declared_at.file, query.declared_at.line + line - 1)


def _error(query: SqlQuery, fault: Fault, declared: Iterable[TableName]) -> DeclarationError:
    hint = fault.hint
    if fault.unlayered is not None:
        same = sorted(str(name) for name in declared if name.name == fault.unlayered)
        if same:
            hint = f"write {' or '.join(same)}"
        else:
            hint = did_you_mean(fault.unlayered, (str(name) for name in declared), label="tables")
    return DeclarationError(fault.code, fault.what, at=_place(query, fault.line), hint=hint)


def _layer_prefixes(statement: Statement) -> Iterator[tuple[int, int]]:
    """Where a column is written layer.table.column: the layer, which the bound text does not know."""
    for scope, use, source in _qualified_uses(statement):
        if source is not None and not _ambiguous(scope, source):
            first, second = use.node.parts[0], use.node.parts[1]
            yield first.meta["start"], second.meta["start"]


def _qualified_column_errors(query: SqlQuery, statement: Statement) -> Iterator[DeclarationError]:
    for scope, use, source in _qualified_uses(statement):
        written = ".".join(part.name for part in use.node.parts)
        if source is None:
            what, hint = f"'{written}' names a table that has an alias here", "write alias.column"
        elif _ambiguous(scope, source):
            what = f"'{written}' is not plain: two tables here are called {source.alias}"
            hint = "give each an alias and write alias.column"
        else:
            continue
        line = int(use.node.parts[0].meta["line"])
        yield DeclarationError("qualified-column", what, at=_place(query, line), hint=hint)


def _qualified_uses(statement: Statement) -> Iterator[tuple[Scope, ColumnUse, Source | None]]:
    """The columns that begin with layer.table, with the source that this is, if it can be seen from there."""
    from lakesmith.sqlproof.statement import parts

    tables = {str(reference.table) for reference in statement.references}
    for scope in statement.scopes:
        for use in scope.uses:
            written = parts(use.node)
            if len(written) < 3 or f"{written[0]}.{written[1]}" not in tables:
                continue
            outer: Scope | None = scope
            found: Source | None = None
            is_alias = False
            while outer is not None and found is None and not is_alias:
                is_alias = outer.named(written[0]) is not None
                found = next(
                    (
                        source
                        for source in outer.sources
                        if not source.aliased and str(source.table) == f"{written[0]}.{written[1]}"
                    ),
                    None,
                )
                outer = outer.parent
            if not is_alias:
                yield scope, use, found


def _ambiguous(scope: Scope, source: Source) -> bool:
    return sum(other.alias == source.alias for other in scope.sources) > 1


def _last_semicolon(statement: Statement) -> Iterator[tuple[int, int]]:
    for token in reversed(statement.tokens):
        if token.text != ";":
            return
        yield token.start, token.end + 1
