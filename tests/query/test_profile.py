"""Profiles of a lake's stored tables; tests/quality tests the proposals for values of any type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakesmith.errors import UsageError
from lakesmith.lake import Lake

FILES = {
    "lakesmith.yml": "name: shop\n",
    "bronze/raw.yml": "source: {files: raw/*.json}\n",
    "silver/customers.sql": "/* lakesmith\nload: {merge: {key: id, order_by: at}}\n*/\nSELECT * FROM bronze.raw\n",
    "silver/orders.sql": (
        "/* lakesmith\nload: {merge: {key: order_id, order_by: at}}\n"
        "columns: {email: {type: string, tags: [pii]}}\n*/\nSELECT * FROM bronze.raw\n"
    ),
    "gold/last.sql": "/* lakesmith\nload: {merge: {key: order_id}}\n*/\nSELECT order_id FROM silver.orders\n",
}
ORDERS = pa.table(
    {
        "order_id": pa.array([1, 2, 3], pa.int64()),
        "customer_id": pa.array([7, 8, 7], pa.int64()),
        "email": ["ada@example.com", "alan@example.com", None],
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    warehouse = tmp_path / ".lakesmith" / "warehouse"
    write_deltalake(warehouse / "silver/orders", ORDERS)
    write_deltalake(warehouse / "silver/customers", pa.table({"id": pa.array([7, 8, 9], pa.int64())}))
    write_deltalake(warehouse / "gold/last", pa.table({"order_id": pa.array([1, 2, 3], pa.int64())}))
    return tmp_path


def test_a_table_is_profiled_at_its_newest_version(folder: Path) -> None:
    write_deltalake(folder / ".lakesmith/warehouse/silver/orders", ORDERS, mode="append")
    found = Lake.open(folder).profile("silver.orders")
    assert (found.table, found.version, found.rows, found.profiled_rows) == ("silver.orders", 1, 6, 6)


def test_deleted_rows_are_not_profiled(folder: Path) -> None:
    DeltaTable(folder / ".lakesmith/warehouse/silver/orders").delete("order_id = 3")
    assert Lake.open(folder).profile("silver.orders").rows == 2


def test_references_are_proposed_only_to_upstream_tables(folder: Path) -> None:
    found = Lake.open(folder).profile("silver.orders")
    refers = [each.rule["references"] for each in found.proposals if "references" in each.rule]
    assert refers == [{"columns": ["customer_id"], "table": "silver.customers", "key": ["id"]}]


@pytest.mark.parametrize("tag", ["pii", "confidential", "secret:mail"])
def test_private_values_do_not_leave_the_lake(folder: Path, tag: str) -> None:
    declaration = folder / "silver/orders.sql"
    declaration.write_text(FILES["silver/orders.sql"].replace("[pii]", f"[{tag}]"), encoding="utf-8")
    assert "@example" not in repr(Lake.open(folder).profile("silver.orders"))


def test_a_sample_is_smaller_than_the_table(folder: Path) -> None:
    found = Lake.open(folder).profile("silver.orders", rows=2)
    assert (found.rows, found.profiled_rows) == (3, 2)


@pytest.mark.parametrize(("name", "code"), [("bronze.raw", "not-built"), ("silver.order", "unknown-table")])
def test_a_missing_table_is_reported(folder: Path, name: str, code: str) -> None:
    with pytest.raises(UsageError) as raised:
        Lake.open(folder).profile(name)
    assert raised.value.code == code


def test_proposals_can_be_pasted_into_the_declaration(folder: Path) -> None:
    found = Lake.open(folder).profile("silver.customers")
    declaration = folder / "silver/customers.sql"
    declaration.write_text(FILES["silver/customers.sql"].replace("*/", f"{found.yaml}*/"), encoding="utf-8")
    table = Lake.open(folder).tables[next(name for name in Lake.open(folder).tables if name.name == "customers")]
    assert {check.name for check in table.checks} == {each.name for each in found.proposals if each.kind == "check"}


def test_the_command_loads_no_spark(folder: Path) -> None:
    code = (
        "import sys; from lakesmith.cli import app\n"
        "try: app.main(args=['profile', 'silver.orders', '--yaml'])\n"
        "finally: print([m for m in ('pyspark', 'py4j', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert done.stdout.startswith("columns:\n")
