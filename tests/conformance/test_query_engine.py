"""The behaviour of every query engine. Add another adapter to `ENGINES`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakesmith.errors import UsageError
from lakesmith.ports import QueryEngine, View, ViewColumn
from lakesmith.query import DuckDB

ENGINES: dict[str, Callable[[], QueryEngine]] = {"duckdb": DuckDB}

ORDERS = pa.table(
    {
        "id": [1, 2],
        "amount": [Decimal("1.50"), None],
        "day": [dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
        "tags": [["a"], []],
    }
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> QueryEngine:
    return ENGINES[request.param]()


def test_a_query_returns_names_types_and_python_values(engine: QueryEngine) -> None:
    answer = engine.query("SELECT * FROM silver.orders ORDER BY id", {"silver.orders": ds.dataset(ORDERS)})
    assert answer.columns == ("id", "amount", "day", "tags")
    assert answer.rows[0] == (1, Decimal("1.50"), dt.date(2026, 1, 1), ["a"])
    assert answer.rows[1][1] is None


def test_tables_can_be_streams_and_can_be_joined(engine: QueryEngine) -> None:
    tables = {"silver.orders": ORDERS.to_reader(), "gold.days": ds.dataset(ORDERS.select(["day"]))}
    assert engine.query("SELECT count(*) FROM silver.orders JOIN gold.days USING (day)", tables).rows == ((2,),)


def test_a_view_has_the_declared_columns_and_types(engine: QueryEngine) -> None:
    view = View(
        table="silver.orders",
        columns=(
            ViewColumn(name="id", type="string"),
            ViewColumn(name="cents", sql="nvl(amount, 0) * 100", type="bigint"),
            ViewColumn(name="when", sql="date_format(day, 'yyyy-MM')"),
            ViewColumn(name="tags", type="array<string>"),
        ),
    )
    tables = {"silver.orders": ds.dataset(ORDERS)}
    answer = engine.query("SELECT * FROM Silver.Orders_v1 ORDER BY id", tables, {"silver.orders_v1": view})
    assert answer.columns == ("id", "cents", "when", "tags")
    assert answer.rows == (("1", 150, "2026-01", ["a"]), ("2", 0, "2026-01", []))


def test_a_view_and_its_table_can_be_read_together(engine: QueryEngine) -> None:
    view = View(table="silver.orders", columns=(ViewColumn(name="key", sql="id"),))
    sql = "SELECT count(*) FROM silver.orders JOIN silver.orders_v1 ON id = key"
    for rows in (ds.dataset(ORDERS), ORDERS.to_reader()):
        assert engine.query(sql, {"silver.orders": rows}, {"silver.orders_v1": view}).rows == ((2,),)


def test_a_view_of_a_missing_column_is_rejected(engine: QueryEngine) -> None:
    view = View(table="silver.orders", columns=(ViewColumn(name="gone"),))
    with pytest.raises(UsageError) as rejected:
        engine.query("FROM silver.orders_v1", {"silver.orders": ds.dataset(ORDERS)}, {"silver.orders_v1": view})
    assert rejected.value.code == "query-failed"
    assert "silver.orders_v1 cannot be derived from the current silver.orders" in rejected.value.what


def test_the_tables_that_a_statement_reads_are_found(engine: QueryEngine) -> None:
    sql = "WITH x AS (SELECT * FROM silver.orders) SELECT * FROM x JOIN system.runs USING (id)"
    assert engine.referenced(sql) == {"silver.orders", "system.runs"}


@pytest.mark.parametrize("sql", ["DROP TABLE x", "SELECT 1; SELECT 2", "COPY (SELECT 1) TO 'x.csv'", ""])
def test_only_a_single_select_is_accepted(engine: QueryEngine, sql: str) -> None:
    with pytest.raises(UsageError):
        engine.referenced(sql)


def test_only_the_given_tables_can_be_read(engine: QueryEngine) -> None:
    with pytest.raises(UsageError):
        engine.query("SELECT * FROM read_csv('/etc/hostname')", {})


def test_a_missing_column_is_an_error_with_its_code(engine: QueryEngine) -> None:
    with pytest.raises(UsageError) as caught:
        engine.query("SELECT amuont FROM silver.orders", {"silver.orders": ds.dataset(ORDERS)})
    assert caught.value.code == "unknown-column"
