"""A lake with recorded contracts and a stored table, without Spark."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from lakesmith import Lake
from lakesmith.cli import app
from lakesmith.contracts import compare_all, new_records
from lakesmith.errors import DeclarationError, Problems, UsageError
from lakesmith.ledger.tables import Ledger
from lakesmith.records import RunRecord
from lakesmith.store import Warehouse

COLUMNS = """
  order_id: {type: bigint, required: true}
  amount: {type: "decimal(12,2)", currency: EUR}
"""
RUN = RunRecord(
    run_id="r1",
    lake="shop",
    environment="dev",
    plan_hash="h",
    outcome="ok",
    tables=1,
    rows_in=0,
    rows_written=0,
    rows_quarantined=0,
    rows_deduplicated=0,
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    seconds=1.0,
    lakesmith_version="0",
)


class Shop:
    """Declarations of `silver.orders`, which a test changes, and their recorded contracts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("lakesmith.yml", "name: shop\n")
        self.write("bronze/orders.yml", "source: {files: landing/*.json}\n")
        self.write(
            "gold/sales.sql", "/* lakesmith\nload: replace\n*/\nSELECT sum(amount) AS total FROM silver.orders\n"
        )
        self.declare(COLUMNS)

    def write(self, file: str, text: str) -> None:
        (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / file).write_text(text)

    def declare(
        self, columns: str, contract: str = "", query: str = "SELECT order_id, amount FROM bronze.orders"
    ) -> None:
        header = f"load: replace\n{contract}\ncolumns:{columns}"
        self.write("silver/orders.sql", f"/* lakesmith\n{header}*/\n{query}\n")

    def lake(self) -> Lake:
        return Lake.open(self.folder)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.lake().declaration.environment.warehouse)

    def record(self, run_id: str = "r1") -> None:
        """Record the contract as after a successful run."""
        lake = self.lake()
        verdicts = compare_all(lake.tables, lake._lake.recorded_contracts())
        records = new_records(verdicts.values(), ["silver.orders"], run_id, datetime.now(UTC))
        Ledger(self.warehouse).record(replace(RUN, run_id=run_id), (), (), (), records)

    def store(self, **columns: pa.Array) -> None:
        write_deltalake(
            self.warehouse.store.url + "/silver/orders", pa.table(columns), mode="overwrite", schema_mode="overwrite"
        )

    def rejected(self) -> list[DeclarationError]:
        found = []
        for answer in (self.lake().validate, self.lake().plan):
            with pytest.raises((DeclarationError, Problems)) as raised:
                answer()
            error = raised.value
            found.append(list(error.errors) if isinstance(error, Problems) else [error])
        assert [str(error) for error in found[0]] == [str(error) for error in found[1]]
        return found[0]  # type: ignore[return-value]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def euros(*amounts: str) -> pa.Array:
    return pa.array([Decimal(amount) for amount in amounts], pa.decimal128(12, 2))


def test_a_contract_without_a_record_can_change_freely(shop: Shop) -> None:
    shop.lake().validate()
    (found,) = shop.lake().contract_diff()
    assert (found.recorded, found.version, found.changes) == (None, "1.0.0", ())


def test_a_breaking_change_stops_validate_and_plan_where_it_was_written(shop: Shop) -> None:
    shop.record()
    shop.lake().plan()
    shop.declare(COLUMNS.replace("EUR", "USD"))
    (error,) = shop.rejected()
    assert (error.code, str(error.at), error.table) == ("breaking-change", "silver/orders.sql:6", "silver.orders")
    assert error.what.startswith("currency of amount is USD, was EUR, which breaks backward compatibility")
    assert error.what.endswith("it is read by gold.sales.total")


def test_a_removed_column_is_reported_with_its_readers(shop: Shop) -> None:
    shop.record()
    shop.declare("\n  order_id: {type: bigint, required: true}\n", query="SELECT order_id FROM bronze.orders")
    errors = {error.code: error for error in shop.rejected()}
    assert errors.keys() == {"breaking-change", "unknown-column"}
    assert "gold.sales.total" in errors["breaking-change"].what


def test_an_acknowledged_change_passes_and_is_recorded_as_a_new_major_version(shop: Shop) -> None:
    shop.record()
    shop.declare(COLUMNS.replace("EUR", "USD"), 'contract: {version: "2"}')
    shop.lake().plan()
    (warning,) = shop.lake().validate().warnings
    assert warning.startswith("version 1 of silver.orders will no longer be available; previous: {")
    (found,) = shop.lake().contract_diff(["silver.orders"])
    assert (found.recorded, found.version, found.acknowledged) == ("1.0.0", "2.0.0", True)
    shop.record("r2")
    rows = shop.lake().query("SELECT version, acknowledged, change FROM system.contracts ORDER BY recorded_at").rows
    assert rows == (
        ("1.0.0", False, "first version"),
        ("2.0.0", True, "currency of amount is USD, was EUR"),
    )
    assert shop.lake().contract_diff()[0].changes == ()


def test_the_previous_version_is_readable_until_its_last_day(shop: Shop) -> None:
    shop.record()
    until = date.today() + timedelta(days=30)
    previous = f'previous: {{"1": {{until: "{until}", columns: {{order_id: "cast(id AS bigint)"}}}}}}'
    columns = COLUMNS.replace("order_id: {type: bigint", "id: {type: string").replace("12,2", "14,4")
    shop.declare(columns, f'contract: {{version: "2", {previous}}}', "SELECT id, amount FROM bronze.orders")
    shop.lake().validate()
    shop.record("r2")
    shop.store(id=pa.array(["7"]), amount=euros("19.90").cast(pa.decimal128(14, 4)))
    answer = shop.lake().query("FROM silver.orders_v1")
    assert (answer.columns, answer.types) == (("order_id", "amount"), ("BIGINT", "DECIMAL(12,2)"))
    assert answer.rows == ((7, Decimal("19.90")),)
    assert shop.lake().query("SELECT id FROM silver.orders, silver.orders_v1").rows == (("7",),)
    shop.declare(
        columns,
        f'contract: {{version: "2", {previous.replace(str(until), "2026-01-31")}}}',
        "SELECT id, amount FROM bronze.orders",
    )
    with pytest.raises(UsageError) as gone:
        shop.lake().query("FROM silver.orders_v1")
    assert (gone.value.code, "until 2026-01-31" in gone.value.what) == ("version-gone", True)


def test_an_earlier_version_that_could_not_be_read_stops_the_plan(shop: Shop) -> None:
    shop.record()
    columns = COLUMNS.replace("order_id:", "id:")
    previous = 'contract: {version: "2", previous: {"1": {until: "2099-01-01"}}}'
    shop.declare(columns, previous, "SELECT id, amount FROM bronze.orders")
    (error,) = shop.rejected()
    assert (error.code, str(error.at)) == ("previous-unreadable", "silver/orders.sql:3")


def test_the_stored_table_is_compared_with_the_contract(shop: Shop) -> None:
    (found,) = shop.lake().contract_check()
    assert found.state == "not built"
    shop.store(order_id=pa.array([1], pa.int64()), amount=euros("1.00"))
    assert shop.lake().contract_check(["silver.orders"])[0].state == "agrees"
    shop.store(order_id=pa.array([1], pa.int32()), amount=euros("1.00"))
    (found,) = shop.lake().contract_check()
    assert [(one.column, one.stored) for one in found.differences] == [("order_id", "int")]


def test_an_undeclared_table_with_a_contract_is_reported(shop: Shop) -> None:
    shop.store(order_id=pa.array([1], pa.int64()), amount=euros("1.00"))
    shop.record()
    assert shop.lake().validate().warnings == ()
    (shop.folder / "silver/orders.sql").rename(shop.folder / "silver/sold.sql")
    shop.write("gold/sales.sql", "/* lakesmith\nload: replace\n*/\nSELECT sum(amount) AS total FROM silver.sold\n")
    (warning,) = shop.lake().validate().warnings
    assert warning.startswith("silver.orders has a recorded contract, but no file declares it; ")
    found = {each.table: each for each in shop.lake().contract_diff()}
    assert (found["silver.orders"].removed, found["silver.orders"].recorded) == (True, "1.0.0")
    assert not found["silver.sold"].removed
    assert [each.table for each in shop.lake().contract_diff(["silver.sold"])] == ["silver.sold"]
    shown = CliRunner().invoke(app, ["contract", "diff", "--lake", str(shop.folder)]).stdout
    assert shown.endswith("silver.orders: 1.0.0, removed: no file declares the table\n")


def test_an_undeclared_table_that_is_not_stored_is_not_reported(shop: Shop) -> None:
    shop.record()
    (shop.folder / "silver/orders.sql").unlink()
    (shop.folder / "gold/sales.sql").unlink()
    assert shop.lake().validate().warnings == ()


def test_a_table_without_declared_columns_has_no_contract_to_compare(shop: Shop) -> None:
    for ask in (shop.lake().contract_diff, shop.lake().contract_check):
        with pytest.raises(UsageError) as rejected:
            ask(["gold.sales"])
        assert rejected.value.code == "no-contract"


def test_recorded_contracts_are_cached_until_their_table_changes(shop: Shop) -> None:
    shop.record()
    shop.lake().plan()
    code = (
        "import sys\nfrom lakesmith import Lake\n"
        f"Lake.open({str(shop.folder)!r}).plan()\n"
        "assert 'deltalake' not in sys.modules, 'deltalake was imported'\n"
        "assert 'pyarrow' not in sys.modules, 'pyarrow was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    shop.declare(COLUMNS + "  note: {type: string}\n", query="SELECT order_id, amount, note FROM bronze.orders")
    shop.record("r2")
    assert shop.lake().contract_diff()[0].recorded == "1.1.0"
