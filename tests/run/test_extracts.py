"""Full extracts: a run writes only changes, and the newest extract is always known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.markdown import DOCS, blocks
from tests.run.lakes import Cut, Written, cut_at

from lakesmith.ledger.batch import with_checksum
from lakesmith.spark import write
from lakesmith.spark.loads.merge_input import MergeInput

pytestmark = pytest.mark.spark

TABLES = ("silver.stock", "silver.history")
FULL = dict.fromkeys(range(1000), 1)
"""By id, the number of pieces."""


@pytest.fixture
def stock(written: Written) -> Written:
    """A lake that loads extracts into a table with the newest rows and into a history."""
    columns = "{id: bigint, pieces: int, day: date}"
    query = "SELECT id, pieces, day FROM bronze.stock"
    load = "snapshot: {key: id, taken: day"
    written.declare(
        {
            "bronze/stock.yml": f"source: {{files: landing/stock/*.json}}\ncolumns: {columns}\n",
            "silver/stock.sql": f"/* lakesmith\nload: {{{load}}}}}\n*/\n{query}\n",
            "silver/history.sql": f"/* lakesmith\nload: {{{load}, into: scd2}}}}\n*/\n{query}\n",
        }
    )
    return written


def extract(lake: Written, day: int, pieces: dict[int, int]) -> None:
    """Land the extract of a day in January."""
    date = f"2026-01-{day:02}"
    lake.land(f"stock/{date}.json", *(json.dumps({"id": id, "pieces": n, "day": date}) for id, n in pieces.items()))


def location(lake: Written, table: str) -> Path:
    return lake.folder / ".lakesmith/warehouse" / table.replace(".", "/")


def file_actions(lake: Written, table: str, after: int | None) -> Iterator[dict[str, Any]]:
    """Return the files that later versions added and removed."""
    for commit in sorted((location(lake, table) / "_delta_log").glob("*.json")):
        if after is not None and int(commit.stem) > after:
            actions = map(json.loads, commit.read_text().splitlines())
            yield from (action for action in actions if {"add", "remove", "cdc"} & action.keys())


def content(lake: Written) -> dict[str, list[tuple[object, ...]]]:
    return {table: sorted(lake.rows(f"SELECT * FROM {table}"), key=str) for table in TABLES}


def test_an_extract_writes_only_changes(stock: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    extract(stock, 1, FULL)
    stock.run()

    def written_by_the_next_run() -> dict[str, list[dict[str, Any]]]:
        before = {table: stock.version(table) for table in TABLES}
        steps = stock.run()
        assert [steps[table].mode for table in TABLES] == ["changes", "changes"]
        return {table: list(file_actions(stock, table, before[table])) for table in TABLES}

    nothing: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    extract(stock, 2, FULL)
    assert written_by_the_next_run() == nothing

    # As in a large table, where deletion vectors mark deleted rows and files stay.
    monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0)
    changed = {id: 2 if id == 1 else n for id, n in FULL.items() if id != 2} | {1000: 1}
    extract(stock, 4, changed)
    found = written_by_the_next_run()
    # The history also closes the intervals of the changed and the missing row.
    for table, rows in {"silver.stock": 2, "silver.history": 4}.items():
        adds = [action["add"] for action in found[table] if "add" in action]
        new = [add for add in adds if not add.get("deletionVector")]
        assert sum(json.loads(add["stats"])["numRecords"] for add in new) == rows
        assert sum(add["deletionVector"]["cardinality"] for add in adds if add not in new) == 2
        assert sum(add["size"] for add in new) < 5_000
    assert stock.rows("SELECT id, pieces, day::text FROM silver.stock WHERE id IN (0, 1, 2, 1000) ORDER BY id") == [
        (0, 1, "2026-01-01"),
        (1, 2, "2026-01-04"),
        (1000, 1, "2026-01-04"),
    ]

    extract(stock, 5, changed)
    assert written_by_the_next_run() == nothing
    # A late extract, so that all extracts are compared again, with the same result.
    extract(stock, 3, FULL)
    assert written_by_the_next_run() == nothing
    held = content(stock)
    stock.run(*TABLES, full_refresh=True)
    assert content(stock) == held


def test_the_newest_extract_survives_rollbacks_kills_and_a_cleaned_log(
    stock: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    (stock.folder / "silver/stock.sql").unlink()
    table = location(stock, "silver.history")
    few = {1: 1, 2: 1, 3: 1}
    extract(stock, 1, few)
    stock.run()
    with monkeypatch.context() as patch:
        # Extracts in order never need all rows.
        patch.setattr(MergeInput, "recompute", None)
        extract(stock, 2, few)
        stock.run()
        stock.spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 0").collect()
        # Rolled-back files are read again, with new ones.
        extract(stock, 3, {**few, 1: 3})
        assert stock.run()["silver.history"].rows_in == 6
        extract(stock, 4, {**few, 1: 4})
        with cut_at("batch.finishing", "silver.history"), pytest.raises(Cut):
            stock.run()
        extract(stock, 5, {**few, 1: 4})
        stock.run()
        found = DeltaTable(str(table))
        found.create_checkpoint()
        for version in range(found.version()):
            (table / f"_delta_log/{version:020}.json").unlink()
        extract(stock, 6, {1: 4, 4: 1})
        stock.run()
    done = newest_done(stock)
    record = json.loads(done.read_text())
    assert record["newest_extract"] == '{"taken":"2026-01-06"}'
    history = "SELECT id, pieces, day::text, valid_from::text, valid_to::text FROM silver.history ORDER BY ALL"
    assert stock.rows(history) == [
        (1, 1, "2026-01-01", "2026-01-01", "2026-01-03"),
        (1, 3, "2026-01-03", "2026-01-03", "2026-01-04"),
        (1, 4, "2026-01-04", "2026-01-04", None),
        (2, 1, "2026-01-01", "2026-01-01", "2026-01-06"),
        (3, 1, "2026-01-01", "2026-01-01", "2026-01-06"),
        (4, 1, "2026-01-06", "2026-01-06", None),
    ]

    # If no batch names the newest extract, all rows are read.
    del record["checksum"], record["newest_extract"]
    done.write_bytes(with_checksum(json.dumps(record)))
    extract(stock, 7, {4: 1})
    stock.run()
    assert json.loads(newest_done(stock).read_text())["newest_extract"] == '{"taken":"2026-01-07"}'
    held = stock.rows(history)
    stock.run("silver.history", full_refresh=True)
    assert stock.rows(history) == held


def newest_done(lake: Written) -> Path:
    batches = lake.folder / ".lakesmith/warehouse/_lakesmith/batches/silver.history"
    return max(batches.glob("*.done.json"))


def test_the_date_of_an_extract_comes_from_the_name_of_its_file(written: Written) -> None:
    page = DOCS / "concepts" / "histories.md"
    named = ("bronze/stock.yml", "silver/stock_history.sql")
    written.declare({block.file: block.text for block in blocks(page) if block.file in named})
    written.land("stock/stock-2026-01-01.csv", "product_id,pieces", "1,10", "2,20")
    written.land("stock/other.csv", "product_id,pieces", "9,90")
    written.run()
    written.land("stock/stock-2026-01-02.csv", "product_id,pieces", "1,11")
    assert written.run()["silver.stock_history"].mode == "changes"
    history = "SELECT product_id, pieces, valid_from::text, valid_to::text FROM silver.stock_history ORDER BY ALL"
    assert written.rows(history) == [
        (1, 10, "2026-01-01", "2026-01-02"),
        (1, 11, "2026-01-02", None),
        (2, 20, "2026-01-01", "2026-01-02"),
    ]
    assert written.rows("SELECT rules, raw LIKE '%90%' FROM quarantine.silver_stock_history") == [
        (["day.required"], True)
    ]
