"""Answers what a plan asks about a query: inputs, columns, and whether it can be built from changes.

Results are cached as JSON. Importing this module is cheap: sqlglot is imported only when there is SQL to parse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

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
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What the text of a query determines."""

    refs: tuple[TableName, ...]
    """The tables that it reads, in order of appearance."""
    columns: tuple[str, ...] | None
    """The names of its columns; None where a `*` cannot be expanded without schemas."""
    not_rowwise_reason: str | None
    """Why an output row may depend on several input rows; None where each provably depends on one only."""
    reads: Mapping[TableName, frozenset[str]]
    """The columns that it reads, for the tables where the text decides it."""
    lines: Mapping[TableName, int]
    """For each table, the line of the file on which it is first read."""

    @property
    def rowwise(self) -> bool:
        return self.not_rowwise_reason is None


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
        raise_all([fault_error(query, fault, declared) for fault in statement_of(query).faults])
        return _query_facts(query)

    facts = analysis_cache.get("facts", [query.text, query.declared_at.line], read)
    return QueryFacts(
        refs=tuple(map(_table_name, facts["lines"])),
        columns=None if facts["columns"] is None else tuple(facts["columns"]),
        not_rowwise_reason=facts["not_rowwise_reason"],
        reads={_table_name(name): frozenset(columns) for name, columns in facts["reads"].items()},
        lines={_table_name(name): line for name, line in facts["lines"].items()},
    )


def random_call(query: SqlQuery) -> tuple[str, int] | None:
    """Return the function that makes the query return other rows each time, and its line in the file."""
    from lakesmith.sqlproof.functions import RANDOM

    called = statement_of(query).called(RANDOM)
    return None if called is None else (called[0], called[1] + query.declared_at.line - 1)


def partition_trace(query: SqlQuery, by: str) -> PartitionTrace | str:
    """Return what decides the partition column `by`, or the reason why that cannot be proved."""
    from lakesmith.sqlproof.trace import trace

    proof = _proof(query, lambda statement: trace(statement, by))
    return proof if isinstance(proof, str) else PartitionTrace(table=proof[0], expression=proof[1])


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
        from lakesmith.sqlproof.key_finders import finders

        proof = _proof(query, lambda statement: finders(statement, key))
        return proof if isinstance(proof, str) else {str(name): text for name, text in proof.items()}

    proof = analysis_cache.get("finders", [query.text, query.declared_at.line, list(key)], read)
    if isinstance(proof, str):
        return proof
    return KeyFinder(queries={_table_name(name): replace(query, text=text) for name, text in proof.items()})


def uses_key_finder(table: Table) -> bool:
    """Whether touched keys are found by queries of their own, because the table's query gives one row per key."""
    return isinstance(table.load, Merge) and not table.load.order_by and isinstance(table.origin, SqlQuery)


def sums(query: SqlQuery, key: Sequence[str]) -> Sums | str:
    """Return how new rows alone update the result of append-only inputs, or the reason why they cannot."""

    def read() -> tuple[object, object] | str:
        from lakesmith.sqlproof.sums import combinations

        return _proof(query, lambda statement: combinations(statement, key))

    proof = analysis_cache.get("sums", [query.text, query.declared_at.line, list(key)], read)
    return proof if isinstance(proof, str) else Sums(combine=dict(proof[0]), exact_only_for=tuple(proof[1]))


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
        from lakesmith.sqlproof.output_columns import outputs

        return outputs(statement_of(query).root, schemas)

    names = analysis_cache.get("columns", [query.text, known_schemas(query, schemas)], read)
    return None if names is None else tuple(names)


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
    from lakesmith.sqlproof.columns import origins

    return origins(statement_of(query), schemas)


def known_schemas(query: SqlQuery, schemas: Schemas) -> list[object]:
    """Return the schemas of the tables that a query reads."""
    return [[str(name), list(schemas[name])] for name in read_query(query).refs if name in schemas]


def _table_name(text: str) -> TableName:
    return TableName(*text.split(".", 1))


def statement_of(query: SqlQuery) -> Statement:
    # sqlglot takes a quarter of a second to import; status and history never need it.
    from lakesmith.sqlproof.scopes import Fault
    from lakesmith.sqlproof.statement import read

    try:
        return read(query.text)
    except Fault as fault:
        raise fault_error(query, fault, ()) from None


def _proof(query: SqlQuery, prove: Callable[[Statement], T]) -> T | str:
    """Return the proof, or the reason why something cannot be proved."""
    from lakesmith.sqlproof.scopes import NotProvable

    try:
        return prove(statement_of(query))
    except NotProvable as reason:
        return reason.describe(query.declared_at.line)


def _query_facts(query: SqlQuery) -> dict[str, object]:
    """Return the facts as JSON values."""
    from lakesmith.sqlproof.columns import reads
    from lakesmith.sqlproof.output_columns import outputs
    from lakesmith.sqlproof.rowwise import check_rowwise

    statement = statement_of(query)
    lines: dict[str, int] = {}
    for reference in statement.references:
        lines.setdefault(str(reference.table), place_in(query, reference.line).line)
    return {
        "lines": lines,
        "columns": None if statement.pipes else outputs(statement.root, {}),
        "not_rowwise_reason": _proof(query, check_rowwise),
        "reads": {str(name): sorted(columns) for name, columns in reads(statement).items()},
    }


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
