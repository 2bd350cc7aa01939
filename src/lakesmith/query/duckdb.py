"""Answers SQL with DuckDB over Arrow, shut in: it sees the tables that it is handed and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError, LakesmithError, Place, UsageError, did_you_mean, uncoloured
from lakesmith.ports import Answer, View
from lakesmith.query.names import unknown_table
from lakesmith.query.spark_sql import select_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset

_EXPLAIN = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*explain(\s+analyze)?\s+(?!\()", re.IGNORECASE | re.DOTALL)
_LINE = re.compile(r"\n+LINE (\d+): (.*)")
_PREFIX = re.compile(r"^[A-Z][A-Za-z ]+ Error: ")
_NO_COLUMN = re.compile(r'Referenced column "(.+?)" not found|does not have a column named "(.+?)"')
_NO_TABLE = re.compile(r"Table with name \"?(.+?)\"? does not exist")
_NO_FUNCTION = re.compile(r"Function with name \"?(.+?)\"? (?:does not exist|is not in the catalog)")
_STREAM = re.compile(r"reading the stream registered as 'input_(\d+)' failed: (.*)", re.DOTALL)
_FILE = re.compile(r'Cannot access (?:file|directory) "(.+?)"')

_AS_TEXT = ("UHUGEINT", "BIGNUM", "BIT", "INTERVAL", "TIME WITH TIME ZONE")
"""Types that Arrow or Python cannot hold without loss; they are answered as text."""

_ONLY_SELECT = "a query is one SELECT; WITH, VALUES, DESCRIBE, SUMMARIZE and EXPLAIN SELECT work too"
_NO_FILES = "a query reads the lake's tables; declare a bronze table with `source: {files: …}` to read files"


class DuckDB:
    """`ports.QueryEngine` on DuckDB."""

    name = "duckdb"

    def __init__(self, *, memory_limit: str = "50%") -> None:
        self._memory_limit = memory_limit

    def referenced(self, sql: str) -> frozenset[str]:
        """The table names, as written, that a statement reads; an error when it is not a single SELECT."""
        with self._connect() as connection:
            return frozenset(_table_names(_parse(connection, sql)))

    def query(
        self,
        sql: str,
        tables: Mapping[str, pyarrow.dataset.Dataset | pa.RecordBatchReader],
        views: Mapping[str, View] | None = None,
    ) -> Answer:
        """Run the statement over these tables, these views of them, and nothing else."""
        import duckdb

        with self._connect() as connection:
            tree = _parse(connection, sql)
            once = _reads_once(tree)
            for number, (name, rows) in enumerate(tables.items()):
                _expose(connection, f"input_{number}", name, rows, once=once)
            for name, view in (views or {}).items():
                _make_view(connection, name, view)
            connection.execute("SET lock_configuration = true")
            try:
                return _answer(connection, _runnable(connection, sql, tree))
            except duckdb.InterruptException:
                raise KeyboardInterrupt from None
            except duckdb.Error as error:
                raise _translate(error, tables) from None

    def sample(
        self, rows: pyarrow.dataset.Dataset | pa.RecordBatchReader, columns: Sequence[str], count: int
    ) -> pa.Table:
        """So many of the rows, each as likely as any other."""
        import duckdb

        with self._connect() as connection:
            connection.register("input_0", rows)
            chosen = ", ".join(map(_quoted, columns)) or "NULL"
            try:
                return connection.sql(
                    f"SELECT {chosen} FROM input_0 USING SAMPLE reservoir({count} ROWS) REPEATABLE (1)"
                ).to_arrow_table()
            except duckdb.InterruptException:
                raise KeyboardInterrupt from None
            except duckdb.Error as error:
                raise _translate(error, {"the table": rows}) from None

    def _connect(self) -> duckdb.DuckDBPyConnection:
        # duckdb takes 0.2 s to import: only a query pays for it.
        import duckdb

        connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": self._memory_limit,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        for setting in (
            "temp_directory = ''",
            "TimeZone = 'UTC'",
            "python_enable_replacements = false",
            "enable_external_access = false",
        ):
            connection.execute(f"SET {setting}")
        return connection


def _parse(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """The statement as DuckDB's own parser reads it, without looking a single table up."""
    import duckdb

    try:
        sql.encode()
        statements = connection.extract_statements(sql)
    except UnicodeEncodeError as error:
        what = f"the query has half of a character in it, after {sql[max(error.start - 20, 0) : error.start]!r}"
        raise UsageError("sql-syntax", what, hint="write the query as UTF-8") from None
    except duckdb.Error as error:
        raise _translate(error, {}) from None
    if len(statements) != 1:
        what = f"{len(statements)} statements" if statements else "no statement"
        raise UsageError("not-a-select", f"the query has {what}", hint=_ONLY_SELECT)
    kind = statements[0].type.name
    explain = _EXPLAIN.match(sql)
    select = sql[explain.end() :] if explain else sql
    tree: dict[str, Any] = json.loads(_told(connection, "json_serialize_sql(?)", select))
    if kind == "MULTI":
        hint = "name the values: PIVOT silver.orders ON country IN ('DE', 'FR') USING sum(amount)"
        raise UsageError("not-a-select", "PIVOT without IN is several statements in DuckDB", hint=hint)
    if tree.get("error", True):
        raise UsageError("not-a-select", f"the query is not a SELECT but {_verb(select)}", hint=_ONLY_SELECT)
    for node in _nodes(tree):
        if str(node.get("type")).endswith("_QUERY_NODE"):
            verb = str(node["type"]).removesuffix("_QUERY_NODE")
            raise UsageError("not-a-select", f"the query has {verb} inside", hint=_ONLY_SELECT)
        if node.get("show_type") == "SHOW_SPECIAL":
            raise UsageError("not-a-select", "SHOW is not a query", hint="`lakesmith status` lists the tables")
    return tree


def _told(connection: duckdb.DuckDBPyConnection, expression: str, value: str) -> str:
    """The one text that an expression over one value gives."""
    # `fetchall`, because a result that is not read to its end keeps the connection busy.
    [(told,)] = connection.execute(f"SELECT {expression}", [value]).fetchall()
    return str(told)


def _verb(sql: str) -> str:
    words = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL).split()
    return words[0].upper() if words else "nothing"


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every node of the tree, the outer before the inner."""
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _table_names(tree: dict[str, Any]) -> Iterator[str]:
    """The names that stand where a table is expected and that no WITH of the statement defines.

    A table of the lake always has a layer, so that a bare name is either from a WITH or a mistake.
    """
    defined = {
        entry["key"].lower()
        for node in _nodes(tree)
        if isinstance(node.get("cte_map"), dict)
        for entry in node["cte_map"].get("map", [])
    }
    for node in _nodes(tree):
        if node.get("type") != "BASE_TABLE":
            continue
        path = node["qualified_name"]["path"]
        if len(path) == 1 and path[0].lower() in defined:
            continue
        if len(path) == 1 and re.search(r"[/\\.*:]", path[0]):
            raise _no_file(path[0])
        yield ".".join(path)


def _reads_once(tree: dict[str, Any]) -> bool:
    """Whether no table can be scanned twice: one table, and nothing that might be computed more than once."""
    kinds = [node.get("type") for node in _nodes(tree)]
    with_clause = any(node["cte_map"].get("map") for node in _nodes(tree) if node.get("cte_map"))
    return kinds.count("BASE_TABLE") <= 1 and "PIVOT" not in kinds and not with_clause


def _expose(
    connection: duckdb.DuckDBPyConnection,
    input_name: str,
    name: str,
    rows: pyarrow.dataset.Dataset | pa.RecordBatchReader,
    *,
    once: bool,
) -> None:
    import pyarrow as pa

    # A reader can be read only once; a query that may scan it twice needs its rows in memory.
    connection.register(input_name, rows.read_all() if isinstance(rows, pa.RecordBatchReader) and not once else rows)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS memory.{_quoted(_schema(name.partition('.')[0]))}")
    connection.execute(f"CREATE VIEW {_inner(name)} AS FROM memory.main.{input_name}")


def _inner(name: str) -> str:
    """A table's name as DuckDB is told it."""
    schema, _, table = name.partition(".")
    return f"memory.{_quoted(_schema(schema))}.{_quoted(table)}"


def _make_view(connection: duckdb.DuckDBPyConnection, name: str, view: View) -> None:
    import duckdb

    try:
        connection.execute(f"CREATE VIEW {_inner(name)} AS {select_of(view, _inner(view.table))}")
    except duckdb.Error as error:
        raise UsageError(
            "query-failed",
            f"{name} cannot be made from {view.table} as it is there: {_translate(error, {}).what}",
            hint="`lakesmith validate` judges the SQL below `previous` in the contract",
        ) from None


def _schema(written: str) -> str:
    # DuckDB has a catalog named `system`, and finds a schema of that name ambiguous.
    return "lake_system" if written.lower() == "system" else written


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _runnable(connection: duckdb.DuckDBPyConnection, sql: str, tree: dict[str, Any]) -> str:
    """The statement itself, or, when it reads `system` tables, the same with their schema's inner name."""
    renamed = False
    for node in _nodes(tree):
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
    told = _told(connection, "json_deserialize_sql(CAST(? AS JSON))", json.dumps(tree))
    return (explain.group() if explain else "") + told


def _answer(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    relation = connection.sql(sql)
    names, types = relation.columns, [str(kind) for kind in relation.types]
    if any(kind in _AS_TEXT for kind in types):
        aliases = [f"c{number}" for number in range(len(names))]
        chosen = ", ".join(
            f"CAST({alias} AS VARCHAR)" if kind in _AS_TEXT else alias
            for alias, kind in zip(aliases, types, strict=True)
        )
        inner = sql.strip().rstrip(";")
        relation = connection.sql(f"SELECT {chosen} FROM (\n{inner}\n) AS answer({', '.join(aliases)})")
    arrow = relation.to_arrow_table()
    columns = [_values(arrow.column(number), kind) for number, kind in enumerate(types)]
    rows = tuple(zip(*columns, strict=True))
    return Answer(columns=tuple(names), types=tuple(types), rows=rows)


def _values(column: pa.ChunkedArray, kind: str) -> Sequence[object]:
    import pyarrow as pa

    try:
        values: list[object] = column.to_pylist(maps_as_pydicts="lossy")
    except (OverflowError, ValueError):
        # Spark's dates and times reach beyond the year 9999, Python's do not.
        values = column.cast(pa.string()).to_pylist()
    if kind == "HUGEINT":
        return [None if value is None else int(str(value)) for value in values]
    return values


def _unread(name: str, rows: pyarrow.dataset.Dataset | pa.RecordBatchReader, said: str) -> InfrastructureError:
    """The error for a table whose rows could not be read, by the name of the file that is to blame."""
    import pyarrow as pa

    told = f"{name} cannot be read: {' '.join(uncoloured(said).split())}"
    if not isinstance(rows, pa.RecordBatchReader):
        for fragment in rows.get_fragments():
            try:
                for _ in fragment.to_batches():
                    pass
            except (pa.ArrowException, OSError) as error:
                told = f"{name} cannot be read: {fragment.path}: {' '.join(uncoloured(str(error)).split())}"
                break
    return disk_failure(said, told) or InfrastructureError(
        "table-unreadable",
        told,
        hint="put the file back as it was, from a copy of the warehouse; a table of silver or gold can be made anew: "
        f"lakesmith run {name} --full-refresh",
    )


def _no_file(path: str) -> UsageError:
    return UsageError("no-file-access", f"'{path}' cannot be read in a query", hint=_NO_FILES)


def _translate(
    error: duckdb.Error, tables: Mapping[str, pyarrow.dataset.Dataset | pa.RecordBatchReader]
) -> LakesmithError:
    """DuckDB's error in our own form."""
    import duckdb

    message = str(error)
    if stream := _STREAM.search(message):
        return _unread(*list(tables.items())[int(stream[1])], stream[2])
    line = _LINE.search(message)
    at = Place("query", int(line.group(1))) if line else None
    shown = f"the line reads: {line.group(2).strip()}" if line else None
    what = _PREFIX.sub("", message.partition("\n")[0])
    if isinstance(error, duckdb.ParserException):
        return UsageError("sql-syntax", what, at=at, hint=shown)
    if isinstance(error, duckdb.PermissionException):
        path = _FILE.search(message)
        return _no_file(path.group(1)) if path else UsageError("no-file-access", what, hint=_NO_FILES)
    if isinstance(error, duckdb.OutOfMemoryException):
        hint = "read fewer rows or columns, or aggregate before sorting and joining"
        return InfrastructureError("query-memory", "the query needs more memory than it may use", hint=hint)
    if column := _NO_COLUMN.search(message):
        name = column.group(1) or column.group(2)
        known = {field for rows in tables.values() for field in rows.schema.names}
        hint = did_you_mean(name, known, label="columns")
        return UsageError("unknown-column", f"there is no column '{name}'", at=at, hint=hint)
    if table := _NO_TABLE.search(message):
        return unknown_table(table.group(1), tables)
    if function := _NO_FUNCTION.search(message):
        near = re.search(r'Did you mean "(.+?)"', message)
        hint = f"did you mean '{near.group(1)}'?" if near else "https://duckdb.org/docs/stable/sql/functions"
        return UsageError("unknown-function", f"there is no function '{function.group(1)}'", at=at, hint=hint)
    if isinstance(error, duckdb.IOException | duckdb.InternalException | duckdb.FatalException):
        hint = "`lakesmith doctor` checks the storage"
        return InfrastructureError("query-engine", f"DuckDB could not read the table: {what}", hint=hint)
    return UsageError("query-failed", what, at=at, hint=shown)
