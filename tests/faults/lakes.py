"""A lake of three tables after its first day, the files of its second day, and the expected content."""

from __future__ import annotations

import json
import os
from pathlib import Path

from deltalake import DeltaTable
from tests.run.lakes import ORDERS, Written

from lakesmith.errors import LakesmithError
from lakesmith.reports import RunReport

TABLES = ("bronze/orders", "silver/orders", "gold/sales")


def row(id: int, amount: object = 1, at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": at}


def run_first_day(lake: Written) -> None:
    """Land and ingest the files of the first day."""
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS})
    lake.land("orders/1.json", row(1, 1), row(2, 2), row(3, -1), '{"id": 4, "am')
    lake.run()


def land_second_day(lake: Written) -> None:
    """Land the files of the second day."""
    lake.land("orders/2.json", row(1, 10, at=2), row(5, 5), row(6, -6), '{"id": 7, "am', row(5, 5))


def warehouse(lake: Written) -> Path:
    return lake.folder / ".lakesmith/warehouse"


def age(table: Path, seconds: float) -> None:
    """Make a table older by this many seconds. Spark must not have read it yet."""
    for commit in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if gone := action.get("remove"):
                gone["deletionTimestamp"] -= int(seconds * 1000)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    for path in table.rglob("*"):
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


def failing(lake: Written) -> RunReport:
    """Run the lake and return the report. The run fails, and each error has a next step for users."""
    report = lake.lake().run(session=lake.spark)
    assert report.errors
    for error in report.errors:
        assert_typed(error)
    assert_bookmarks_hold(lake)
    return report


def assert_typed(error: LakesmithError, code: str | None = None) -> None:
    assert error.code != "bug"
    assert code is None or error.code == code, str(error)
    assert error.exit_code in (1, 4)
    assert error.hint
    assert "Traceback" not in str(error)
    assert "\x1b" not in str(error)


def assert_bookmarks_hold(lake: Written) -> None:
    """Check that no bookmark is ahead of its table: rows of committed batches are in the table or its quarantine."""
    versions = {}
    for table in TABLES:
        location, name = warehouse(lake) / table, table.replace("/", ".")
        opened = DeltaTable(str(location))
        versions[name] = opened.version()
        sequence = opened.transaction_version(f"lakesmith.{name}") or 0
        notes = [entry.get("userMetadata", "") for entry in opened.history()]
        batches = warehouse(lake) / "_lakesmith/batches" / name
        done = [json.loads(file.read_bytes()) for file in sorted(batches.glob("*.done.json"))]
        assert [each["sequence"] for each in done] == list(range(1, len(done) + 1))
        assert len(done) in (sequence, sequence - 1)
        for each in done:
            assert each["version"] <= opened.version()
            assert any(f"batch {each['sequence']}.{each['attempt']} " in note for note in notes)
            pinned = json.loads((batches / f"{each['sequence']:08}.{each['attempt']:02}.json").read_bytes())
            for source, position in pinned["inputs"].items():
                assert position["version"] <= versions[source]


def assert_right_after_a_rerun(lake: Written) -> None:
    """Check that a rerun gives the correct content, and that another run does nothing."""
    lake.run()
    assert lake.run() == {}
    assert lake.rows("SELECT id FROM bronze.orders ORDER BY id") == [(i,) for i in (1, 1, 2, 3, 5, 5, 6)]
    assert lake.rows("SELECT count(*) FROM quarantine.bronze_orders") == [(2,)]
    assert lake.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (2, 2), (5, 5)]
    assert sorted(lake.rows("SELECT raw LIKE '%-6%', batch FROM quarantine.silver_orders")) == [(False, 1), (True, 2)]
    assert lake.rows("SELECT orders, amount FROM gold.sales") == [(3, 17)]
    assert_bookmarks_hold(lake)


def content(lake: Written) -> dict[str, list[str]]:
    """Return the rows of each table."""
    return {
        name: sorted(map(repr, lake.rows(f"SELECT * FROM {name}")))
        for name in ("bronze.orders", "silver.orders", "gold.sales", "quarantine.bronze_orders")
    }
