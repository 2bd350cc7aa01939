"""A query reads only the lake's tables: every function of DuckDB is classified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pytest

from lakesmith.errors import LakesmithError, Place, UsageError
from lakesmith.ports import View, ViewColumn
from lakesmith.query import DuckDB
from lakesmith.query.functions import FORBIDDEN_FUNCTIONS, TABLE_FUNCTIONS

REFUSALS = {"function-not-allowed", "no-file-access", "not-a-select"}
CLASSIFIED = Path(__file__).with_name("scalar_functions.txt")
"""The names of all reviewed functions over values, which read only their arguments."""


def listed(*types: str) -> list[str]:
    """Return the functions that DuckDB lists, with its built-in extensions."""
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT DISTINCT lower(function_name), function_type FROM duckdb_functions()")
        return sorted({name for name, kind in rows.fetchall() if kind in types})


def error_of(sql: str) -> LakesmithError:
    with pytest.raises(LakesmithError) as raised:
        DuckDB().query(sql, {})
    return raised.value


def quoted(name: str) -> str:
    return f'"{name}"'


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[DuckDB]:
    """An engine with one connection for all calls."""
    with DuckDB()._connect() as connection:
        monkeypatch.setattr(DuckDB, "_connect", lambda self: nullcontext(connection))
        yield DuckDB()


def code_of(engine: DuckDB, sql: str) -> str | None:
    """Return the code with which a statement is rejected before it runs."""
    try:
        engine.referenced(sql)
    except UsageError as error:
        return error.code
    return None


@pytest.mark.parametrize("before", ["", "main.", "system.main."])
def test_every_table_function_is_allowed_with_a_reason_or_rejected(before: str, engine: DuckDB) -> None:
    codes = {
        name: code_of(engine, f"SELECT * FROM {before}{quoted(name)}(1)") for name in listed("table", "table_macro")
    }
    assert {name for name, code in codes.items() if code is None} == set(TABLE_FUNCTIONS)
    assert {code for code in codes.values() if code} <= REFUSALS
    assert all(TABLE_FUNCTIONS.values())


@pytest.mark.parametrize("word", ["PRAGMA {}", "PRAGMA {}('x')", "CALL {}()", "EXPLAIN CALL {}('x')"])
def test_pragma_and_call_are_rejected(word: str, engine: DuckDB) -> None:
    names = listed("pragma", "table", "table_macro")
    assert {code_of(engine, word.format(name)) for name in names} <= {"not-a-select", "sql-syntax"}


def test_every_function_over_values_is_classified() -> None:
    """A new version of DuckDB has new functions: review each, and add it to one of the lists."""
    harmless = set(CLASSIFIED.read_text(encoding="utf-8").split("\n")) - {""}
    internal = {name for name in listed("scalar") if name.startswith("__internal_")}
    found = set(listed("scalar", "macro", "aggregate", "window"))
    # Only DuckDB's shell has it.
    rejected_functions = set(FORBIDDEN_FUNCTIONS) - {"getenv"}
    assert found == harmless | internal | rejected_functions
    assert not harmless & (rejected_functions | internal)


@pytest.mark.parametrize("before", ["", "main.", "system.main."])
@pytest.mark.parametrize("name", [*FORBIDDEN_FUNCTIONS, "__internal_decompress_string"])
def test_functions_that_reach_outside_the_rows_are_rejected_everywhere(name: str, before: str, engine: DuckDB) -> None:
    for sql in (
        f"SELECT {before}{name}('x')",
        f"SELECT {before}{name.upper()}('x')",
        f"SELECT {before}{quoted(name)}('x')",
        f"SELECT 1 WHERE EXISTS (SELECT [{before}{name}(y) FOR y IN ['a']])",
        f"SELECT * FROM unnest([{before}{name}('x')])",
        f"SELECT sum(1) OVER (ORDER BY {before}{name}('x'))",
        f"EXPLAIN SELECT {before}{name}('x')",
        f"DESCRIBE SELECT {before}{name}('x')",
        f"WITH x AS (SELECT {before}{name}('x')) FROM x",
        f"VALUES ({before}{name}('x'))",
    ):
        assert code_of(engine, sql) == "function-not-allowed", sql


def test_macros_that_read_the_catalog_are_rejected() -> None:
    """The parse tree has only a macro's name, so this test checks its definition."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
        ).fetchall()
    reading = {
        name
        for name, definition in rows
        if re.search(r"\bFROM\b(?! (?:\(|generate_series|unnest))|current_setting|getvariable", definition or "")
    }
    assert reading <= set(FORBIDDEN_FUNCTIONS)
    assert "pg_get_viewdef" in reading


@pytest.mark.parametrize(
    "sql",
    [
        "FROM duckdb_settings()",
        "SELECT current_setting('memory_limit')",
        "FROM pg_catalog.pg_settings",
        "FROM information_schema.tables",
        "FROM sqlite_master",
        "FROM system.information_schema.columns",
        "FROM input_0",
        "FROM memory.main.input_0",
        "WITH pg_settings AS (FROM pg_settings) FROM pg_settings",
        "SELECT * FROM (WITH pg_settings AS (SELECT 1) FROM pg_settings), pg_settings",
        "WITH a AS (WITH pg_settings AS (SELECT 1) FROM pg_settings), b AS (FROM pg_settings) FROM b",
        "SHOW TABLES FROM memory",
        "FROM (SHOW TABLES FROM memory)",
        "FROM (SHOW ALL TABLES)",
        "FROM (SHOW DATABASES)",
        "SHOW VARIABLES",
        "DESCRIBE pg_settings",
        "SUMMARIZE duckdb_tables",
        "FROM query('SELECT 1')",
        "FROM query_table('pg_settings')",
        "FROM histogram('pg_settings', name)",
        "PIVOT duckdb_tables ON table_name IN ('a') USING count(*)",
        "SELECT (SELECT count(*) FROM duckdb_columns)",
        "FROM 'x.parquet'",
    ],
)
def test_settings_catalog_and_hidden_sql_cannot_be_reached(sql: str) -> None:
    rows = pyarrow.dataset.dataset(pa.table({"a": [1]}))
    with pytest.raises(UsageError) as raised:
        DuckDB().query(sql, {"silver.orders": rows})
    assert raised.value.code in REFUSALS | {"unknown-table"}


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("FROM range(2)", ((0,), (1,))),
        ("FROM generate_series(1, 2)", ((1,), (2,))),
        ("SELECT unnest([1, 2])", ((1,), (2,))),
        ("FROM unnest([1, 2])", ((1,), (2,))),
        ("FROM repeat(1, 2)", ((1,), (1,))),
        ("FROM repeat_row(1, 2, num_rows=1)", ((1, 2),)),
        ("SELECT key FROM json_each('{\"a\": 1}')", (("a",),)),
        ("SELECT count(*) FROM json_tree('[1, 2]')", ((3,),)),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT max(i) FROM n", ((3,),)),
        ("WITH a AS (SELECT 1 AS i), b AS (FROM a) SELECT a.i FROM a JOIN b USING (i)", ((1,),)),
        ("SELECT (WITH q AS (SELECT 7) FROM q)", ((7,),)),
        ("WITH a AS (SELECT 1) FROM a UNION ALL FROM a", ((1,), (1,))),
        ("WITH orders AS (FROM silver.orders) SELECT count(*) FROM orders o, LATERAL range(o.a)", ((1,),)),
        ("SHOW silver.orders", (("a", "BIGINT", "YES", None, None, None),)),
    ],
)
def test_functions_over_rows_are_answered(sql: str, rows: tuple[tuple[object, ...], ...]) -> None:
    given = pyarrow.dataset.dataset(pa.table({"a": [1]}))
    assert DuckDB().query(sql, {"silver.orders": given}).rows == rows


def test_the_error_for_a_rejected_function_has_its_line_and_a_hint() -> None:
    error = error_of("SELECT 'é'\nFROM duckdb_settings()")
    assert (error.code, error.at) == ("function-not-allowed", Place("query", 2))
    assert "range" in (error.hint or "")
    assert error_of("SELECT 1,\n  current_setting('x')").at == Place("query", 2)


def test_a_contract_view_cannot_call_rejected_functions() -> None:
    view = View(table="silver.orders", columns=(ViewColumn(name="a", sql="current_setting('threads')"),))
    given = pyarrow.dataset.dataset(pa.table({"a": [1]}))
    with pytest.raises(UsageError) as raised:
        DuckDB().query("FROM silver.orders_v1", {"silver.orders": given}, {"silver.orders_v1": view})
    assert raised.value.code == "function-not-allowed"
