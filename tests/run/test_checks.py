"""Every kind of check on real rows: rejected rows, accepted rows, and reports."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.run.lakes import Cut, Written

from lakesmith.spark.write import BatchWriter

pytestmark = pytest.mark.spark

BRONZE = "source: {files: landing/orders/*.json}\n"
PREDICATES = "def even(rows):\n    return rows.id % 2 == 0\n\n\ndef no_column(rows):\n    return 5\n"


def numbered(count: int, amount: Callable[[int], int]) -> list[dict[str, object]]:
    return [{"id": n, "amount": amount(n)} for n in range(count)]


def silver(checks: str, *, load: str = "append", columns: str = "", query: str = "SELECT * FROM bronze.orders") -> str:
    return f"/* lakesmith\nload: {load}\n{columns}checks:\n{checks}*/\n{query}\n"


ROWS: list[dict[str, object]] = [
    {"id": 1, "amount": 5, "currency": "EUR", "email": "a@b.c", "customer": 1, "at": "2026-01-01 10:00:00"},
    {"id": 2, "amount": 50, "currency": "USD", "email": "d@e.f", "customer": 2, "at": "2026-01-02 10:00:00"},
    {"id": 3, "amount": -1, "currency": "XXX", "email": "nobody", "customer": 9, "at": "2026-01-03 10:00:00"},
    {"id": 3, "amount": None, "currency": None, "email": None, "customer": None, "at": None},
]

ROW_RULES = """\
  known: {in: {column: currency, values: [EUR, USD]}}
  sane: {range: {column: amount, min: 0, max: 100}}
  form: {pattern: {column: email, matches: "^[^@]+@[^@]+$"}}
  short: {length: {column: email, min: 5, max: 5}}
  there: {required: [at]}
  once: {unique: id}
  customer_there: {references: {columns: customer, table: bronze.customers, key: number}}
  small: {sql: "amount < 40", where: "currency = 'EUR'"}
  evens: {python: predicates.even, on_fail: warn}
  dollars: {where: "currency <> 'USD'", on_fail: warn}
"""


@pytest.fixture
def checked(written: Written) -> Written:
    written.declare(
        {
            "predicates.py": PREDICATES,
            "bronze/orders.yml": BRONZE,
            "bronze/customers.yml": "source: {files: landing/customers/*.json}\n",
            "silver/orders.sql": silver(ROW_RULES),
        }
    )
    written.land("customers/1.json", {"number": 1}, {"number": 2})
    written.land("orders/1.json", *ROWS)
    return written


def test_row_rules_reject_rows_with_every_reason_and_accept_null(checked: Written) -> None:
    step = checked.run()["silver.orders"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (4, 2, 2)
    assert checked.rows("SELECT id FROM silver.orders ORDER BY id") == [(1,), (2,)]
    quarantined = checked.rows(
        "SELECT raw, rules, reasons, fields, len(rule_versions) FROM quarantine.silver_orders ORDER BY len(rules) DESC"
    )
    (worst, empty) = quarantined
    reasons = worst[2]
    assert isinstance(reasons, list)
    assert worst[1] == ["known", "sane", "form", "short", "once", "customer_there", "evens"]
    assert empty[1] == ["there", "once", "evens"]
    assert reasons[0] == "currency is not one of EUR, USD"
    assert worst[4] == 7
    assert json.loads(str(worst[3]))["email"] == "nobody"
    checks = {check.check: check for check in checked.reports[-1].checks if check.table == "silver.orders"}
    assert (checks["dollars"].failed_rows, checks["dollars"].passed) == (1, False)
    assert (checks["small"].failed_rows, checks["evens"].failed_rows) == (0, 3)


def test_a_referenced_table_is_read_at_its_pinned_version(checked: Written) -> None:
    checked.run()
    checked.land("customers/2.json", {"number": 9})
    checked.land("orders/2.json", {**ROWS[0], "id": 7, "customer": 9}, {**ROWS[0], "id": 8, "customer": 77})
    plan = checked.lake().plan()
    (waits,) = [table for table in plan.tables if str(table.table) == "silver.orders"]
    assert "bronze.customers" in map(str, waits.after)
    assert waits.shuffles == ("once", "customer_there")
    step = checked.run()["silver.orders"]
    assert (step.rows_written, step.rows_quarantined) == (1, 1)


def test_unique_within_the_table_compares_with_existing_rows(written: Written) -> None:
    unique = "  once: {unique: {columns: [email], within: table}}\n"
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver(unique)})
    written.declare({"silver/latest.sql": silver(unique, load="{merge: {key: id, order_by: at}}")})
    written.land("orders/1.json", {"id": 1, "email": "a", "at": 1}, {"id": 2, "email": None, "at": 1})
    written.run()
    again: list[dict[str, object]] = [
        {"id": 1, "email": "a", "at": 2},
        {"id": 3, "email": "a", "at": 2},
        {"id": 4, "email": "b", "at": 2},
    ]
    written.land("orders/2.json", again[0], again[2])
    steps = written.run()
    assert (steps["silver.orders"].rows_written, steps["silver.orders"].rows_quarantined) == (1, 1)
    assert (steps["silver.latest"].rows_written, steps["silver.latest"].rows_quarantined) == (2, 0)
    written.land("orders/3.json", again[1])
    steps = written.run()
    assert steps["silver.latest"].rows_quarantined == 1


def test_a_completed_batch_is_checked_against_the_earlier_table_version(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = "  once: {unique: {columns: [email], within: table}}\n"
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver(unique)})
    written.land("orders/1.json", {"id": 1, "email": "a"})
    written.run()
    written.land("orders/2.json", {"id": 2, "email": "a"}, {"id": 3, "email": "b"})

    written.run("bronze.orders")

    def killed(*_: object) -> int:
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(BatchWriter, "_quarantine", killed)
        with pytest.raises(Cut):
            written.run("silver.orders")
    written.run()
    assert written.rows("SELECT id FROM silver.orders ORDER BY id") == [(1,), (3,)]
    assert written.rows("SELECT rules FROM quarantine.silver_orders") == [(["once"],)]


BATCH_RULES = """\
  recent: {freshness: {column: at, within: 1h}, on_fail: warn}
  enough: {row_count: {min: 2, max: 3}, on_fail: warn}
  filled: {null_rate: {column: email, max: 20%}, on_fail: warn}
  kinds: {distinct: {column: currency, min: 3}, on_fail: warn}
  kinds_exactly: {distinct: {column: currency, max: 2, exact: true}, on_fail: warn}
  total: {sum: {column: amount, min: 54.5, max: 55}, on_fail: warn}
  average: {mean: {column: amount, max: 10}, on_fail: warn}
  middle: {quantile: {column: amount, at: 0.5, max: 5}, on_fail: warn}
  balanced: {reconcile: {table: bronze.orders, own: sum(amount)}, on_fail: warn}
  balanced_about: {reconcile: {table: bronze.orders, own: sum(amount), tolerance: 5%}, on_fail: warn}
  positive: {expect: "min(amount) > 0", where: "currency = 'EUR'", on_fail: warn}
  listed: {expect: "size(collect_set(currency)) = 2", on_fail: warn}
  shape: {schema: {columns: [id, amount], types: {id: bigint}}, on_fail: warn}
  other_shape: {schema: {columns: [id, amount], exact: true}, on_fail: warn}
  good: {sql: "amount >= 0"}
"""


@pytest.mark.parametrize("many", [0, 1_000_000])
def test_batch_rules_are_evaluated_on_good_rows_and_report_their_value(
    written: Written, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("lakesmith.spark.batch_counts._MANY", many)
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver(BATCH_RULES)})
    written.land("orders/1.json", *ROWS)
    written.run()
    found = {c.check: (c.passed, c.observed) for c in written.reports[-1].checks if c.table == "silver.orders"}
    assert {name for name, (passed, _) in found.items() if not passed} == {
        "recent",
        "filled",
        "kinds",
        "average",
        "balanced",
        "other_shape",
        "good",
    }
    assert found["enough"] == (True, "3")
    assert found["filled"] == (False, "33.33%")
    assert found["total"] == (True, "55")
    assert found["balanced"] == (False, "55 against 54")
    assert found["balanced_about"][0]
    assert found["positive"] == (True, "MIN(amount) = 5")


def test_history_checks_compare_with_good_batches_only(written: Written) -> None:
    remembering = """\
  steady: {row_count: {change: 50%, last: 3}}
  alike: {drift: amount}
  usual: {anomaly: {season: none}}
"""
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver(remembering)})
    for day in range(6):
        written.land(f"orders/{day}.json", *numbered(60, lambda n: n % 10))
        written.run()
    written.land("orders/many.json", *numbered(600, lambda n: n % 10))
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert "steady: expected at most 50% from the mean of earlier batches, found 600 rows" in error.what
    (written.folder / "landing/orders/many.json").unlink()
    written.land("orders/other.json", *numbered(60, lambda n: 100 + n))
    # The rejected rows are still in bronze, so the next batch has them too.
    written.declare({"silver/orders.sql": silver(remembering.replace("50%", "99%").replace("last: 3", "last: 1"))})
    written.run(ok=False)
    found = {c.check: c for c in written.reports[-1].checks if c.table == "silver.orders"}
    assert not found["usual"].passed
    assert not found["steady"].passed
    assert found["alike"].value is not None


def test_a_predicate_that_returns_no_column_is_reported_with_its_place(written: Written) -> None:
    written.declare(
        {
            "predicates.py": PREDICATES,
            "bronze/orders.yml": BRONZE,
            "silver/orders.sql": silver("  odd: {python: predicates.no_column}\n"),
        }
    )
    written.land("orders/1.json", {"id": 1})
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert (error.code, str(error.at)) == ("not-a-column", "silver/orders.sql:4")


def test_more_invalid_rows_than_tolerated_reject_the_batch(written: Written) -> None:
    few = "  sane: {range: {column: amount, min: 0}, fail_above: 25%, description: amounts are prices}\n"
    written.declare({"bronze/orders.yml": BRONZE, "silver/orders.sql": silver(few)})
    written.land("orders/1.json", *numbered(4, lambda n: n - 1))
    step = written.run()["silver.orders"]
    assert (step.rows_written, step.rows_quarantined) == (3, 1)
    written.land("orders/2.json", *numbered(4, lambda n: n - 2))
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert "sane: 50.00% of 4 rows failed, 25.00% are allowed: amounts are prices" in error.what
    assert written.version("silver.orders") == 0
