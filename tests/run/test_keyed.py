"""Aggregates and joins that are updated by touched keys: after any sequence of runs they equal their query over all
inputs."""

from __future__ import annotations

import random

import pytest
from tests.run.lakes import Written

pytestmark = pytest.mark.spark

BRONZE = {
    "bronze/orders.yml": (
        "source: {files: landing/orders/*.json}\n"
        'columns: {id: bigint, customer: bigint, amount: "decimal(12,2)", weight: double, at: bigint, op: string}\n'
    ),
    "bronze/customers.yml": (
        "source: {files: landing/customers/*.json}\ncolumns: {id: bigint, country: string, at: bigint}\n"
    ),
}
SILVER = {
    "silver/orders.sql": (
        "/* lakesmith\nload: {merge: {key: id, order_by: at, delete: \"op = 'D'\"}}\n*/\n"
        "SELECT id, customer, amount, at, op FROM bronze.orders\n"
    ),
    "silver/customers.sql": (
        "/* lakesmith\nload: {merge: {key: id, order_by: at}}\n*/\nSELECT id, country, at FROM bronze.customers\n"
    ),
}
GOLD = {
    "added": (
        "SELECT customer, count(*) AS n, sum(amount) AS total, min(at) AS first, max(amount) AS most "
        "FROM bronze.orders WHERE customer IS NOT NULL GROUP BY customer",
        "customer",
        "sums",
    ),
    "weights": (
        "SELECT customer, sum(weight) AS weight, count(DISTINCT id) AS orders FROM bronze.orders "
        "WHERE customer IS NOT NULL GROUP BY customer",
        "customer",
        "keys",
    ),
    "by_country": (
        "SELECT coalesce(c.country, '?') AS country, count(*) AS n, sum(o.amount) AS total "
        "FROM silver.orders AS o LEFT JOIN silver.customers AS c ON o.customer = c.id "
        "GROUP BY coalesce(c.country, '?')",
        "country",
        "keys",
    ),
    "joined": (
        "SELECT o.id, o.amount, c.country FROM silver.orders AS o JOIN silver.customers AS c ON o.customer = c.id "
        "WHERE o.amount > 2",
        "id",
        "keys",
    ),
}


@pytest.mark.verify
def test_any_sequence_of_runs_gives_the_result_of_the_full_queries(written: Written) -> None:
    chance = random.Random(11)
    gold = {
        f"gold/{name}.sql": f"/* lakesmith\nload: {{merge: {{key: {key}}}}}\n*/\n{query}\n"
        for name, (query, key, _) in GOLD.items()
    }
    written.declare({**BRONZE, **SILVER, **gold})
    for batch in range(4):
        orders = [_order(chance) for _ in range(chance.randrange(1, 9))]
        written.land(f"orders/{batch}.json", *orders)
        if batch != 2:
            customers = [_customer(chance) for _ in range(chance.randrange(1, 4))]
            written.land(f"customers/{batch}.json", *customers)
        steps = written.run()
        for name, (query, _, mode) in GOLD.items():
            assert _stored(written, name) == _recomputed(written, query), (batch, name)
            assert batch == 0 or steps[f"gold.{name}"].mode == mode


def test_two_rows_of_one_key_are_rejected_before_anything_is_written(written: Written) -> None:
    written.declare(BRONZE)
    written.declare(
        {"gold/twice.sql": "/* lakesmith\nload: {merge: {key: customer}}\n*/\nSELECT customer, id FROM bronze.orders\n"}
    )
    written.land("orders/1.json", {"id": 1, "customer": 1}, {"id": 2, "customer": 2})
    written.run()
    written.land("orders/2.json", {"id": 3, "customer": 3}, {"id": 4, "customer": 3})
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert error.code == "key-twice"
    assert written.rows("SELECT count(*) FROM gold.twice") == [(2,)]


def test_an_extract_that_lost_too_many_keys_is_rejected(written: Written) -> None:
    written.declare(
        {
            "bronze/stock.yml": "source: {files: landing/stock/*.json}\ncolumns: {id: bigint, day: date, n: bigint}\n",
            "silver/stock.sql": (
                "/* lakesmith\nload: {snapshot: {key: id, taken: day, into: scd2, max_shrink: 50%}}\n*/\n"
                "SELECT id, day, n FROM bronze.stock\n"
            ),
        }
    )
    written.land("stock/1.json", *({"id": id, "day": "2026-01-01", "n": 1} for id in range(4)))
    written.run()
    written.land("stock/2.json", {"id": 1, "day": "2026-01-02", "n": 1})
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert error.code == "snapshot-shrank"
    assert "has 1 keys, the one before had 4" in error.what
    assert written.rows("SELECT count(*) FROM silver.stock WHERE is_current") == [(4,)]
    written.land("stock/3.json", {"id": 2, "day": "2026-01-02", "n": 1})
    written.run()
    assert written.rows("SELECT id, valid_to IS NULL FROM silver.stock ORDER BY id") == [
        (0, False),
        (1, True),
        (2, True),
        (3, False),
    ]


def _order(chance: random.Random) -> dict[str, object]:
    return {
        "id": chance.randrange(12),
        "customer": chance.choice([None, 1, 2, 3, 4]),
        "amount": f"{chance.randrange(5)}.50",
        "weight": chance.random(),
        "at": chance.randrange(6),
        "op": chance.choice("IUD"),
    }


def _customer(chance: random.Random) -> dict[str, object]:
    return {"id": chance.randrange(1, 5), "country": chance.choice(["de", "fr", None]), "at": chance.randrange(6)}


def _stored(written: Written, name: str) -> list[str]:
    rows = written.spark.read.format("delta").load(f"{written.folder}/.lakesmith/warehouse/gold/{name}").collect()
    return sorted(map(_shown, rows))


def _recomputed(written: Written, query: str) -> list[str]:
    for table in ("bronze.orders", "silver.orders", "silver.customers"):
        layer, name = table.split(".")
        location = f"{written.folder}/.lakesmith/warehouse/{layer}/{name}"
        written.spark.read.format("delta").load(location).createOrReplaceTempView(f"whole_{layer}_{name}")
        query = query.replace(table, f"whole_{layer}_{name}")
    return sorted(map(_shown, written.spark.sql(query).collect()))


def _shown(row: object) -> str:
    # Sums of doubles over the same rows may differ in the last digits.
    return str([round(value, 9) if isinstance(value, float) else value for value in row])  # type: ignore[attr-defined]
