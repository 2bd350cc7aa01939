"""A contract from its first run to its second major version."""

from __future__ import annotations

import pytest
from tests.run.lakes import Written

from lakesmith.errors import DeclarationError

pytestmark = pytest.mark.spark

BRONZE = {"bronze/orders.yml": "source: {files: landing/orders/*.json}\n"}
GOLD = {"gold/sales.sql": "/* lakesmith\nload: replace\n*/\nSELECT sum(amount) AS total FROM silver.orders\n"}


def silver(columns: str, query: str, contract: str = "") -> dict[str, str]:
    header = f"load: {{merge: {{key: id, order_by: at}}}}\n{contract}columns: {columns}\n"
    return {"silver/orders.sql": f"/* lakesmith\n{header}*/\nSELECT {query}, at FROM bronze.orders\n"}


def versions(lake: Written) -> list[tuple[object, ...]]:
    return lake.rows('SELECT "table", version, change, until FROM system.contracts ORDER BY recorded_at, "table"')


def test_a_breaking_change_is_stopped_then_acknowledged_and_the_old_version_stays_readable(written: Written) -> None:
    first = silver("{id: bigint, amount: int}", "id, amount")
    written.declare({**BRONZE, **first, **GOLD})
    written.land("orders/1.json", {"id": 1, "amount": 5, "at": 1})
    written.run()
    assert versions(written) == [("silver.orders", "1.0.0", "first version", None)]

    written.land("orders/2.json", {"id": 2, "amount": 7, "at": 1})
    written.run()
    assert len(versions(written)) == 1

    cents = silver("{id: bigint, cents: bigint}", "id, amount * 100 AS cents")
    gold = {"gold/sales.sql": GOLD["gold/sales.sql"].replace("amount", "cents")}
    written.declare({**cents, **gold})
    with pytest.raises(DeclarationError) as stopped:
        written.run()
    assert (stopped.value.code, stopped.value.table) == ("breaking-change", "silver.orders")
    assert written.rows("SELECT sum(amount) FROM silver.orders") == [(12,)]

    previous = 'previous: {"1": {until: "2099-06-30", columns: {amount: cents div 100}}}'
    written.declare(
        silver("{id: bigint, cents: bigint}", "id, amount * 100 AS cents", f'contract: {{version: "2", {previous}}}\n')
    )
    written.run()
    assert versions(written)[1:] == [("silver.orders", "2.0.0", "amount was removed; cents is new", "2099-06-30")]
    assert written.rows("FROM silver.orders_v1 ORDER BY id") == [(1, 5), (2, 7)]
    assert written.rows("SELECT typeof(amount) FROM silver.orders_v1 LIMIT 1") == [("INTEGER",)]
    assert written.rows("SELECT total FROM gold.sales") == [(1200,)]
    assert [check.state for check in written.lake().contract_check()] == ["agrees"]


def test_a_failed_step_keeps_the_recorded_contract_version(written: Written) -> None:
    written.declare({**BRONZE, **silver("{id: bigint}", "id")})
    written.land("orders/1.json", {"id": 1, "amount": 1, "at": 1})
    written.run()
    written.declare(silver("{id: bigint, later: int}", "id, assert_true(id < 0) AS later"))
    written.run(ok=False)
    assert [row[1] for row in versions(written)] == ["1.0.0"]
    written.declare(silver("{id: bigint, later: int}", "id, amount AS later"))
    written.run()
    assert [row[1:3] for row in versions(written)] == [("1.0.0", "first version"), ("1.1.0", "later is new")]
