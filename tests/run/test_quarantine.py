"""Rows leave the quarantine once, through the table's own load, fixed or unchanged, also after a crash."""

from __future__ import annotations

import json

import pytest
from tests.marks import chosen_only, first_only
from tests.run.lakes import Cut, Written

from lakesmith.plan.steps import QuarantineFilter
from lakesmith.records import StepRecord
from lakesmith.reports import RunReport
from lakesmith.spark.replay import QuarantineReplay

pytestmark = pytest.mark.spark

BRONZE = "source: {files: landing/orders/*.json}\ncolumns: {id: bigint, amount: int, at: int}\n"


def silver(load: str, *, rule: str = "amount >= 0", columns: str = "") -> str:
    return (
        f"/* lakesmith\nload: {load}\n{columns}checks:\n  sane: {{sql: {rule}}}\n*/\n"
        "SELECT id, amount, at FROM bronze.orders\n"
    )


EVERY = QuarantineFilter()
LOADS = {
    "append": "append",
    "replace": "replace",
    "dedup": "{append: {dedup: id, by: at}}",
    "merge": "{merge: {key: id, order_by: at}}",
    "scd2": "{scd2: {key: id, order_by: at}}",
    "parts": "{replace_partitions: {by: at, same_as: bronze.orders.at}}",
}


def replay(lake: Written, table: str, chosen: QuarantineFilter = EVERY, **how: object) -> StepRecord:
    report = lake.lake().replay(table, chosen, session=lake.spark, by="ann", **how)  # type: ignore[arg-type]
    return only_step(lake, report)


def only_step(lake: Written, report: RunReport) -> StepRecord:
    lake.reports.append(report)
    assert not report.errors, report.errors
    (step,) = report.steps
    return step


def assert_row_counts(lake: Written, table: str) -> None:
    """Check that each row in is written, quarantined, deduplicated or discarded."""
    ((rows_in, written, twice, discarded),) = lake.rows(
        "SELECT sum(rows_in) FILTER (mode <> 'replay'), sum(rows_written), sum(rows_deduplicated), sum(rows_discarded) "
        f"FROM system.steps WHERE \"table\" = '{table}' AND outcome = 'ok'"
    )
    ((in_quarantine,),) = lake.rows(f"SELECT count(*) FROM quarantine.{table.replace('.', '_')}")
    assert int(str(rows_in)) == sum(int(str(each)) for each in (written, twice, discarded, in_quarantine))


@pytest.mark.parametrize("loads", first_only([("append", "merge"), tuple(LOADS)]), ids=["two", "all"])
def test_replayed_rows_enter_through_the_load_and_a_rebuild_gives_the_same_rows(
    written: Written, loads: tuple[str, ...]
) -> None:
    """One table for each load, all in one lake."""
    written.declare({"bronze/orders.yml": BRONZE})
    written.declare({f"silver/{load}.sql": silver(LOADS[load]) for load in loads})
    written.land(
        "orders/1.json",
        {"id": 1, "amount": 1, "at": 1},
        {"id": 2, "amount": -2, "at": 2},
        {"id": 3, "amount": -300, "at": 2},
        {"id": 1, "amount": -9, "at": 0},
    )
    written.run()
    step = replay(written, "silver.append")
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (3, 0, 3)

    # By today's rule, one row passes unchanged, another is fixed, and the third is still invalid.
    written.declare({f"silver/{load}.sql": silver(LOADS[load], rule="amount >= -5") for load in loads})
    now: dict[str, list[tuple[object, ...]]] = {}
    for load in loads:
        table = f"silver.{load}"
        step = replay(written, table, QuarantineFilter(rule="sane"), set={"amount": "IF(id = 1, abs(amount), amount)"})
        assert (step.rows_in, step.rows_written + step.rows_deduplicated, step.rows_quarantined) == (3, 2, 1), load
        now[load] = written.rows(shown(load))
        assert (2, -2, 2) in [row[:3] for row in now[load]]
        assert (load == "merge") == ((1, 9, 0) not in [row[:3] for row in now[load]])
        in_quarantine = written.rows(f"SELECT raw FROM quarantine.silver_{load}")
        assert in_quarantine == [('{"id":3,"amount":-300,"at":2}',)]
        (fixed,) = written.rows(
            f"SELECT decision, decided_by, fixed FROM quarantine_decisions.silver_{load} WHERE fixed IS NOT NULL"
        )
        assert fixed[:2] == ("replayed", "ann")
        assert json.loads(str(fixed[2])) == {"id": 1, "amount": 9, "at": 0}
        assert_row_counts(written, table)

    # The next batch continues, and a rebuild of the table gives the same rows.
    written.land("orders/2.json", {"id": 7, "amount": 7, "at": 7})
    written.run()
    grown = {load: written.rows(shown(load)) for load in loads}
    assert {load: len(rows) for load, rows in grown.items()} == {load: len(rows) + 1 for load, rows in now.items()}
    written.run(full_refresh=True)
    assert {load: written.rows(shown(load)) for load in loads} == grown
    for load in loads:
        assert written.rows(f"SELECT count(*) FROM quarantine.silver_{load}") == [(1,)]


def shown(load: str) -> str:
    columns = 'id, amount, "at"' + (", valid_to, is_current" if load == "scd2" else "")
    return f"SELECT {columns} FROM silver.{load} ORDER BY 1, 3"


def test_discarded_rows_stay_discarded_in_a_rebuild_and_are_counted(written: Written) -> None:
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver("append")})
    written.land("orders/1.json", {"id": 1, "amount": 1, "at": 1}, {"id": 2, "amount": -2, "at": 2})
    written.run()
    report = written.lake().discard(
        "silver.orders", QuarantineFilter(), why="a test order", by="ann", session=written.spark
    )
    step = only_step(written, report)
    assert (step.rows_in, step.rows_discarded) == (1, 1)
    assert_row_counts(written, "silver.orders")
    assert written.rows("SELECT action, decided_by, reason, rows FROM system.audit") == [
        ("discard", "ann", "a test order", 1)
    ]
    step = written.run("silver.orders", full_refresh=True)["silver.orders"]
    assert (step.rows_in, step.rows_written, step.rows_discarded, step.rows_quarantined) == (2, 1, 1, 0)
    assert written.rows("SELECT count(*) FROM quarantine.silver_orders") == [(0,)]


def test_an_unreadable_bronze_record_enters_after_it_is_fixed(written: Written) -> None:
    written.declare({"bronze/orders.yml": BRONZE + "checks: {sane: {sql: amount < 100}}\n"})
    cut, twice = '{"id": 2, "amount": 2', '{"id": 9, "id": 8}'
    written.land("orders/1.json", {"id": 1, "amount": 1}, cut, {"id": 3, "amount": 300}, "nonsense", twice)
    step = written.run()["bronze.orders"]
    assert (step.rows_written, step.rows_quarantined) == (1, 4)
    # A row without a fix of its text stays unreadable, for any other fix.
    step = replay(written, "bronze.orders", EVERY, set={"at": "5"})
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (4, 0, 4)
    found = written.rows(f"SELECT id FROM quarantine.bronze_orders WHERE raw IN ('{cut}', 'nonsense')")
    ids = tuple(str(row[0]) for row in found)
    step = replay(written, "bronze.orders", QuarantineFilter(ids=ids), set={"raw": "concat(raw, '}')"})
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (2, 1, 1)
    ((in_quarantine,),) = written.rows("SELECT id FROM quarantine.bronze_orders WHERE list_contains(rules, 'sane')")
    step = replay(written, "bronze.orders", EVERY, edits={str(in_quarantine): {"amount": "many"}})
    assert (step.rows_written, step.rows_quarantined) == (0, 3)
    step = replay(written, "bronze.orders", EVERY, edits={str(in_quarantine): {"amount": "30"}})
    assert (step.rows_written, step.rows_quarantined) == (1, 2)
    assert written.rows("SELECT id, amount, _source_row FROM bronze.orders ORDER BY id") == [
        (1, 1, 1),
        (2, 2, 2),
        (3, 30, 3),
    ]
    assert_row_counts(written, "bronze.orders")
    # Ingested files are still known: nothing is ingested twice.
    assert written.run() == {}
    written.land("orders/2.json", {"id": 4, "amount": 4})
    assert written.run()["bronze.orders"].rows_in == 1


CUTS = {
    "before the commit": ("_commit", "before"),
    "after the commit": ("_commit", "after"),
    "before the rows are taken out": ("_store_decisions", "before"),
    "before the end": ("_replayed", "before"),
}


@pytest.mark.parametrize("cut", chosen_only(CUTS, "before the commit", "after the commit"))
def test_an_interrupted_replay_is_completed_and_no_row_enters_twice(
    written: Written, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver("append")})
    written.land("orders/1.json", {"id": 1, "amount": 1, "at": 1}, {"id": 2, "amount": -2, "at": 2})
    written.run()
    name, when = CUTS[cut]
    real = getattr(QuarantineReplay, name)

    def killed(*arguments: object, **named: object) -> object:
        if when == "after":
            real(*arguments, **named)
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(QuarantineReplay, name, killed)
        with pytest.raises(Cut):
            written.lake().replay(
                "silver.orders", QuarantineFilter(), set={"amount": "2"}, by="ann", session=written.spark
            )
    if cut == "before the commit":
        replay(written, "silver.orders", QuarantineFilter(), set={"amount": "2"})
    else:
        written.run()
    assert written.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 1), (2, 2)]
    assert written.rows("SELECT count(*) FROM quarantine.silver_orders") == [(0,)]
    assert written.rows("SELECT decision, decided_by FROM quarantine_decisions.silver_orders") == [("replayed", "ann")]


def test_rows_in_quarantine_for_too_long_are_reported(written: Written) -> None:
    policy = "quarantine: {alert_after: 0.001s, alert_rows: 5}\n"
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver("append", columns=policy)})
    written.land("orders/1.json", {"id": 1, "amount": 1, "at": 1}, {"id": 2, "amount": -2, "at": 2})
    written.run()
    written.land("orders/2.json", {"id": 3, "amount": 1, "at": 1})
    written.run()
    (aged,) = [check for check in written.reports[-1].checks if check.check == "quarantine.age"]
    assert (aged.passed, aged.failed_rows, aged.severity) == (False, 1, "warn")
    stats = written.lake().quarantine_stats(by="age")
    assert [(each.table, each.value, each.rows) for each in stats] == [("silver.orders", "under a day", 1)]
