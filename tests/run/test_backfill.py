"""Backfills of days: in resumable chunks, once, and beside other runs."""

from __future__ import annotations

import shutil
import threading
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.run.lakes import Cut, Written

from lakesmith.declare import Table
from lakesmith.jvm.session import isolated
from lakesmith.lake import Lake
from lakesmith.plan.steps import Step
from lakesmith.run.context import RunContext
from lakesmith.run.step import run_step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MARCH = (date(2026, 3, 1), date(2026, 3, 31))
WEEK = (date(2026, 3, 8), date(2026, 3, 14))

COLUMNS = "SELECT id, CAST(at AS timestamp) AS at, CAST(at AS date) AS day, amount FROM bronze.events"
TABLES = {
    "gold.traced": (
        "{replace_partitions: day}",
        "SELECT CAST(at AS date) AS day, sum(amount) AS amount FROM bronze.events GROUP BY 1",
    ),
    "gold.text": (
        "{replace_partitions: day}",
        "SELECT day, count(*) OVER (PARTITION BY 1) > 0 AS some, id, amount FROM "
        "(SELECT substr(at, 1, 10) AS day, id, amount FROM bronze.events)",
    ),
    "silver.appended": ("{append: {by: at}}", COLUMNS),
    "silver.once": ("{append: {dedup: id, by: at}}", COLUMNS),
    "silver.latest": ("{merge: {key: id, order_by: at}}", COLUMNS),
    "gold.summed": (
        "{merge: {key: day}}",
        "SELECT CAST(at AS date) AS day, sum(amount) AS amount, count(*) AS n FROM bronze.events GROUP BY 1",
    ),
    "silver.history": ("{scd2: {key: id, order_by: at}}", COLUMNS),
    "silver.stream": (
        "{changes: {key: id, order_by: at, op: op}}",
        "SELECT id, CAST(at AS timestamp) AS at, CAST(at AS date) AS day, amount, op FROM bronze.events",
    ),
}


def event(id: int, day: int, amount: int = 1) -> dict[str, object]:
    return {"id": id, "at": f"2026-03-{day:02}T10:00:00Z", "amount": amount, "op": "U"}


@pytest.fixture
def events(written: Written) -> Written:
    written.declare({"bronze/events.yml": "source: {files: landing/events/*.json}\n"})
    return written


@pytest.fixture(scope="module")
def made(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with an event for each day of a month in gold.traced. Tests copy it: a lake can be moved."""
    lake = Written(tmp_path_factory.mktemp("made") / "shop", isolated(shared_spark))
    lake.declare({"lakesmith.yml": "name: shop\n", "bronze/events.yml": "source: {files: landing/events/*.json}\n"})
    declare(lake, "gold.traced")
    lake.land("events/1.json", *(event(day, day, day) for day in range(1, 31)))
    lake.run()
    return lake.folder


@pytest.fixture
def month(written: Written, made: Path) -> Written:
    shutil.copytree(made, written.folder, dirs_exist_ok=True)
    return written


def declare(lake: Written, *names: str) -> None:
    for name in names:
        load, query = TABLES[name]
        lake.declare({f"{name.replace('.', '/')}.sql": f"/* lakesmith\nload: {load}\n*/\n{query}\n"})


def held(lake: Written, *names: str) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(lake.rows(f"SELECT * FROM {name}"), key=str) for name in names or TABLES}


def damage(lake: Written, table: str, *, away: bool = False) -> None:
    """Manually change or delete half of the rows."""
    path = lake.folder / ".lakesmith/warehouse" / table.replace(".", "/")
    change = f"DELETE FROM delta.`{path}`" if away else f"UPDATE delta.`{path}` SET amount = -7"
    lake.spark.sql(f"{change} WHERE dayofmonth(CAST(day AS date)) % 2 = 0")


def days_of(rows: list[tuple[object, ...]]) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows by day."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for row in rows:
        day = next(str(value)[:10] for value in row if str(value).startswith("2026-03") and len(str(value)) >= 10)
        found.setdefault(day, []).append(row)
    return found


@pytest.mark.verify
def test_a_backfill_of_every_load_recomputes_only_its_days(events: Written) -> None:
    declare(events, *TABLES)
    events.land("events/1.json", *(event(day, day, day * 10) for day in range(1, 31)))
    events.land("events/2.json", *(event(100 + day, day) for day in range(1, 31)), event(3, 12, 99), event(9, 2, 98))
    events.run()
    whole = held(events)
    for number, table in enumerate(TABLES):
        damage(events, table, away=number % 2 == 0)
    broken = held(events)
    steps = events.run(*TABLES, days=WEEK)
    assert {step.mode for step in steps.values()} == {"days"}
    fixed = held(events)
    week = {f"2026-03-{day:02}" for day in range(8, 15)}
    for table in TABLES:
        good, bad, now = (days_of(rows[table]) for rows in (whole, broken, fixed))
        assert good != bad
        outside = {day for day in (*good, *bad, *now) if day not in week}
        assert {day: now.get(day) for day in week} == {day: good.get(day) for day in week}, table
        if table in ("silver.latest", "silver.history", "silver.stream"):
            continue  # keys with a row in these days are correct on all other days too
        assert {day: now.get(day) for day in outside} == {day: bad.get(day) for day in outside}, table
    events.run(*TABLES, days=MARCH, chunk=31)
    assert held(events) == whole


def test_rows_after_a_backfill_are_added_once(events: Written) -> None:
    tables = ("gold.summed", "silver.appended", "silver.latest")
    declare(events, *tables)
    events.land("events/1.json", *(event(day, day) for day in range(1, 8)))
    events.run()
    events.land("events/2.json", *(event(10 + day, day) for day in range(1, 8)))
    events.run("bronze.events")
    # The backfill reads only what the tables have read: later rows are read by the next run.
    backfilled = events.run(*tables, days=(date(2026, 3, 1), date(2026, 3, 3)))
    assert backfilled["gold.summed"].mode == "days"
    events.land("events/3.json", event(30, 2))
    events.run()
    now = held(events, *tables)
    events.run(full_refresh=True)
    assert held(events, *tables) == now


def test_an_interrupted_backfill_continues(month: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = held(month, "gold.traced")
    damage(month, "gold.traced")
    taken = []

    def cut(run: RunContext, table: Table, step: Step) -> object:
        taken.append(step)
        if len(taken) == 3:
            raise Cut
        return run_step(run, table, step)

    monkeypatch.setattr("lakesmith.run.execute.run_step", cut)
    with pytest.raises(Cut):
        month.run("gold.traced", days=MARCH, chunk=7)
    monkeypatch.undo()
    planned = month.lake().plan(["gold.traced"])
    assert "is done up to 2026-03-14: lakesmith run gold.traced --from 2026-03-01" in planned.tables[0].reason
    assert not list(planned.steps)
    month.land("events/2.json", event(99, 9, 1000))
    month.run()  # other runs continue, and keep the backfill
    left = month.lake().plan(["gold.traced"], days=MARCH, chunk=7)
    assert [str(step.chunk) for step in left.steps] == [  # type: ignore[union-attr]
        "2026-03-15 to 2026-03-21",
        "2026-03-22 to 2026-03-28",
        "2026-03-29 to 2026-03-31",
    ]
    other = month.lake().plan(["gold.traced"], days=WEEK, chunk=7)
    assert "the backfill of 2026-03-01 to 2026-03-31, done up to 2026-03-14, is abandoned" in next(other.steps).reason
    month.run("gold.traced", days=MARCH, chunk=7)
    expected = {**{row[0]: row[1] for row in whole["gold.traced"]}, date(2026, 3, 9): 1009}
    assert {row[0]: row[1] for row in held(month, "gold.traced")["gold.traced"]} == expected
    assert "backfill" not in month.lake().plan(["gold.traced"]).tables[0].reason
    assert len(list(month.lake().plan(["gold.traced"], days=MARCH, chunk=7).steps)) == 5, "asked again, all again"


def test_a_rollback_reverts_chunks_of_a_backfill(month: Written) -> None:
    before = month.version("gold.traced")
    days = (date(2026, 3, 1), date(2026, 3, 6))
    plan = month.lake().plan(["gold.traced"], days=days, chunk=2)
    assert len(list(plan.steps)) == 3
    month.run("gold.traced", days=days, chunk=2)
    path = month.folder / ".lakesmith/warehouse/gold/traced"
    month.spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF {before + 2}")  # type: ignore[operator]
    left = month.lake().plan(["gold.traced"], days=days, chunk=2)
    assert [str(step.chunk) for step in left.steps] == ["2026-03-05 to 2026-03-06"]  # type: ignore[union-attr]


def test_rejected_rows_of_a_backfill_are_stored_once_and_leave_when_they_pass(events: Written) -> None:
    header = "/* lakesmith\nload: {merge: {key: id, order_by: at}}\ncolumns: {amount: {check: amount > 0}}\n*/\n"
    events.declare({"silver/latest.sql": header + COLUMNS + "\n"})
    partitions = "/* lakesmith\nload: {replace_partitions: day}\ncolumns: {amount: {check: amount > 0}}\n*/\n"
    events.declare({"gold/traced.sql": partitions + TABLES["gold.traced"][1] + "\n"})
    events.land("events/1.json", event(1, 1, -1), event(2, 2, 2), event(3, 3, -3), event(4, 4))
    events.run("+silver.latest", "gold.traced")
    days = (date(2026, 3, 1), date(2026, 3, 2))
    tables = ("silver.latest", "gold.traced")
    for _ in range(2):
        steps = events.run(*tables, days=days)
        assert [(step.rows_in, step.rows_quarantined) for step in steps.values()] == [(2, 1), (2, 1)]
    for table in tables:
        quarantined = events.rows(f"SELECT raw FROM quarantine.{table.replace('.', '_')}")
        assert sorted(row[0].count("-1") for row in quarantined) == [0, 1], "one of each day, as before"  # type: ignore[attr-defined]
    events.declare({"silver/latest.sql": header.replace("> 0", "> -2") + COLUMNS + "\n"})
    events.run("silver.latest", days=days)
    assert [row[0] for row in events.rows("SELECT id FROM silver.latest ORDER BY id")] == [1, 2, 4]
    assert len(events.rows("SELECT raw FROM quarantine.silver_latest")) == 1


def test_runs_and_a_backfill_do_not_write_at_the_same_time(month: Written) -> None:
    errors: list[object] = []

    def fill() -> None:
        report = Lake.open(month.folder).run(["gold.traced"], days=MARCH, chunk=8, session=month.spark)
        errors.extend(report.errors)

    filling = threading.Thread(target=fill)
    filling.start()
    beside = 0
    while filling.is_alive():
        beside += 1
        month.land(f"events/{beside + 1}.json", event(200 + beside, 1 + beside % 28))
        month.run("bronze.events", "gold.traced")
    filling.join()
    assert errors == []
    assert beside >= 2
    rows = month.rows("SELECT * FROM gold.traced ORDER BY day")
    assert sum(row[1] for row in rows) == sum(range(31)) + beside  # type: ignore[misc]
    month.run("gold.traced", full_refresh=True)
    assert month.rows("SELECT * FROM gold.traced ORDER BY day") == rows
    versions = [each.run_id for each in Lake.open(month.folder).history("gold.traced")]
    assert len(set(versions)) > 2


def test_a_full_refresh_never_shows_an_empty_table(orders: Written, tmp_path: Path) -> None:
    rows = ({"id": n, "amount": n, "day": f"2026-01-{1 + n % 9:02}", "at": 1} for n in range(1000))
    orders.land("orders/1.json", *rows)
    orders.run()
    seen: dict[str, set[object]] = {"silver.orders": set(), "gold.sales": set()}
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for table, found in seen.items():
                found.add(orders.rows(f"SELECT sum(amount) FROM {table}")[0][0])

    watching = threading.Thread(target=watch)
    watching.start()
    before = {table: orders.version(table) for table in seen}
    steps = orders.run("silver.orders+", full_refresh=True)
    ended.set()
    watching.join()
    assert set(steps) == {"silver.orders", "gold.sales"}
    assert {step.mode for step in steps.values()} == {"full"}
    assert {table: orders.version(table) for table in seen} == {table: (v or 0) + 1 for table, v in before.items()}
    assert seen == {table: {sum(range(1000))} for table in seen}
