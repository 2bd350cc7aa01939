"""Runs SQL with DuckDB over Arrow in isolation: a query sees the given tables and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lakesmith.declare import QueryLimits
from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError, LakesmithError, Place, UsageError, did_you_mean, uncoloured
from lakesmith.ports import Answer, View
from lakesmith.query.functions import check_functions, no_file_access
from lakesmith.query.limits import Deadline, allowed_memory, answer_memory, out_of_memory, too_many_rows
from lakesmith.query.names import quoted, unknown_table
from lakesmith.query.spark_sql import select_of
from lakesmith.query.tree import is_file_name, nodes, scans_once, table_paths
from lakesmith.query.values import python_values, size_of, text_type

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset

    Rows: TypeAlias = pyarrow.dataset.Dataset | pa.RecordBatchReader

_EXPLAIN = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*explain(\s+analyze)?\s+(?!\()", re.IGNORECASE | re.DOTALL)
_LINE = re.compile(r"\n+LINE (\d+): (.*)")
_ERROR_CLASS = re.compile(r"([A-Z][A-Za-z ]+) Error: ")
_NO_COLUMN = re.compile(r'Referenced column "(.+?)" not found|does not have a column named "(.+?)"')
_NO_TABLE = re.compile(r"Table with name \"?(.+?)\"? does not exist")
_NO_FUNCTION = re.compile(r"Function with name \"?(.+?)\"? (?:does not exist|is not in the catalog)")
_STREAM = re.compile(r"reading the stream registered as 'input_(\d+)' failed: (.*)", re.DOTALL)
_FILE = re.compile(r'Cannot access (?:file|directory) "(.+?)"')
_FETCHED = 2_048
"""Rows per fetch: one DuckDB vector, because the size of rows is known only after a fetch."""
_ONLY_SELECT = "a query is one SELECT; WITH, VALUES, DESCRIBE, SUMMARIZE and EXPLAIN SELECT work too"
_SHOWN = frozenset(("DESCRIBE", "SHOW", "SUMMARY"))
"""Allowed statements about one table."""


class DuckDB:
    """`ports.QueryEngine` on DuckDB."""

    name = "duckdb"

    def __init__(self, limits: QueryLimits | None = None) -> None:
        self._limits = limits or QueryLimits(timeout=None)

    def referenced(self, sql: str) -> frozenset[str]:
        """Return the table names, as written, that a statement reads. Raise when it is not a single SELECT."""
        with self._connect() as connection:
            return frozenset(_table_names(_parse(connection, sql)))

    def query(
        self,
        sql: str,
        tables: Mapping[str, Rows],
        views: Mapping[str, View] | None = None,
        *,
        rows: int | None = None,
    ) -> Answer:
        """Run the statement over these tables and views only. Return the first `rows`."""
        import duckdb

        with self._connect() as connection, Deadline(connection, self._limits.timeout) as deadline:
            tree = _parse(connection, sql)
            _refuse_unknown_tables(tree, (*tables, *(views or {})))
            fetching = _Fetcher(connection, deadline, allowed_memory(self._limits), rows)
            try:
                for number, (name, table_rows) in enumerate(tables.items()):
                    read = table_rows if scans_once(tree) else fetching.in_memory(name, table_rows)
                    _expose(connection, f"input_{number}", name, read)
                for name, view in (views or {}).items():
                    _make_view(connection, name, view)
                connection.execute("SET lock_configuration = true")
                return fetching.answer(sql, tree)
            except (duckdb.Error, OSError) as error:
                # An error during a fetch comes through Arrow, as an OSError with DuckDB's message.
                raise _translate_error(error, tables, deadline) from None

    def sample(self, rows: Rows, columns: Sequence[str], count: int) -> pa.Table:
        """Return a uniform random sample of `count` rows."""
        import duckdb

        with self._connect() as connection, Deadline(connection, self._limits.timeout) as deadline:
            connection.register("input_0", rows)
            selected = ", ".join(map(quoted, columns)) or "NULL"
            sampled = f"SELECT {selected} FROM input_0 USING SAMPLE reservoir({count} ROWS) REPEATABLE (1)"
            try:
                return connection.sql(sampled).to_arrow_table()
            except duckdb.Error as error:
                raise _translate_error(error, {"the table": rows}, deadline) from None

    def _connect(self) -> duckdb.DuckDBPyConnection:
        # duckdb takes 0.2 s to import, so only a query imports it.
        import duckdb

        connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{allowed_memory(self._limits)}B",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        for setting in (
            # Nothing spills to disk: a query that exceeds its memory fails.
            "temp_directory = ''",
            "TimeZone = 'UTC'",
            "arrow_large_buffer_size = true",
            "python_enable_replacements = false",
            "enable_external_access = false",
        ):
            connection.execute(f"SET {setting}")
        return connection


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """Fetches rows into Python, within the limits of one query."""

    connection: duckdb.DuckDBPyConnection
    deadline: Deadline
    memory: int
    limit: int | None
    """How many rows to return; None returns all."""

    def in_memory(self, name: str, table_rows: Rows) -> Rows | pa.Table:
        """Return rows that can be scanned several times: a stream is read to its end."""
        import pyarrow as pa

        if not isinstance(table_rows, pa.RecordBatchReader):
            return table_rows
        batches, size = [], 0
        try:
            for batch in table_rows:
                self.deadline.check()
                batches.append(batch)
                size += batch.nbytes
                if size > self.memory:
                    raise out_of_memory()
        except (pa.ArrowException, OSError) as error:
            raise _unreadable_table(name, table_rows, str(error)) from None
        return pa.Table.from_batches(batches, table_rows.schema)

    def answer(self, sql: str, tree: dict[str, Any]) -> Answer:
        """Return the result of the statement: all rows, or the first ones."""
        relation = self.connection.sql(_runnable(self.connection, sql, tree))
        names, types = tuple(relation.columns), tuple(map(str, relation.types))
        casts = [text_type(type) for type in relation.types]
        if any(casts):
            aliases = [f"c{number}" for number in range(len(names))]
            selected = ", ".join(
                f"CAST({alias} AS {cast})" if cast else alias for alias, cast in zip(aliases, casts, strict=True)
            )
            # The original text may end in a semicolon and a comment.
            inner = _deserialized(self.connection, tree)
            relation = self.connection.sql(f"SELECT {selected} FROM (\n{inner}\n) AS answer({', '.join(aliases)})")
        rows, truncated = self._fetch(relation)
        return Answer(columns=names, types=types, rows=tuple(rows), truncated=truncated)

    def _fetch(self, relation: duckdb.DuckDBPyRelation) -> tuple[list[tuple[object, ...]], bool]:
        """Return the rows, and whether there are more. Raise when the result exceeds its memory."""
        rows: list[tuple[object, ...]] = []
        size, types = 0, relation.types
        at_once = _FETCHED if self.limit is None else min(_FETCHED, self.limit + 1)
        with relation.to_arrow_reader(at_once) as reader:
            for batch in reader:
                self.deadline.check()
                if batch.nbytes > answer_memory(self.memory):
                    raise too_many_rows(len(rows))
                columns = [python_values(*each) for each in zip(batch.columns, types, strict=True)]
                fetched = list(zip(*columns, strict=True))
                size += size_of(fetched)
                if size > answer_memory(self.memory):
                    raise too_many_rows(len(rows))
                rows += fetched
                if self.limit is not None and len(rows) > self.limit:
                    return rows[: self.limit], True
        return rows, False


def _parse(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """Return the statement's tree from DuckDB's own parser, without resolving any table."""
    import duckdb

    try:
        sql.encode()
        statements = connection.extract_statements(sql)
    except UnicodeEncodeError as error:
        what = f"the query has an invalid character after {sql[max(error.start - 20, 0) : error.start]!r}"
        raise UsageError("sql-syntax", what, hint="write the query as UTF-8") from None
    except duckdb.Error as error:
        raise _translate(str(error), {}) from None
    if len(statements) != 1:
        what = f"{len(statements)} statements" if statements else "no statement"
        raise UsageError("not-a-select", f"the query has {what}", hint=_ONLY_SELECT)
    explain = _EXPLAIN.match(sql)
    select = sql[explain.end() :] if explain else sql
    tree = _serialized(connection, select)
    if statements[0].type.name == "MULTI":
        hint = "name the values: PIVOT silver.orders ON country IN ('DE', 'FR') USING sum(amount)"
        raise UsageError("not-a-select", "PIVOT without IN is several statements in DuckDB", hint=hint)
    if tree.get("error", True):
        raise UsageError("not-a-select", f"the query is not a SELECT but {_statement_name(select)}", hint=_ONLY_SELECT)
    for node in nodes(tree):
        if str(node.get("type")).endswith("_QUERY_NODE"):
            statement = str(node["type"]).removesuffix("_QUERY_NODE")
            raise UsageError("not-a-select", f"the query contains {statement}", hint=_ONLY_SELECT)
        if node.get("type") == "SHOW_REF" and (node["show_type"] not in _SHOWN or node["query"] is None):
            raise UsageError("not-a-select", "SHOW is not supported", hint="`lakesmith status` lists the tables")
    check_functions(tree, select, partial(_is_table_function, connection))
    return tree


def _serialized(connection: duckdb.DuckDBPyConnection, select: str) -> dict[str, Any]:
    # `fetchall`, because an unfinished result keeps the connection busy.
    [(text,)] = connection.execute("SELECT json_serialize_sql(?)", [select]).fetchall()
    tree: dict[str, Any] = json.loads(text)
    return tree


def _deserialized(connection: duckdb.DuckDBPyConnection, tree: dict[str, Any]) -> str:
    [(text,)] = connection.execute("SELECT json_deserialize_sql(CAST(? AS JSON))", [json.dumps(tree)]).fetchall()
    return str(text)


def _is_table_function(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    sql = (
        "SELECT 1 FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro') AND lower(function_name) = ?"
    )
    return bool(connection.execute(sql, [name]).fetchall())


def _statement_name(sql: str) -> str:
    words = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL).split()
    return words[0].upper() if words else "nothing"


def _table_names(tree: dict[str, Any]) -> frozenset[str]:
    """Return the tables that a statement reads. Raise at a file name."""
    paths = list(table_paths(tree))
    for path in paths:
        if is_file_name(path):
            raise no_file_access(path[0])
    return frozenset(".".join(path) for path in paths)


def _refuse_unknown_tables(tree: dict[str, Any], known: Sequence[str]) -> None:
    """Raise at a name that is not one of the tables: DuckDB would search its own catalog for it."""
    names = {name.lower() for name in known}
    for name in sorted(_table_names(tree)):
        if name.lower() not in names:
            raise unknown_table(name, known)


def _expose(connection: duckdb.DuckDBPyConnection, input_name: str, name: str, rows: Rows | pa.Table) -> None:
    connection.register(input_name, rows)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS memory.{quoted(_schema(name.partition('.')[0]))}")
    connection.execute(f"CREATE VIEW {_internal_name(name)} AS FROM memory.main.{input_name}")


def _internal_name(name: str) -> str:
    """Return a table's name inside DuckDB."""
    schema, _, table = name.partition(".")
    return f"memory.{quoted(_schema(schema))}.{quoted(table)}"


def _make_view(connection: duckdb.DuckDBPyConnection, name: str, view: View) -> None:
    import duckdb

    select = select_of(view, _internal_name(view.table))
    check_functions(_serialized(connection, select), select, partial(_is_table_function, connection))
    try:
        connection.execute(f"CREATE VIEW {_internal_name(name)} AS {select}")
    except duckdb.Error as error:
        raise UsageError(
            "query-failed",
            f"{name} cannot be derived from the current {view.table}: {_translate(str(error), {}).what}",
            hint="`lakesmith validate` checks the SQL below `previous` in the contract",
        ) from None


def _schema(written: str) -> str:
    # DuckDB has a catalog named `system`, so a schema of that name would be ambiguous.
    return "lake_system" if written.lower() == "system" else written


def _runnable(connection: duckdb.DuckDBPyConnection, sql: str, tree: dict[str, Any]) -> str:
    """Return the statement, with the internal schema name where it reads `system` tables."""
    renamed = False
    for node in nodes(tree):
        path = (node.get("qualified_name") or {}).get("path") or []
        columns = node.get("column_names") or []
        if node.get("type") == "BASE_TABLE" and len(path) == 2 and path[0].lower() == "system":
            node["schema_name"] = path[0] = _schema(path[0])
            renamed = True
        elif node.get("class") == "COLUMN_REF" and len(columns) == 3 and columns[0].lower() == "system":
            columns[0] = _schema(columns[0])
    if not renamed:
        return sql
    explain = _EXPLAIN.match(sql)
    return (explain.group() if explain else "") + _deserialized(connection, tree)


def _unreadable_table(name: str, rows: Rows, message: str) -> InfrastructureError:
    """Return the error for a table whose rows cannot be read, naming the file that fails."""
    import pyarrow as pa

    text = f"{name} cannot be read: {' '.join(uncoloured(message).split())}"
    if not isinstance(rows, pa.RecordBatchReader):
        for fragment in rows.get_fragments():
            try:
                for _ in fragment.to_batches():
                    pass
            except (pa.ArrowException, OSError) as error:
                text = f"{name} cannot be read: {fragment.path}: {' '.join(uncoloured(str(error)).split())}"
                break
    return disk_failure(message, text) or InfrastructureError(
        "table-unreadable",
        text,
        hint="restore the file from a backup of the warehouse, or rebuild a silver or gold table: "
        f"lakesmith run {name} --full-refresh",
    )


def _translate_error(error: Exception, tables: Mapping[str, Rows], deadline: Deadline) -> BaseException:
    """Return the error or interrupt of a statement as an exception of Lakesmith."""
    message = str(error)
    if message.startswith("INTERRUPT Error"):
        return deadline.error if deadline.passed else KeyboardInterrupt()
    return _translate(message, tables)


def _translate(message: str, tables: Mapping[str, Rows]) -> LakesmithError:
    """Return the Lakesmith error for a DuckDB message."""
    if stream := _STREAM.search(message):
        return _unreadable_table(*list(tables.items())[int(stream[1])], stream[2])
    line = _LINE.search(message)
    at = Place("query", int(line.group(1))) if line else None
    shown = f"the line reads: {line.group(2).strip()}" if line else None
    what = _ERROR_CLASS.sub("", message.partition("\n")[0], count=1)
    error_class = match[1] if (match := _ERROR_CLASS.match(message)) else ""
    if error_class == "Parser":
        return UsageError("sql-syntax", what, at=at, hint=shown)
    if error_class == "Permission":
        path = _FILE.search(message)
        return no_file_access(path.group(1) if path else what)
    if error_class == "Out of Memory":
        return out_of_memory()
    if missing := _NO_COLUMN.search(message):
        name = missing.group(1) or missing.group(2)
        columns = {field for rows in tables.values() for field in rows.schema.names}
        hint = did_you_mean(name, columns, label="columns")
        return UsageError("unknown-column", f"there is no column '{name}'", at=at, hint=hint)
    if table := _NO_TABLE.search(message):
        return unknown_table(table.group(1), tables)
    if function := _NO_FUNCTION.search(message):
        near = re.search(r'Did you mean "(.+?)"', message)
        hint = f"did you mean '{near.group(1)}'?" if near else "https://duckdb.org/docs/stable/sql/functions"
        return UsageError("unknown-function", f"there is no function '{function.group(1)}'", at=at, hint=hint)
    if error_class in ("IO", "INTERNAL", "FATAL"):
        hint = "`lakesmith doctor` checks the storage"
        return InfrastructureError("query-engine", f"DuckDB could not read the table: {what}", hint=hint)
    return UsageError("query-failed", what, at=at, hint=shown)
