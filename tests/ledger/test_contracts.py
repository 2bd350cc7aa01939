from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesmith.formats import Delta
from lakesmith.ledger.contracts import RecordedContracts
from lakesmith.ledger.tables import Ledger
from lakesmith.records import ContractRecord
from lakesmith.store import Warehouse


def record(version: str) -> ContractRecord:
    return ContractRecord(
        table="silver.orders",
        version=version,
        hash="h",
        definition='{"columns": [{"name": "a"}], "terms": {}}',
        compatibility="forward",
        change="first version",
        acknowledged=False,
        run_id="r1",
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("cached", ["", "not JSON", '{"state": 1}', '{"state": ["?", 0], "records": [{"x": 1}]}'])
def test_a_cache_written_by_another_version_is_read_again(cached: str, tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "w"))
    ledger = Ledger(warehouse)
    ledger._append("contracts", [record("1.0.0"), record("1.1.0")])
    facts = Delta().facts(warehouse.system("contracts"), "")
    assert facts
    file = tmp_path / "kept.json"
    file.write_text(cached.replace("?", facts.table_id))
    for _ in range(2):
        (versions,) = RecordedContracts(ledger, file).read(facts).values()
        assert [str(each.version) for each in versions] == ["1.1.0", "1.0.0"]


def test_nothing_is_recorded_before_the_first_run(tmp_path: Path) -> None:
    assert RecordedContracts(Ledger(Warehouse(str(tmp_path))), tmp_path / "kept.json").read(None) == {}
