"""Ingest rows of a real PostgreSQL: each row once, with unchanged values of every type."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.marks import chosen_only
from tests.servers.postgresql import PASSWORD, USER, Database
from tests.spark.bronze import NAME, Bronze

from lakesmith.columns import ALREADY_INGESTED
from lakesmith.declare import Jdbc
from lakesmith.declare.secrets import Secret, SecretReference, Settings
from lakesmith.errors import LakesmithError
from lakesmith.spark.ingest.staged_extract import staged_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FULL = Jdbc(table="orders", connection="shop")
INCREMENTAL = Jdbc(table="orders", connection="shop", watermark="changed_at", overlap=3600.0)
ORDERS = "CREATE TABLE orders (id bigint, amount numeric(12,2), changed_at timestamptz);"


@pytest.fixture
def bronze(spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bronze:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    return Bronze(spark, tmp_path, connections={"shop": settings(database)})


def settings(database: Database, **others: str) -> Settings:
    password = Secret((SecretReference("env", "SHOP_PASSWORD"),))
    return Settings({"url": database.url, "user": USER, "password": password, **others})


def rejection(bronze: Bronze, source: Jdbc) -> LakesmithError:
    with pytest.raises(LakesmithError) as caught:
        bronze.run(bronze.table(source))
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.hint
    return caught.value


def test_a_full_table_is_ingested_by_each_run_with_its_run_id(bronze: Bronze, database: Database) -> None:
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 10.50, '2024-01-01 12:00+00'), (2, NULL, NULL)")
    assert bronze.run(bronze.table(FULL)) == (2, 0)
    database.sql("DELETE FROM orders WHERE id = 1")
    assert bronze.run(bronze.table(FULL)) == (1, 0)
    found = bronze.rows("id", "CAST(amount AS string)", "_run_id", "length(_row_hash)", "_rescued", order="_run_id, id")
    assert found == [(1, "10.50", "run-1", 32, None), (2, None, "run-1", 32, None), (2, None, "run-2", 32, None)]


def test_only_rows_after_the_watermark_are_read_and_each_once(bronze: Bronze, database: Database) -> None:
    table = bronze.table(replace(INCREMENTAL, overlap=0.0))
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, '2024-01-01 12:00:00.123456+00')")
    assert bronze.run(table) == (1, 0)
    assert bronze.reached == {"watermark": "2024-01-01 12:00:00.123456+00:00", "overlapping": 1}
    assert bronze.run(table) is None
    database.sql("INSERT INTO orders VALUES (2, 2, '2024-01-01 12:00:00.123457+00'), (0, 0, '2020-01-01')")
    assert bronze.run(table) == (1, 1)
    assert bronze.run(table) is None
    assert bronze.rows("id") == [(1,), (2,)]


def test_a_row_that_comes_late_within_the_overlap_is_ingested_and_no_row_twice(
    bronze: Bronze, database: Database
) -> None:
    table = bronze.table(INCREMENTAL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, '2024-01-01 12:00+00'), (2, 2, '2024-01-01 12:30+00')")
    assert bronze.run(table) == (2, 0)
    database.sql("INSERT INTO orders VALUES (3, 3, '2024-01-01 11:45+00')")
    assert bronze.run(table) == (1, 2)
    database.sql("INSERT INTO orders VALUES (4, 4, '2024-01-01 12:10+00'), (5, 5, '2024-01-01 13:00+00')")
    assert bronze.run(table) == (2, 3)
    assert bronze.run(table) is None
    assert bronze.rows("id") == [(1,), (2,), (3,), (4,), (5,)]


def test_a_row_that_shares_the_last_watermark_is_not_lost_without_an_overlap(
    bronze: Bronze, database: Database
) -> None:
    table = bronze.table(Jdbc(table="orders", connection="shop", watermark="day"))
    database.sql("CREATE TABLE orders (id int, day date); INSERT INTO orders VALUES (1, '2024-01-01')")
    assert bronze.run(table) == (1, 0)
    database.sql("INSERT INTO orders VALUES (2, '2024-01-01')")
    assert bronze.run(table) == (1, 1)
    assert bronze.rows("id", "CAST(day AS string)") == [(1, "2024-01-01"), (2, "2024-01-01")]


def test_a_row_without_a_watermark_is_ingested_once(bronze: Bronze, database: Database) -> None:
    table = bronze.table(INCREMENTAL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, NULL)")
    assert bronze.run(table) == (1, 0)
    assert bronze.run(table) is None
    database.sql("INSERT INTO orders VALUES (2, 2, 'infinity'), (3, 3, '2024-01-01')")
    assert bronze.run(table) == (2, 1)
    assert bronze.run(table) is None
    assert bronze.rows("id", "_rescued") == [(1, None), (2, '{"changed_at":"infinity"}'), (3, None)]


def test_duplicate_rows_are_ingested_as_often_as_the_database_has_them(bronze: Bronze, database: Database) -> None:
    table = bronze.table(INCREMENTAL)
    row = "INSERT INTO orders VALUES (1, 1, '2024-01-01')"
    database.sql(f"{ORDERS} {row}; {row}")
    assert bronze.run(table) == (2, 0)
    database.sql(row)
    assert bronze.run(table) == (1, 2)


def test_an_empty_table_is_created_with_its_columns_and_then_has_nothing_new(
    bronze: Bronze, database: Database
) -> None:
    database.sql(ORDERS)
    assert bronze.run(bronze.table(INCREMENTAL)) == (0, 0)
    assert bronze.run(bronze.table(INCREMENTAL)) is None
    database.sql("INSERT INTO orders VALUES (1, 1, '2024-01-01')")
    assert bronze.run(bronze.table(INCREMENTAL)) == (1, 0)


WATERMARKS = [
    ("int", "7", "9", 2.0, "9"),
    ("numeric", "12345678901234567890123456789.5", "12345678901234567890123456789.75", 1.0, None),
    ("timestamp", "2024-01-01 12:00:00.123456", "2024-01-01 12:00:00.123457", 0.0, "2024-01-01 12:00:00.123457"),
    ("timestamp", "2024-01-01 12:00:00", "2024-01-01 12:30:00", 3600.0, "2024-01-01 12:30:00"),
    ("text", "a'b", "a'c", 0.0, "a'c"),
]


@pytest.mark.parametrize(
    ("type", "first", "second", "overlap", "reached"),
    chosen_only(WATERMARKS, *WATERMARKS[1:3]),
)
def test_a_watermark_keeps_all_its_digits(
    bronze: Bronze, database: Database, type: str, first: str, second: str, overlap: float, reached: str | None
) -> None:
    table = bronze.table(Jdbc(table="orders", connection="shop", watermark="mark", overlap=overlap))
    values = [value.replace("'", "''") for value in (first, second)]
    database.sql(f"CREATE TABLE orders (id int, mark {type}); INSERT INTO orders VALUES (1, '{values[0]}')")
    assert bronze.run(table) == (1, 0)
    database.sql(f"INSERT INTO orders VALUES (2, '{values[1]}')")
    assert bronze.run(table) == (1, 1)
    assert bronze.reached["watermark"] == (reached or second)
    assert bronze.run(table) is None


def test_rows_after_the_pinned_watermark_belong_to_the_next_batch(bronze: Bronze, database: Database) -> None:
    table = bronze.table(INCREMENTAL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, '2024-01-01 12:00+00')")
    batch = bronze.pin(table)
    assert batch is not None
    database.sql("INSERT INTO orders VALUES (2, 2, '2024-01-01 13:00+00')")
    assert [row.id for row in bronze.read(table, batch).collect()] == [1]


def test_an_interrupted_batch_is_read_from_its_staged_extract(bronze: Bronze, database: Database) -> None:
    table = bronze.table(INCREMENTAL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, '2024-01-01'), (2, 2, '2024-01-01')")
    assert bronze.run(table) == (2, 0)
    database.sql("INSERT INTO orders VALUES (3, 3, '2024-01-01')")
    batch = bronze.pin(table)
    assert batch is not None
    before = sorted(bronze.read(table, batch).select("id", "_row_hash", ALREADY_INGESTED).collect())
    bronze.commit(bronze.read(table, batch), batch)
    database.sql("DROP TABLE orders")
    after = sorted(bronze.read(table, batch).select("id", "_row_hash", ALREADY_INGESTED).collect())
    assert after == before
    assert [(row.id, row[ALREADY_INGESTED]) for row in after] == [(1, True), (2, True), (3, False)]


def test_an_incomplete_staged_extract_is_read_again(bronze: Bronze, database: Database) -> None:
    table = bronze.table(FULL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, NULL)")
    batch = bronze.pin(table)
    assert batch is not None
    bronze.read(table, batch)
    Path(staged_folder(bronze.context.warehouse, NAME, batch).url, "_SUCCESS").unlink()
    database.sql("INSERT INTO orders VALUES (2, 2, NULL)")
    assert bronze.read(table, batch).count() == 2


def test_a_committed_batch_without_its_extract_is_not_completed_from_other_rows(
    bronze: Bronze, database: Database
) -> None:
    table = bronze.table(FULL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, NULL)")
    batch = bronze.pin(table)
    assert batch is not None
    bronze.commit(bronze.read(table, batch), batch)
    shutil.rmtree(staged_folder(bronze.context.warehouse, NAME, batch).url)
    with pytest.raises(LakesmithError) as caught:
        bronze.read(table, batch)
    assert caught.value.code == "staged-extract-missing"


def test_the_staged_extract_is_removed_when_the_batch_is_done(bronze: Bronze, database: Database) -> None:
    table = bronze.table(FULL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, NULL)")
    first = bronze.pin(table)
    assert first is not None
    bronze.read(table, first)
    assert bronze.staged == ["00000001.01"]
    assert bronze.run(table) == (1, 0)
    assert bronze.staged == []


@pytest.mark.parametrize("column", chosen_only(["number", "day", "at", "zoned", "big"], "number", "zoned"))
def test_a_parallel_read_returns_the_same_rows_as_a_serial_one(bronze: Bronze, database: Database, column: str) -> None:
    database.sql(
        "CREATE TABLE orders AS SELECT n AS id, nullif(n % 7, 0) AS number, date '2024-01-01' + n % 5 AS day, "
        "timestamp '2024-01-01' + n * interval '1 hour' AS at, "
        "timestamptz '2024-01-01' + n * interval '1 hour' AS zoned, "
        "n * 1e20::numeric AS big FROM generate_series(1, 100) AS n;"
        "UPDATE orders SET day = NULL, at = NULL, zoned = 'infinity', big = 'NaN' WHERE id % 10 = 0"
    )
    batch = bronze.pin(bronze.table(FULL))
    assert batch is not None
    serial = bronze.read(bronze.table(FULL), batch)
    parallel = bronze.table(replace(FULL, partition_by=column, partitions=4))
    read = bronze.read(parallel, replace(batch, attempt=2))
    found = sorted(row._row_hash for row in read.collect())
    assert found == sorted(row._row_hash for row in serial.collect())
    assert len(found) == 100
    files = Path(staged_folder(bronze.context.warehouse, NAME, replace(batch, attempt=2)).url).glob("*.parquet")
    assert len([*files]) == 4


TYPES = [
    ("numeric", "123456789012345678901234567890.123456789012345678901234567890", "string", None),
    ("numeric", "NaN", "string", None),
    ("numeric(12,2)", "1234567890.12", "decimal(12,2)", None),
    ("numeric(45,5)", "1234567890123456789012345678901234567890.12345", "string", None),
    ("numeric(3,-2)", "12300", "string", None),
    ("json", '{"b": 1,  "a": 1.10}', "string", None),
    ("jsonb", '{"a": 1.10}', "string", None),
    ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "string", None),
    ("int[]", "{1,NULL,3}", "string", "[1,null,3]"),
    ("int[]", "{{1,2},{3,4}}", "string", "[[1,2],[3,4]]"),
    ("numeric[]", "{1.123456789012345678901234567890}", "string", "[1.123456789012345678901234567890]"),
    ("text[]", '{a,"b \\"c"}', "string", '["a","b \\"c"]'),
    ("timestamptz", "2024-06-01 12:00:00.123456+02", "timestamp", "2024-06-01 10:00:00.123456"),
    ("timestamp", "2024-06-01 12:00:00.123456", "timestamp_ntz", None),
    ("timestamp", "1500-02-28 10:00:00", "timestamp_ntz", None),
    ("date", "0001-01-01", "date", None),
    ("money", "$1,234.50", "string", "1234.50"),
    ("time", "12:34:56.123456", "string", None),
    ("timetz", "12:34:56.123456+02", "string", None),
    ("interval", "1 year 2 mons 3 days 04:05:06.7", "string", None),
    ("bit(1)", "1", "string", None),
    ("bit(5)", "10101", "string", None),
    ("varchar(5)", "äb", "string", None),
    ("char(5)", "ab", "string", "ab   "),
    ("bytea", "\\x00ff", "binary", "\x00\udcff"),
    ("real", "1.1", "float", None),
    ("double precision", "NaN", "double", None),
    ("boolean", "true", "boolean", None),
    ("smallint", "-32768", "smallint", None),
    ("bigint", "9223372036854775807", "bigint", None),
    ("inet", "10.0.0.1/8", "string", None),
    ("xml", "<a>ä</a>", "string", None),
    ("point", "(1,2)", "string", None),
]


def test_every_type_is_ingested_unchanged(bronze: Bronze, database: Database) -> None:
    columns = ", ".join(f"c{number} {type}" for number, (type, *_) in enumerate(TYPES))
    values = ", ".join("'" + value.replace("'", "''") + "'" for _, value, *_ in TYPES)
    database.sql(f"CREATE TABLE orders (id int, {columns}); INSERT INTO orders VALUES (1, {values})")
    assert bronze.run(bronze.table(FULL)) == (1, 0)
    assert bronze.facts is not None
    stored = {column.name: column.type for column in bronze.facts.columns}
    (found,) = bronze.rows(*(f"CAST(c{number} AS string)" for number in range(len(TYPES))))
    for number, (type, value, expected, rescued) in enumerate(TYPES):
        if type == "bytea":
            assert stored[f"c{number}"] == "binary"
            continue
        assert (type, stored[f"c{number}"], found[number]) == (type, expected, rescued or value)
    assert bronze.rows("_rescued") == [(None,)]


def test_values_outside_a_type_are_rescued_and_other_rows_are_typed(bronze: Bronze, database: Database) -> None:
    database.sql(
        "CREATE TABLE orders (id int, amount numeric(5,2), day date, at timestamp, zoned timestamptz);"
        "INSERT INTO orders VALUES (1, 'NaN', 'infinity', '-infinity', '0044-03-15 12:00:00+00 BC'),"
        "(2, 1.5, '2024-01-01', '2024-01-01', '2024-01-01 00:00+00')"
    )
    assert bronze.run(bronze.table(FULL)) == (2, 0)
    rows = bronze.rows("amount", "day", "at", "zoned", "_rescued")
    assert rows[0][:4] == (None, None, None, None)
    assert json.loads(rows[0][4]) == {
        "amount": "NaN",
        "day": "infinity",
        "at": "-infinity",
        "zoned": "0044-03-15 12:00:00+00 BC",
    }
    assert None not in rows[1][:4]
    assert rows[1][4] is None


def test_a_number_of_any_digits_takes_the_declared_type_where_it_fits(bronze: Bronze, database: Database) -> None:
    database.sql(
        "CREATE TABLE orders (id int, amount numeric, pieces numeric);"
        "INSERT INTO orders VALUES (1, 12.50, 3), (2, 12.505, 3.5), (3, 1e12, 1e30)"
    )
    assert bronze.run(bronze.table(FULL, amount="decimal(12,2)", pieces="bigint")) == (3, 0)
    assert bronze.rows("CAST(amount AS string)", "pieces", "_rescued") == [
        ("12.50", 3, None),
        (None, None, '{"amount":"12.505","pieces":"3.5"}'),
        (None, None, '{"amount":"1000000000000","pieces":"1000000000000000000000000000000"}'),
    ]


def test_a_new_column_is_ingested_and_old_rows_are_still_recognized(bronze: Bronze, database: Database) -> None:
    table = bronze.table(INCREMENTAL)
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, '2024-01-01')")
    assert bronze.run(table) == (1, 0)
    database.sql("ALTER TABLE orders ADD note text; INSERT INTO orders VALUES (2, 2, '2024-01-01', 'new')")
    assert bronze.run(table) == (1, 1)
    assert bronze.rows("id", "note") == [(1, None), (2, "new")]


def test_a_column_whose_type_changed_is_widened_or_rescued_and_never_cast(bronze: Bronze, database: Database) -> None:
    database.sql("CREATE TABLE orders (id int, amount int); INSERT INTO orders VALUES (1, 7)")
    assert bronze.run(bronze.table(FULL)) == (1, 0)
    database.sql(
        "ALTER TABLE orders ALTER amount TYPE text USING amount || ' kg'; ALTER TABLE orders ALTER id TYPE bigint"
    )
    database.sql("INSERT INTO orders VALUES (5000000000, NULL)")
    assert bronze.run(bronze.table(FULL)) == (2, 0)
    assert bronze.rows("id", "amount", "_rescued", order="_run_id, id") == [
        (1, 7, None),
        (1, None, '{"amount":"7 kg"}'),
        (5_000_000_000, None, None),
    ]
    assert bronze.run(bronze.table(FULL, id="bigint", amount="int")) == (2, 0)
    database.sql("ALTER TABLE orders ALTER id TYPE numeric(25)")
    database.sql("INSERT INTO orders VALUES (1e20, NULL)")
    assert bronze.run(bronze.table(FULL, id="bigint")) == (3, 0)
    assert bronze.rows("max(id)", "max(_rescued)") == [(5_000_000_000, '{"id":"100000000000000000000"}')]
    assert bronze.run(bronze.table(FULL)) == (3, 0)
    assert bronze.rows("CAST(max(id) AS string)") == [("100000000000000000000",)]


def test_a_strict_contract_rejects_other_columns_with_what_differs(bronze: Bronze, database: Database) -> None:
    database.sql("CREATE TABLE orders (id int, amount text, note text)")
    with pytest.raises(LakesmithError) as caught:
        bronze.run(bronze.table(FULL, "strict", id="int", amount="decimal(5,2)", day="date"))
    assert caught.value.code == "contract-broken"
    assert "+ note string; - day date; ~ amount decimal(5,2) → string" in caught.value.what
    assert bronze.staged == []


def test_an_open_contract_stores_everything_as_text(bronze: Bronze, database: Database) -> None:
    database.sql(
        "CREATE TABLE orders (id int, amount numeric(5,2), at timestamptz, day date);"
        "INSERT INTO orders VALUES (1, 1.50, '2024-01-01 12:00:00.123456+02', 'infinity')"
    )
    assert bronze.run(bronze.table(FULL, "open")) == (1, 0)
    found = bronze.rows("id", "amount", "at", "day", "_rescued")
    assert found == [("1", "1.50", "2024-01-01T10:00:00.123456Z", "infinity", None)]


def test_a_select_is_read_like_a_table(bronze: Bronze, database: Database) -> None:
    database.sql(f"{ORDERS} INSERT INTO orders VALUES (1, 1, '2024-01-01'), (2, 2, '2024-01-01')")
    source = replace(INCREMENTAL, table="(SELECT id, changed_at FROM orders WHERE id > 1)")
    assert bronze.run(bronze.table(source)) == (1, 0)


@pytest.mark.parametrize(
    ("columns", "code"),
    [('"order id" int', "bad-column-name"), ("_run_id int", "reserved-column"), ('id int, "ID" int', "header-twice")],
)
def test_names_that_a_table_cannot_hold_are_rejected(
    bronze: Bronze, database: Database, columns: str, code: str
) -> None:
    database.sql(f"CREATE TABLE orders ({columns})")
    assert rejection(bronze, FULL).code == code


def test_an_unreachable_server_is_an_error_that_says_so(bronze: Bronze) -> None:
    unreachable = Database(1, "shop")
    bronze.connections = {"shop": settings(unreachable)}
    found = rejection(bronze, FULL)
    assert (found.code, found.exit_code) == ("database-unreachable", 4)
    assert "127.0.0.1:1" in found.what


def test_a_wrong_password_is_an_error_that_does_not_show_it(
    bronze: Bronze, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "wrong password")
    found = rejection(bronze, FULL)
    assert (found.code, found.exit_code) == ("database-access-denied", 4)
    assert "wrong password" not in str(found)


def test_a_missing_table_or_column_is_named(bronze: Bronze, database: Database) -> None:
    missing = rejection(bronze, FULL)
    assert (missing.code, missing.exit_code) == ("unknown-database-table", 2)
    database.sql(ORDERS)
    column = rejection(bronze, replace(INCREMENTAL, watermark="change_at"))
    assert column.code == "unknown-column"
    assert "did you mean 'changed_at'?" in str(column.hint)
    assert rejection(bronze, replace(FULL, table="(SELECT amuont FROM orders)")).code == "query-rejected"


def test_a_column_without_an_order_is_rejected(bronze: Bronze, database: Database) -> None:
    database.sql("CREATE TABLE orders (id int, flag boolean, name text)")
    assert rejection(bronze, replace(INCREMENTAL, watermark="flag")).code == "column-not-ordered"
    assert rejection(bronze, replace(INCREMENTAL, watermark="name", overlap=1.0)).code == "column-not-ordered"
    assert rejection(bronze, replace(FULL, partition_by="name", partitions=2)).code == "column-not-ordered"


def test_another_database_is_read_through_its_own_driver(bronze: Bronze, spark: SparkSession) -> None:
    derby = {"url": "jdbc:derby:memory:shop;create=true", "driver.class": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    bronze.connections = {"shop": Settings({**derby})}
    rows = spark.sql("SELECT id, timestamp_micros(id) AS at FROM VALUES (1L), (2L), (NULL) AS rows(id)")
    options = {"driver": derby["driver.class"], "url": derby["url"]}
    rows.write.format("jdbc").options(**options, dbtable="orders", createTableColumnTypes="id BIGINT").save()
    table = bronze.table(Jdbc(table="orders", connection="shop", watermark="at", partition_by="id", partitions=2))
    assert bronze.run(table) == (3, 0)
    assert bronze.run(table) is None
    rows.where("id = 2").write.format("jdbc").options(**options, dbtable="orders").mode("append").save()
    assert bronze.run(table) == (1, 2)
    assert bronze.rows("id") == [(None,), (1,), (2,), (2,)]
    source = Jdbc(table="(SELECT CAST('12:00:00' AS TIME) AS t FROM orders)", connection="shop")
    assert rejection(bronze, source).code == "type-inexact"
