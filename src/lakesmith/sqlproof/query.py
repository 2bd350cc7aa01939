"""What can be known of a query without running it: inputs, columns, and whether it can follow changes.

This is the light side of `statement`: importing it costs nothing until there is SQL to read.
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
        statement = statement_of(query)
        raise_all([fault_error(query, fault, declared) for fault in statement.faults])
        return _to_json(_facts(query))

    return _from_json(analysis_cache.answer("facts", [query.text, query.declared_at.line], read))


def random_call(query: SqlQuery) -> tuple[str, int] | None:
    """The function that makes the query give other rows each time, and its line in the file."""
    from lakesmith.sqlproof.functions import RANDOM

    called = statement_of(query).called(RANDOM)
    return None if called is None else (called[0], called[1] + query.declared_at.line - 1)


def partition_trace(query: SqlQuery, by: str) -> PartitionTrace | str:
    """What decides the partition column `by`, or in words why that cannot be proved."""
    statement = statement_of(query)
    from lakesmith.sqlproof.scopes import Reason
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
        statement = statement_of(query)
        from lakesmith.sqlproof.key_finders import finders
        from lakesmith.sqlproof.scopes import Reason

        found = finders(statement, key)
        if isinstance(found, Reason):
            return found.describe(query.declared_at.line)
        return {str(name): text for name, text in found.items()}

    told = analysis_cache.answer("finders", [query.text, query.declared_at.line, list(key)], read)
    if isinstance(told, str):
        return told
    return KeyFinder(queries={_table_name(name): replace(query, text=text) for name, text in told.items()})


def uses_key_finder(table: Table) -> bool:
    """Whether the keys that changes touch are found by a query of their own: the table's gives one row a key."""
    return isinstance(table.load, Merge) and not table.load.order_by and isinstance(table.origin, SqlQuery)


def sums(query: SqlQuery, key: Sequence[str]) -> Sums | str:
    """How new rows alone keep the result right while no input row changes or goes, or in words why they cannot."""

    def read() -> dict[str, object] | str:
        statement = statement_of(query)
        from lakesmith.sqlproof.scopes import Reason
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
        statement = statement_of(query)
        from lakesmith.sqlproof.output_columns import outputs

        return outputs(statement.root, schemas)

    found = analysis_cache.answer("columns", [query.text, known_schemas(query, schemas)], read)
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


def column_origins(query: SqlQuery, schemas: Schemas) -> dict[str, frozenset[tuple[TableName, str]]]:
    """For each column of the result that can be followed, the table columns that it is made from."""
    statement = statement_of(query)
    from lakesmith.sqlproof.columns import origins

    return origins(statement, schemas)


def known_schemas(query: SqlQuery, schemas: Schemas) -> list[object]:
    """What the schemas tell of the tables that a query reads."""
    return [[str(name), list(schemas[name])] for name in read_query(query).refs if name in schemas]


def _to_json(facts: QueryFacts) -> dict[str, object]:
    """Facts as JSON holds them."""
    return {
        "refs": [str(name) for name in facts.refs],
        "columns": facts.columns,
        "rowwise": facts.rowwise,
        "not_rowwise_because": facts.not_rowwise_because,
        "reads": {str(name): sorted(columns) for name, columns in facts.reads.items()},
        "lines": {str(name): line for name, line in facts.lines.items()},
    }


def _from_json(told: Mapping[str, Any]) -> QueryFacts:
    return QueryFacts(
        refs=tuple(map(_table_name, told["refs"])),
        columns=None if told["columns"] is None else tuple(told["columns"]),
        rowwise=told["rowwise"],
        not_rowwise_because=told["not_rowwise_because"],
        reads={_table_name(name): frozenset(columns) for name, columns in told["reads"].items()},
        lines={_table_name(name): line for name, line in told["lines"].items()},
    )


def _table_name(text: str) -> TableName:
    return TableName(*text.split(".", 1))


def statement_of(query: SqlQuery) -> Statement:
    # sqlglot costs a quarter of a second to import; status and history never need it.
    from lakesmith.sqlproof.parsing import Unreadable
    from lakesmith.sqlproof.statement import read

    try:
        return read(query.text)
    except Unreadable as error:
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
        not_rowwise_because=None if reason is None else reason.describe(first),
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
