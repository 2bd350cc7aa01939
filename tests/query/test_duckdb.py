from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pytest

from lakesmith.declare import QueryLimits
from lakesmith.errors import InfrastructureError, LakesmithError, Place, UsageError
from lakesmith.query import DuckDB

ORDERS = pa.table(
    {
        "order_id": pa.array([1, 2, 3], pa.int64()),
        "amount": pa.array([Decimal("19.90"), Decimal("250.00"), None], pa.decimal128(12, 2)),
        "updated_at": pa.array([datetime(2026, 1, 1, 9, 12, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "day": pa.array([date(2026, 1, 1)] * 3),
    }
)


def tables(**more: Any) -> dict[str, Any]:
    return {"silver.orders": pyarrow.dataset.dataset(ORDERS), **more}


def error_of(sql: str, **more: Any) -> LakesmithError:
    """Return the error of the names or of the answer of a statement."""
    engine = DuckDB()
    try:
        engine.referenced(sql)
    except LakesmithError as error:
        return error
    with pytest.raises(LakesmithError) as raised:
        engine.query(sql, tables(**more))
    return raised.value


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM silver.orders", {"silver.orders"}),
        ("FROM silver.orders", {"silver.orders"}),
        (
            "WITH new AS (FROM bronze.orders) SELECT * FROM new JOIN silver.x USING (k)",
            {"bronze.orders", "silver.x"},
        ),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM gold.a) UNION ALL SELECT b FROM gold.b", {"gold.a", "gold.b"}),
        ("DESCRIBE silver.orders", {"silver.orders"}),
        ("SUMMARIZE silver.orders", {"silver.orders"}),
        ("EXPLAIN SELECT * FROM system.runs", {"system.runs"}),
        ("-- why\nEXPLAIN ANALYZE SELECT * FROM system.runs", {"system.runs"}),
        ("VALUES (1)", set()),
        ("SELECT 'explain FROM x.y'", set()),
        ('FROM "Silver"."or.ders"', {"Silver.or.ders"}),
        ("FROM orders", {"orders"}),
        ("PIVOT silver.orders ON day IN ('a') USING sum(amount)", {"silver.orders"}),
        ("FROM silver.orders;", {"silver.orders"}),
    ],
)
def test_the_tables_that_a_statement_reads_are_known_without_running_it(sql: str, names: set[str]) -> None:
    assert DuckDB().referenced(sql) == names


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM silver.orders",
        "INSERT INTO silver.orders SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM silver.orders",
        "WITH gone AS (DELETE FROM silver.orders RETURNING *) FROM gone",
        "CREATE TABLE x AS SELECT 1",
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.db'",
        "SET lock_configuration = false",
        "PRAGMA version",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SHOW TABLES",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE silver.orders",
        "",
        "-- nothing",
        "PIVOT silver.orders ON day USING sum(amount)",
    ],
)
def test_only_a_single_select_is_allowed(sql: str) -> None:
    error = error_of(sql)
    assert error.code == "not-a-select"
    assert error.exit_code == 2
    assert error.hint


def test_a_lone_surrogate_is_a_syntax_error() -> None:
    error = error_of("SELECT 'caf\udc80' FROM silver.orders")
    assert error.code == "sql-syntax"
    assert 'after "SELECT \'caf"' in str(error)


def test_a_syntax_error_has_its_line_and_text() -> None:
    error = error_of("SELECT order_id\nFROM silver.orders\nWHER order_id = 1")
    assert error.code == "sql-syntax"
    assert error.at == Place("query", 3)
    assert "WHER order_id = 1" in str(error)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM '{file}'",
        'FROM "{file}"',
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM (FROM read_text('{file}'))",
        "FROM glob('{folder}/*')",
        "SELECT (SELECT content FROM read_blob('{file}'))",
        "FROM read_json('https://example.com/x.json')",
        "FROM 'https://example.com/x.parquet'",
    ],
)
def test_files_and_addresses_cannot_be_read(sql: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    error = error_of(sql.format(file=secret, folder=tmp_path))
    assert error.code == "no-file-access"
    assert isinstance(error, UsageError)


def test_a_variable_of_the_python_program_is_not_a_table() -> None:
    ORDERS_FRAME = ORDERS  # noqa: F841 - DuckDB would find it by name if it were let
    assert error_of("FROM ORDERS_FRAME").code == "unknown-table"


def test_an_unknown_column_gets_the_nearest_name() -> None:
    error = error_of("SELECT o.amuont FROM silver.orders o")
    assert error.code == "unknown-column"
    assert "did you mean 'amount'?" in str(error)


def test_an_unknown_function_gets_the_nearest_name() -> None:
    error = error_of("SELECT coun(order_id) FROM silver.orders")
    assert error.code == "unknown-function"
    assert "did you mean 'count'?" in str(error)


def test_a_function_of_an_extension_is_not_fetched() -> None:
    assert error_of("FROM sqlite_scan('x', 'y')").code == "unknown-function"


def test_a_value_that_does_not_fit_is_a_user_error() -> None:
    error = error_of("SELECT CAST('x' AS INTEGER)")
    assert error.code == "query-failed"
    assert error.exit_code == 2


def test_values_come_back_as_python_values() -> None:
    answer = DuckDB().query(
        "SELECT *, {'a': [order_id]} AS nested, MAP {'k': amount} AS pairs FROM silver.orders LIMIT 1",
        tables(),
    )
    assert answer.columns == ("order_id", "amount", "updated_at", "day", "nested", "pairs")
    assert answer.types[:2] == ("BIGINT", "DECIMAL(12,2)")
    assert answer.rows == (
        (
            1,
            Decimal("19.90"),
            datetime(2026, 1, 1, 9, 12, tzinfo=UTC),
            date(2026, 1, 1),
            {"a": [1]},
            {"k": Decimal("19.90")},
        ),
    )


def test_a_sum_of_integers_is_an_integer() -> None:
    [(total,)] = DuckDB().query("SELECT sum(order_id) FROM silver.orders", tables()).rows
    assert (total, type(total)) == (6, int)


def test_values_without_a_python_type_are_returned_as_text() -> None:
    largest = 2**128 - 1
    sql = f"SELECT INTERVAL 1 MONTH, {largest}::UHUGEINT, TIMESTAMP 'infinity', 2 AS n;"
    [(interval, huge, endless, number)] = DuckDB().query(sql, {}).rows
    assert (interval, huge, number) == ("1 month", str(largest), 2)
    assert isinstance(endless, str)


def test_the_order_survives_values_that_become_text() -> None:
    sql = "SELECT order_id, INTERVAL 1 DAY FROM silver.orders ORDER BY order_id DESC"
    assert [row[0] for row in DuckDB().query(sql, tables()).rows] == [3, 2, 1]


def test_two_columns_can_have_the_same_name() -> None:
    answer = DuckDB().query("SELECT 1 AS a, 2 AS a", {})
    assert (answer.columns, answer.rows) == (("a", "a"), ((1, 2),))


def test_an_empty_answer_has_columns() -> None:
    answer = DuckDB().query("SELECT order_id FROM silver.orders WHERE false", tables())
    assert (answer.columns, answer.rows) == (("order_id",), ())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM system.runs",
        "SELECT count(system.runs.order_id) FROM system.runs",
        "SELECT count(*) FROM silver.orders JOIN SYSTEM.runs USING (order_id)",
        "SELECT count(*) FROM quarantine.silver_orders",
    ],
)
def test_system_and_quarantine_are_schemas_like_the_layers(sql: str) -> None:
    others = {name: pyarrow.dataset.dataset(ORDERS) for name in ("system.runs", "quarantine.silver_orders")}
    assert DuckDB().query(sql, tables(**others)).rows == ((3,),)


def test_explain_does_not_run_the_query() -> None:
    answer = DuckDB().query("EXPLAIN SELECT * FROM system.runs", tables(**{"system.runs": ORDERS.to_reader()}))
    assert answer.columns == ("explain_key", "explain_value")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM silver.stream", 3),
        ("SELECT count(*) FROM silver.stream a JOIN silver.stream b USING (order_id)", 3),
        ("WITH s AS (FROM silver.stream) SELECT count(*) FROM s a, s b", 9),
    ],
)
def test_a_stream_that_can_be_read_once_can_be_queried_twice(sql: str, rows: int) -> None:
    assert DuckDB().query(sql, tables(**{"silver.stream": ORDERS.to_reader()})).rows == ((rows,),)


def test_a_query_beyond_its_memory_is_an_infrastructure_error() -> None:
    engine = DuckDB(QueryLimits(memory=30_000_000))
    with pytest.raises(InfrastructureError) as raised:
        engine.query("SELECT * FROM range(20000000) ORDER BY hash(range)", {})
    assert raised.value.code == "query-memory"


def test_the_connection_is_locked_before_the_query_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[str] = []

    class Recording:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self.connection = connection

        def execute(self, sql: str, *more: object) -> duckdb.DuckDBPyConnection:
            executed.append(sql)
            return self.connection.execute(sql, *more)

        def sql(self, sql: str) -> duckdb.DuckDBPyRelation:
            with pytest.raises(duckdb.InvalidInputException, match="configuration has been locked"):
                self.connection.execute("SET enable_external_access = true")
            executed.append(sql)
            return self.connection.sql(sql)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def __enter__(self) -> Recording:
            return self

        def __exit__(self, *raised: object) -> None:
            self.connection.close()

    connect = DuckDB._connect
    monkeypatch.setattr(DuckDB, "_connect", lambda self: Recording(connect(self)))
    assert DuckDB().query("SELECT 1", {}).rows == ((1,),)
    assert executed[-2:] == ["SET lock_configuration = true", "SELECT 1"]
