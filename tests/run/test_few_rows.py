"""Which batches the driver collects, and which merges it computes in one task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.run.lakes import ORDERS, Written

from lakesmith.formats.delta import spark_writes
from lakesmith.formats.delta.dv_merge import merge_few
from lakesmith.run import batch_reader
from lakesmith.spark import write
from lakesmith.spark.batch_counts import collect_few

pytestmark = pytest.mark.spark


def test_wide_rows_and_merges_into_large_tables_are_left_to_spark(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            calls[function.__name__] += 1
            return function(*given)

        return call

    monkeypatch.setattr(write, "collect_few", counted(collect_few))
    monkeypatch.setattr(spark_writes, "merge_few", counted(merge_few))
    written.declare({name: text for name, text in ORDERS.items() if not name.startswith("gold")})
    found = []
    for at in range(4):
        if at == 2:
            monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0)
        elif at == 3:
            monkeypatch.setattr(batch_reader, "_MAX_BYTES", 0)
        written.land(f"orders/{at}.json", {"id": 1, "amount": at, "day": "d1", "at": at})
        written.run()
        assert written.rows("SELECT id, amount FROM silver.orders") == [(1, at)]
        found.append((calls["collect_few"], calls["merge_few"]))
        calls.clear()
    assert found == [(1, 0), (1, 1), (1, 0), (0, 0)]
