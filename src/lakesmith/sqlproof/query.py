"""Answers what a plan asks about a query: inputs, columns, and whether it can be built from changes.

Results are cached as JSON. Importing this module is cheap: sqlglot is imported only when there is SQL to parse.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from lakesmith.declare import (
    Files,
    Jdbc,
    Kafka,
    Merge,
    OtherTable,
    PythonQuery,
    ReplacePartitions,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.declare.loads import added_columns
from lakesmith.errors import DeclarationError, Place, did_you_mean, raise_all
from lakesmith.sqlproof.analysis_cache import analysis_cache

if TYPE_CHECKING:
    from lakesmith.sqlproof.scopes import Fault
    from lakesmith.sqlproof.statement import Statement


Schemas = Mapping[TableName, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What the text of a query determines."""

    refs: tuple[TableName, ...]
    """The tables that it reads, in order of appearance."""
    columns: tuple[str, ...] | None
    """The names of its columns; None where a `*` cannot be expanded without schemas."""
    rowwise: bool
    """Each output row provably depends on one input row only."""
    not_rowwise_reason: str | None
    reads: Mapping[TableName, frozenset[str]]
    """The columns that it reads, for the tables where the text decides it."""
    lines: Mapping[TableName, int]
    """For each table, the line of the file on which it is first read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTrace:
    """The table that decides the partition of a row, and the expression that does."""

    table: TableName
    expression: str
    """SQL over that table's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFinder:
    """Queries that find the keys whose rows change when rows of an input do."""

    queries: Mapping[TableName, SqlQuery]
    """By input, a query for `bind` that returns keys. It reads the changed rows of that input, before and after the
    change, and the rows before and after of every other input. It may find keys whose rows stay the same, and keys
    with NULLs; together, the queries of the changed inputs find every changed key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """How the stored row of a key and the row built from new input rows combine."""

    combine: Mapping[str, Literal["add", "least", "greatest"]]
    """For each column outside the key. Where one side is NULL, the other side's value is used."""
    exact_only_for: tuple[str, ...]
    """The sums: exact in any order when their type is an integer or a decimal, not when it is a float or a double."""


def read_query(query: SqlQuery, declared: Iterable[TableName] = ()) -> QueryFacts:
    """Return what the query's text determines. Raise its errors; `declared` only improves the hints."""

    def read() -> dict[str, object]:
        statement = statement_of(query)
        raise_all([fault_error(query, fault, declared) for fault in statement.faults])
        return _to_json(_facts(query))

    return _from_json(analysis_cache.get("facts", [query.text, query.declared_at.line], read))


def random_call(query: SqlQuery) -> tuple[str, int] | None:
    """Return the function that makes the query return other rows each time, and its line in the file."""
    from lakesmith.sqlproof.functions import RANDOM

    called = statement_of(query).called(RANDOM)
    return None if called is None else (called[0], called[1] + query.declared_at.line - 1)


def partition_trace(query: SqlQuery, by: str) -> PartitionTrace | str:
    """Return what decides the partition column `by`, or the reason why that cannot be proved."""
    statement = statement_of(query)
    from lakesmith.sqlproof.scopes import Reason
    from lakesmith.sqlproof.trace import trace

    found = trace(statement, by)
    if isinstance(found, Reason):
        return found.describe(query.declared_at.line)
    return PartitionTrace(table=found.table, expression=found.text)


def partition_source(table: Table) -> PartitionTrace | str:
    """Return what decides the partition of a `replace_partitions` table: its `same_as`, or what its SQL proves."""
    load, origin = table.load, table.origin
    if not isinstance(load, ReplacePartitions):
        return "its load is not replace_partitions"
    if load.same_as is not None:
        layer, name, column = load.same_as.split(".", 2)
        return PartitionTrace(table=TableName(layer, name), expression=f"`{column}`")
    if isinstance(origin, SqlQuery):
        return partition_trace(origin, load.by)
    return "a Python query needs same_as to name the input column that decides the partition"


def rowwise(table: Table) -> str | None:
    """Return why the table's query cannot be built from changed rows alone, or None."""
    match table.origin:
        case SqlQuery() as query:
            return read_query(query).not_rowwise_reason
        case PythonQuery(rowwise=True):
            return None
        case PythonQuery():
            return "a Python query works row by row only if it declares rowwise=True"
        case Files() | Kafka() | Jdbc() | OtherTable():
            return None


def key_finder(query: SqlQuery, key: Sequence[str]) -> KeyFinder | str:
    """Return how to find the keys that changed rows touch, or the reason why that cannot be proved."""

    def read() -> dict[str, str] | str:
        statement = statement_of(query)
        from lakesmith.sqlproof.key_finders import finders
        from lakesmith.sqlproof.scopes import Reason

        found = finders(statement, key)
        if isinstance(found, Reason):
            return found.describe(query.declared_at.line)
        return {str(name): text for name, text in found.items()}

    cached = analysis_cache.get("finders", [query.text, query.declared_at.line, list(key)], read)
    if isinstance(cached, str):
        return cached
    return KeyFinder(queries={_table_name(name): replace(query, text=text) for name, text in cached.items()})


def uses_key_finder(table: Table) -> bool:
    """Whether touched keys are found by queries of their own, because the table's query gives one row per key."""
    return isinstance(table.load, Merge) and not table.load.order_by and isinstance(table.origin, SqlQuery)


def sums(query: SqlQuery, key: Sequence[str]) -> Sums | str:
    """Return how new rows alone update the result of append-only inputs, or the reason why they cannot."""

    def read() -> dict[str, object] | str:
        statement = statement_of(query)
        from lakesmith.sqlproof.scopes import Reason
        from lakesmith.sqlproof.sums import combinations

        found = combinations(statement, key)
        if isinstance(found, Reason):
            return found.describe(query.declared_at.line)
        return {"combine": found.by_column, "sums": found.sums}

    cached = analysis_cache.get("sums", [query.text, query.declared_at.line, list(key)], read)
    if isinstance(cached, str):
        return cached
    return Sums(combine=dict(cached["combine"]), exact_only_for=tuple(cached["sums"]))


def inputs(table: Table, declared: Iterable[TableName] = ()) -> tuple[TableName, ...]:
    """Return the tables that a table reads, in order of appearance."""
    match table.origin:
        case SqlQuery() as query:
            return read_query(query, declared).refs
        case PythonQuery(refs=refs):
            return tuple(dict.fromkeys(name for _, name in refs))
        case Files() | Kafka() | Jdbc() | OtherTable():
            return ()


def output_columns(query: SqlQuery, schemas: Schemas) -> tuple[str, ...] | None:
    """Return the names of the query's columns, using the known schemas."""

    def read() -> tuple[str, ...] | None:
        statement = statement_of(query)
        from lakesmith.sqlproof.output_columns import outputs

        return outputs(statement.root, schemas)

    found = analysis_cache.get("columns", [query.text, known_schemas(query, schemas)], read)
    return None if found is None else tuple(found)


def table_columns(table: Table, schemas: Schemas) -> tuple[str, ...] | None:
    """Return a table's column names where its query determines them: its own, and those that the load adds."""
    query_columns = output_columns(table.origin, schemas) if isinstance(table.origin, SqlQuery) else None
    return None if query_columns is None else tuple(dict.fromkeys((*query_columns, *added_columns(table.load))))


def given_columns(table: Table, schemas: Schemas) -> tuple[str, ...] | None:
    """Return the columns that a table's query returns; from the stored schema, those that the load did not add."""
    query_columns = output_columns(table.origin, schemas) if isinstance(table.origin, SqlQuery) else None
    if query_columns is not None or table.name not in schemas:
        return query_columns
    return tuple(name for name in schemas[table.name] if name not in added_columns(table.load))


def column_origins(query: SqlQuery, schemas: Schemas) -> dict[str, frozenset[tuple[TableName, str]]]:
    """Return, for each result column that can be traced, the table columns that it is derived from."""
    statement = statement_of(query)
    from lakesmith.sqlproof.columns import origins

    return origins(statement, schemas)


def known_schemas(query: SqlQuery, schemas: Schemas) -> list[object]:
    """Return the schemas of the tables that a query reads."""
    return [[str(name), list(schemas[name])] for name in read_query(query).refs if name in schemas]


def _to_json(facts: QueryFacts) -> dict[str, object]:
    """Return the facts as JSON values."""
    return {
        "refs": [str(name) for name in facts.refs],
        "columns": facts.columns,
        "rowwise": facts.rowwise,
        "not_rowwise_reason": facts.not_rowwise_reason,
        "reads": {str(name): sorted(columns) for name, columns in facts.reads.items()},
        "lines": {str(name): line for name, line in facts.lines.items()},
    }


def _from_json(recorded: Mapping[str, Any]) -> QueryFacts:
    return QueryFacts(
        refs=tuple(map(_table_name, recorded["refs"])),
        columns=None if recorded["columns"] is None else tuple(recorded["columns"]),
        rowwise=recorded["rowwise"],
        not_rowwise_reason=recorded["not_rowwise_reason"],
        reads={_table_name(name): frozenset(columns) for name, columns in recorded["reads"].items()},
        lines={_table_name(name): line for name, line in recorded["lines"].items()},
    )


def _table_name(text: str) -> TableName:
    return TableName(*text.split(".", 1))


def statement_of(query: SqlQuery) -> Statement:
    # sqlglot takes a quarter of a second to import; status and history never need it.
    from lakesmith.sqlproof.parsing import UnparsableSql
    from lakesmith.sqlproof.statement import read

    try:
        return read(query.text)
    except UnparsableSql as error:
        raise fault_error(query, error.fault, ()) from None


@functools.lru_cache(maxsize=4096)
def _facts(query: SqlQuery) -> QueryFacts:
    statement = statement_of(query)
    from lakesmith.sqlproof.columns import reads
    from lakesmith.sqlproof.output_columns import outputs
    from lakesmith.sqlproof.rowwise import not_rowwise

    reason = not_rowwise(statement)
    first = query.declared_at.line
    lines: dict[TableName, int] = {}
    for reference in statement.references:
        lines.setdefault(reference.table, reference.line + first - 1)
    return QueryFacts(
        refs=tuple(lines),
        columns=None if statement.pipes else outputs(statement.root, {}),
        rowwise=reason is None,
        not_rowwise_reason=None if reason is None else reason.describe(first),
        reads=reads(statement),
        lines=lines,
    )


def place_in(query: SqlQuery, line: int) -> Place:
    return Place(query.declared_at.file, query.declared_at.line + line - 1)


def fault_error(query: SqlQuery, fault: Fault, declared: Iterable[TableName]) -> DeclarationError:
    hint = fault.hint
    if fault.unlayered is not None:
        same = sorted(str(name) for name in declared if name.name == fault.unlayered)
        if same:
            hint = f"write {' or '.join(same)}"
        else:
            hint = did_you_mean(fault.unlayered, (str(name) for name in declared), label="tables")
    return DeclarationError(fault.code, fault.what, at=place_in(query, fault.line), hint=hint)
