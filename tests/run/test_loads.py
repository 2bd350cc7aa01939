"""How rows enter silver and gold, and that any sequence of runs equals one full rebuild."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.run.lakes import Written

pytestmark = pytest.mark.spark


def order(id: int | None, amount: object = 1, day: str | None = "2026-01-01", at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": day, "at": at}


def test_a_merge_keeps_the_latest_row_of_each_key_and_counts_the_rest(orders: Written) -> None:
    orders.land("orders/1.json", order(1, 10, at=5), order(1, 10, at=5), order(1, 9, at=4), order(2, 20, at=1))
    first = orders.run()["silver.orders"]
    assert (first.mode, first.rows_in, first.rows_written, first.rows_deduplicated) == ("full", 4, 2, 2)
    orders.land("orders/2.json", order(1, 7, at=3), order(2, 21, at=2), order(3, 30), order(None, 1), order(4, -1))
    second = orders.run()["silver.orders"]
    assert (second.mode, second.rows_in, second.rows_written) == ("changes", 5, 2)
    assert (second.rows_quarantined, second.rows_deduplicated) == (2, 1)
    assert orders.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (2, 21), (3, 30)]
    quarantined = orders.rows("SELECT rules, reasons FROM quarantine.silver_orders ORDER BY rules")
    assert quarantined == [
        (["amount.check"], ["not amount >= 0"]),
        (["id.required"], ["id is NULL, but it is the table's key"]),
    ]


def test_a_tie_has_the_same_result_in_any_order(orders: Written) -> None:
    arrivals = list(itertools.permutations((3, 1, 2)))
    for cut in range(3):
        rows = [order(key, arrival[cut], at=1) for key, arrival in enumerate(arrivals)]
        orders.land(f"orders/{cut}.json", *rows)
        orders.run("bronze.orders", "silver.orders")
    by_arrival = orders.rows("SELECT id, amount FROM silver.orders ORDER BY id")
    assert {amount for _, amount in by_arrival} == {3}, "of rows of the same time the greatest counts"
    orders.run("silver.orders", full_refresh=True)
    assert orders.rows("SELECT id, amount FROM silver.orders ORDER BY id") == by_arrival


def test_only_the_touched_partitions_are_recomputed(orders: Written) -> None:
    orders.land("orders/1.json", order(1, 1, "d1"), order(2, 2, "d2"), order(3, 3, "d3"))
    orders.run()
    orders.land("orders/2.json", order(4, 40, "d2"), order(3, 3, "d1", at=2))
    step = orders.run()["gold.sales"]
    assert (step.mode, step.rows_in) == ("partitions", 2)
    assert orders.rows("SELECT day, orders, amount FROM gold.sales ORDER BY day") == [
        ("d1", 2, 4),
        ("d2", 2, 42),
    ]
    orders.land("orders/3.json", order(5, 5, "d4"))
    orders.run()
    untouched = orders.rows("SELECT count(*) FROM gold.sales WHERE day IN ('d1', 'd2', 'd4')")
    assert untouched == [(3,)]
    log = orders.folder / ".lakesmith" / "warehouse" / "gold" / "sales" / "_delta_log"
    assert '"engineInfo":"Lakesmith"' in max(log.glob("*.json")).read_text(), "left to Delta's writer, which is slower"


def test_null_and_empty_partition_values_share_a_partition(orders: Written) -> None:
    held = "SELECT coalesce(day, '') AS day, orders, amount FROM gold.sales ORDER BY day, amount"
    orders.land("orders/1.json", order(1, 1, ""), order(2, 2, None), order(3, 3, "d"))
    orders.run()
    for number, day, expected in ((4, None, [(1, 1), (2, 6)]), (6, "", [(2, 6), (2, 7)])):
        orders.land(f"orders/{number}.json", order(number, number, day))
        step = orders.run()["gold.sales"]
        assert (step.mode, step.rows_in) == ("partitions", 2)
        assert orders.rows(held) == [*(("", *sums) for sums in expected), ("d", 1, 3)]


def test_a_partition_value_with_another_format_than_its_input_is_found(orders: Written) -> None:
    orders.declare(
        {
            "silver/orders.sql": "/* lakesmith\nload: {merge: {key: id, order_by: at}}\n*/\n"
            "SELECT id, amount, day, at, CAST(substring(day, 2) AS int) AS number, substring(day, 2) AS text "
            "FROM bronze.orders\n",
            "gold/python.py": (
                "import lakesmith as lake\n\n\n"
                "@lake.gold(load=lake.replace_partitions('number', same_as='silver.orders.number'))\n"
                "def formatted(orders=lake.ref('silver.orders')):\n"
                "    return orders.selectExpr(\"lpad(number, 2, '0') AS number\", 'amount')\n\n\n"
                "@lake.gold(load=lake.replace_partitions('number', same_as='silver.orders.text'))\n"
                "def numbered(orders=lake.ref('silver.orders')):\n"
                "    return orders.select('number', 'amount')\n"
            ),
        }
    )
    orders.land("orders/1.json", order(1, 1, "d1"), order(2, 2, "d2"))
    orders.run()
    orders.land("orders/2.json", order(1, 1, "d2", at=2), order(3, 3, None))
    steps = orders.run()
    assert (steps["gold.formatted"].mode, steps["gold.numbered"].mode) == ("partitions", "partitions")
    assert orders.rows("SELECT number, amount FROM gold.formatted ORDER BY amount") == [("02", 1), ("02", 2), (None, 3)]
    assert orders.rows("SELECT number, amount FROM gold.numbered ORDER BY amount") == [(2, 1), (2, 2), (None, 3)]


def test_an_append_adds_each_new_row_once(written: Written) -> None:
    written.declare(
        {
            "bronze/events.yml": "source: {files: landing/events/*.json}\n",
            "silver/events.sql": "/* lakesmith\nload: append\n*/\nSELECT id FROM bronze.events WHERE id % 2 = 0\n",
            "silver/more.sql": "/* lakesmith\nload: append\n*/\nSELECT id + 100 AS id FROM silver.events\n",
        }
    )
    for number in range(3):
        rows: list[dict[str, object]] = [{"id": number * 4 + each} for each in range(4)]
        written.land(f"events/{number}.json", *rows)
        written.run()
    assert sorted(written.rows("SELECT id FROM silver.events")) == [(n,) for n in range(0, 12, 2)]
    assert sorted(written.rows("SELECT id FROM silver.more")) == [(n + 100,) for n in range(0, 12, 2)]
    step = written.run("silver.more", full_refresh=True)["silver.more"]
    assert (step.mode, step.rows_written) == ("full", 6)


def test_a_batch_without_result_rows_only_moves_the_position(orders: Written) -> None:
    orders.declare(
        {
            "silver/orders.sql": "/* lakesmith\nload: {merge: {key: id, order_by: at}}\n*/\n"
            "SELECT id, amount, day, at FROM bronze.orders WHERE amount > 100\n"
        }
    )
    orders.land("orders/1.json", order(1, 500))
    orders.run()
    orders.land("orders/2.json", order(2, 1))
    step = orders.run()["silver.orders"]
    assert (step.rows_in, step.rows_written) == (0, 0)
    assert orders.run() == {}
    assert orders.rows("SELECT id FROM silver.orders") == [(1,)]


def test_a_table_without_rows_is_created_and_stays_correct(orders: Written) -> None:
    orders.declare(
        {
            "silver/orders.sql": "/* lakesmith\nload: {merge: {key: id, order_by: at}}\n*/\n"
            "SELECT id, amount, day, at FROM bronze.orders WHERE amount > 100\n"
        }
    )
    orders.land("orders/1.json", order(1, 5))
    orders.run()
    assert orders.rows("SELECT count(*) FROM gold.sales") == [(0,)]
    orders.land("orders/2.json", order(2, 500))
    orders.run()
    assert orders.rows("SELECT orders FROM gold.sales") == [(1,)]


def test_a_changed_query_rebuilds_the_table_and_its_downstream_tables(orders: Written) -> None:
    orders.land("orders/1.json", order(1, 1), order(2, 2))
    orders.run()
    orders.declare(
        {
            "silver/orders.sql": '/* lakesmith\nload: {merge: {key: id, order_by: at}}\ncontract: {version: "2"}\n*/\n'
            "SELECT id, amount * 10 AS amount, day, at, 'x' AS extra FROM bronze.orders\n"
        }
    )
    steps = orders.run()
    assert steps["silver.orders"].mode == "full"
    assert "query changed" in steps["silver.orders"].reason
    assert orders.rows("SELECT id, amount, extra FROM silver.orders ORDER BY id") == [
        (1, 10, "x"),
        (2, 20, "x"),
    ]
    assert orders.rows("SELECT amount FROM gold.sales") == [(30,)]


def test_rejected_rows_of_a_recomputed_table_are_in_quarantine_once(written: Written) -> None:
    written.declare(
        {
            "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
            "gold/small.sql": (
                "/* lakesmith\nload: replace\nchecks: {small: {where: amount < 100}}\n*/\n"
                "SELECT id, sum(amount) AS amount FROM bronze.orders GROUP BY id\n"
            ),
            "gold/days.sql": (
                "/* lakesmith\nload: {replace_partitions: day}\nchecks: {small: {where: amount < 100}}\n*/\n"
                "SELECT day, id, sum(amount) AS amount FROM bronze.orders GROUP BY day, id\n"
            ),
        }
    )
    written.land("orders/1.json", order(1, 500, "d1"), order(2, 1, "d1"), order(3, 700, "d2"))
    written.run()
    written.land("orders/2.json", order(4, 600, "d1"), order(3, -650, "d3"))
    written.run()
    assert sorted(written.rows("SELECT raw FROM quarantine.gold_small")) == [
        ('{"id":1,"amount":500}',),
        ('{"id":4,"amount":600}',),
    ]
    quarantined = written.rows("SELECT partition, raw FROM quarantine.gold_days ORDER BY ALL")
    assert [row[0] for row in quarantined] == ["d1", "d1", "d2"]
    written.land("orders/3.json", order(1, -450, "d1"), order(4, -550, "d1"))
    written.run()
    assert written.rows("SELECT count(*) FROM quarantine.gold_small") == [(0,)]
    assert written.rows("SELECT partition FROM quarantine.gold_days") == [("d2",)]


def test_a_load_changed_to_replace_partitions_keeps_its_quarantine_correct(orders: Written) -> None:
    orders.land("orders/1.json", order(1, 1, "d1"), order(2, -2, "d2"))
    orders.run()
    orders.declare(
        {
            "silver/orders.sql": '/* lakesmith\nload: {replace_partitions: day}\ncontract: {version: "2"}\n'
            "columns: {amount: {check: amount >= 0}}\n*/\nSELECT id, amount, day, at FROM bronze.orders\n"
        }
    )
    orders.run()
    orders.land("orders/2.json", order(3, -3, "d1"))
    orders.run()
    quarantined = orders.rows("SELECT partition, raw LIKE '%-2%' FROM quarantine.silver_orders ORDER BY partition")
    assert quarantined == [("d1", False), ("d2", True)]


def test_any_sequence_of_runs_equals_one_full_rebuild(orders: Written) -> None:
    orders.declare(
        {
            "gold/by_amount.sql": "/* lakesmith\nload: replace\n*/\n"
            "SELECT amount, count(*) AS orders FROM silver.orders GROUP BY amount\n",
            "gold/log.sql": "/* lakesmith\nload: append\n*/\nSELECT id, at FROM bronze.orders WHERE id > 2\n",
        }
    )
    numbers = random.Random(7)
    for cut in range(4):
        rows = [
            order(
                numbers.randrange(6),
                numbers.randrange(-1, 5),
                f"d{numbers.randrange(4)}",
                numbers.randrange(9),
            )
            for _ in range(numbers.randrange(1, 9))
        ]
        orders.land(f"orders/{cut}.json", *rows, *rows[:2])
        orders.run()

    tables = ("silver.orders", "gold.sales", "gold.by_amount", "gold.log", "quarantine.silver_orders")
    columns = {"quarantine.silver_orders": "raw, rules"}

    def content() -> dict[str, list[tuple[object, ...]]]:
        return {
            table: sorted(orders.rows(f"SELECT {columns.get(table, '*')} FROM {table}"), key=str) for table in tables
        }

    in_cuts = content()
    orders.run(full_refresh=True)
    assert content() == in_cuts


def test_changes_accept_an_operation_that_is_never_null(written: Written) -> None:
    columns = "{id: bigint, name: string, amount: int, at: bigint, deleted: boolean}"
    query = "SELECT id, name, amount, at, CASE WHEN deleted THEN 'D' ELSE 'U' END AS op, map('k', 1) AS sizes"
    load = "changes: {key: id, order_by: at, op: op"
    written.declare(
        {
            "bronze/rows.yml": f"source: {{files: landing/rows/*.json}}\ncolumns: {columns}\n",
            "silver/plain.sql": f"/* lakesmith\nload: {{{load}}}}}\n*/\n{query} FROM bronze.rows\n",
            "silver/ledger.sql": f"/* lakesmith\nload: {{{load}, amounts: amount}}}}\n*/\n{query} FROM bronze.rows\n",
        }
    )
    first: list[dict[str, object]] = [{"id": id, "name": "a", "amount": 1, "at": 1} for id in (1, 2, 3)]
    written.land("rows/1.json", *first)
    written.run()
    written.land("rows/2.json", {"id": 1, "name": "b", "amount": 2, "at": 2}, {"id": 2, "at": 2, "deleted": True})
    assert written.run()["silver.plain"].mode == "changes"
    for table in ("plain", "ledger"):
        held = written.rows(f"SELECT id, name, amount, op FROM silver.{table} ORDER BY id")
        assert held == [(1, "b", 2, "U"), (3, "a", 1, "U")]


def test_a_python_table_reads_whole_tables_and_the_plan_says_why(orders: Written) -> None:
    orders.declare(
        {
            "gold/python.py": (
                "import lakesmith as lake\nfrom pyspark.sql import functions as F\n\n\n"
                "@lake.gold(load=lake.replace_partitions('day', same_as='silver.orders.day'))\n"
                "def sums(orders=lake.ref('silver.orders')):\n"
                "    return orders.groupBy('day').agg(F.sum('amount').alias('amount'))\n\n\n"
                "@lake.gold(load=lake.replace_partitions('day'))\n"
                "def whole(orders=lake.ref('silver.orders')):\n"
                "    return orders.groupBy('day').agg(F.sum('amount').alias('amount'))\n"
            )
        }
    )
    orders.land("orders/1.json", order(1, 1, "d1"), order(2, 2, "d2"))
    orders.run()
    orders.land("orders/2.json", order(3, 3, "d2"))
    plan = {str(table.table): table for table in orders.lake().plan().tables}
    assert "same_as" in str(plan["gold.whole"].steps[0].cost_reason)  # type: ignore[union-attr]
    steps = orders.run()
    assert (steps["gold.sums"].mode, steps["gold.whole"].mode) == ("partitions", "full")
    expected = [("d1", 1), ("d2", 5)]
    assert orders.rows("SELECT day, amount FROM gold.sums ORDER BY day") == expected
    assert orders.rows("SELECT day, amount FROM gold.whole ORDER BY day") == expected


def test_a_wrong_promise_about_partitions_is_detected_before_the_commit(orders: Written) -> None:
    orders.declare(
        {
            "gold/python.py": (
                "import lakesmith as lake\n\n\n"
                "@lake.gold(load=lake.replace_partitions('day', same_as='silver.orders.day'))\n"
                "def moved(orders=lake.ref('silver.orders')):\n"
                "    return orders.selectExpr(\"concat(day, 'x') AS day\", 'amount')\n"
            )
        }
    )
    orders.land("orders/1.json", order(1, 1, "d1"))
    orders.run()
    orders.land("orders/2.json", order(2, 2, "d2"))
    orders.run(ok=False)
    (error,) = orders.reports[-1].errors
    assert error.code == "partition-escaped"
    assert orders.version("gold.moved") == 0
