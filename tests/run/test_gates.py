"""Checks before the commit: no unaudited row is ever in a table."""

from __future__ import annotations

import pytest
from tests.run.lakes import Written

from lakesmith.errors import UsageError

pytestmark = pytest.mark.spark

GATED = {
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/orders.sql": (
        "/* lakesmith\nload: {merge: {key: id, order_by: id}}\nchecks:\n"
        "  not_too_many: {expect: count(*) < 3, on_fail: fail}\n"
        "  even: {where: id % 2 = 0, on_fail: warn}\n"
        "  no_monster: {where: id < 1000, on_fail: fail}\n"
        "  small_total: {expect: sum(id) < 10, on_fail: warn}\n"
        "*/\nSELECT id FROM bronze.orders\n"
    ),
    "gold/count.sql": "SELECT count(*) AS orders FROM silver.orders\n",
}


def test_a_failed_gate_changes_no_table_and_the_next_run_retries(
    written: Written,
) -> None:
    written.declare(GATED)
    written.land("orders/1.json", {"id": 2}, {"id": 3})
    written.run()
    checks = {check.check: check for check in written.reports[-1].checks if check.table == "silver.orders"}
    assert (checks["even"].failed_rows, checks["even"].passed) == (1, False)
    assert (checks["small_total"].passed, checks["small_total"].observed) == (True, "SUM(id) = 5")

    written.land("orders/2.json", {"id": 4}, {"id": 5}, {"id": 6})
    steps = written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert (error.code, error.exit_code, str(error.at)) == ("gate-failed", 1, "silver/orders.sql:4")
    assert "not_too_many: expected count(*) < 3, found COUNT(*) = 3" in error.what
    assert "stayed at version 0" in str(error.hint)
    assert (steps["silver.orders"].outcome, steps["gold.count"].outcome) == ("failed", "skipped")
    assert (written.version("silver.orders"), written.version("gold.count")) == (0, 0)
    assert written.rows("SELECT passed FROM system.checks WHERE \"check\" = 'not_too_many' ORDER BY checked_at") == [
        (True,),
        (False,),
    ]

    loosened = GATED["silver/orders.sql"].replace("count(*) < 3", "count(*) < 9")
    written.declare({"silver/orders.sql": loosened})
    written.run()
    assert written.rows("SELECT orders FROM gold.count") == [(5,)]


def test_one_row_that_breaks_a_failing_rule_rejects_the_batch(written: Written) -> None:
    written.declare(GATED)
    written.land("orders/1.json", {"id": 2}, {"id": 2000})
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert error.code == "gate-failed"
    assert "no_monster: 1 rows" in error.what
    assert "was not created" in str(error.hint)
    assert written.version("silver.orders") is None


def test_a_value_that_does_not_fit_its_declared_type_is_rejected_with_its_original_value(
    written: Written,
) -> None:
    written.declare(
        {
            "bronze/people.yml": "source: {files: landing/people/*.csv}\n",
            "silver/people.sql": (
                "/* lakesmith\ncolumns: {id: bigint, born: date}\n*/\nSELECT id, name, born FROM bronze.people\n"
            ),
        }
    )
    written.land("people/a.csv", "id,name,born", "1,Ann,2000-01-01", "x,Bob,2000-01-01", "3,Cid,yesterday", "4,,")
    step = written.run()["silver.people"]
    assert (step.rows_written, step.rows_quarantined) == (2, 2)
    quarantined = written.rows("SELECT raw, reasons FROM quarantine.silver_people ORDER BY raw")
    assert quarantined == [
        ('{"id":"3","name":"Cid","born":"yesterday"}', ["born is not a date"]),
        ('{"id":"x","name":"Bob","born":"2000-01-01"}', ["id is not a bigint"]),
    ]


def test_one_table_that_fails_does_not_stop_the_others(written: Written) -> None:
    written.declare(
        {
            "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
            "silver/broken.sql": "SELECT assert_true(id < 2) AS x, 1 / (id - 1) AS y FROM bronze.orders\n",
            "silver/fine.sql": "SELECT id FROM bronze.orders\n",
            "gold/after_broken.sql": "SELECT x FROM silver.broken\n",
            "gold/after_fine.sql": "SELECT id FROM silver.fine\n",
        }
    )
    written.land("orders/1.json", {"id": 1}, {"id": 3})
    steps = written.run(ok=False)
    assert {table: step.outcome for table, step in steps.items()} == {
        "bronze.orders": "ok",
        "silver.broken": "failed",
        "silver.fine": "ok",
        "gold.after_broken": "skipped",
        "gold.after_fine": "ok",
    }
    assert "waits for silver.broken" in steps["gold.after_broken"].reason
    report = written.reports[-1]
    assert report.run
    assert report.run.outcome == "failed"
    assert report.errors[0].table == "silver.broken"


def test_a_query_that_spark_rejects_is_reported_with_file_and_next_step(written: Written) -> None:
    written.declare(
        {
            "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
            "silver/a.sql": "SELECT no_such_function(id) AS x FROM bronze.orders\n",
            "silver/b.py": (
                "import lakesmith as lake\n\n\n@lake.silver()\ndef b(orders=lake.ref('bronze.orders')):\n"
                "    return orders.count()\n\n\n@lake.silver()\ndef c(orders=lake.ref('bronze.orders')):\n"
                "    raise ValueError('the moon is full')\n"
            ),
            "silver/d.sql": "/* lakesmith\ncolumns: {missing: int}\n*/\nSELECT * FROM bronze.orders\n",
        }
    )
    written.land("orders/1.json", {"id": 1})
    written.run(ok=False)
    errors = {str(error.table): error for error in written.reports[-1].errors}
    assert errors["silver.a"].code == "query-rejected"
    assert str(errors["silver.a"].at) == "silver/a.sql:1"
    assert errors["silver.b"].code == "not-a-dataframe"
    assert errors["silver.c"].code == "python-raised"
    assert "the moon is full" in errors["silver.c"].what
    assert errors["silver.d"].code == "contract-broken"
    assert "missing" in errors["silver.d"].what


HELD = {
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/orders.sql": (
        "/* lakesmith\nload: append\ncolumns:\n  email: {type: string, tags: [pii]}\nchecks:\n"
        "  no_monster: {sql: id < 1000, on_fail: fail, description: larger than any order}\n"
        "  even: {sql: id % 2 = 0}\n"
        "*/\nSELECT id, email FROM bronze.orders\n"
    ),
    "gold/count.sql": "SELECT count(*) AS orders FROM silver.orders\n",
}


def test_a_held_batch_can_be_queried_and_approved_with_a_reason(written: Written) -> None:
    written.declare(HELD)
    written.land("orders/1.json", {"id": 2, "email": "a@b"}, {"id": 2000, "email": "c@d"}, {"id": 3, "email": "e@f"})
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert "no_monster: 1 rows failed: larger than any order" in error.what
    assert 'no_monster: {"id": 2000, "email": "•••"}' in error.what
    assert "c@d" not in error.what
    run = written.reports[-1].run
    assert run
    assert f"lakesmith approve {run.run_id}" in str(error.hint)
    assert written.rows("SELECT id, _rules, _rejected FROM held.silver_orders ORDER BY id") == [
        (2, [], False),
        (3, ["even"], True),
        (2000, ["no_monster"], False),
    ]
    (held,) = written.lake().held()
    assert (held.rows, held.rejected, held.broken["no_monster"]) == (3, 1, 1)

    report = written.lake().approve(run.run_id, reason="it is real", by="ann", session=written.spark)
    assert not report.errors
    (step,) = report.steps
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (3, 2, 1)
    assert written.rows("SELECT id FROM silver.orders ORDER BY id") == [(2,), (2000,)]
    assert written.rows("SELECT action, decided_by, reason FROM system.audit") == [("approve", "ann", "it is real")]
    assert written.lake().held() == ()
    with pytest.raises(UsageError, match="no held batch belongs to run"):
        written.lake().approve(run.run_id, reason="again", session=written.spark)
    # The next batch continues from there, and is checked again.
    written.land("orders/2.json", {"id": 4, "email": "g@h"})
    written.run()
    assert written.rows("SELECT orders FROM gold.count") == [(3,)]


def test_a_held_batch_cannot_be_approved_after_a_later_commit(written: Written) -> None:
    written.declare(HELD)
    written.land("orders/1.json", {"id": 2000, "email": "a@b"})
    written.run(ok=False)
    run = written.reports[-1].run
    assert run
    written.declare(
        {"silver/orders.sql": HELD["silver/orders.sql"].replace("id % 2 = 0", "id % 2 < 2").replace("1000", "9000")}
    )
    report = written.lake().approve(run.run_id, reason="it is real", session=written.spark)
    (error,) = report.errors
    assert error.code == "held-outdated"
    written.run()
    assert written.rows("SELECT count(*) FROM silver.orders") == [(1,)]
    assert written.lake().held() == ()
