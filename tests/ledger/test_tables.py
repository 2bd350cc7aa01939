"""System tables are verified like the tables of the lake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.ledger.tables import Ledger
from lakesmith.records import ReleaseRecord
from lakesmith.store import Warehouse


def record(number: int) -> ReleaseRecord:
    moment = datetime(2026, 1, number, tzinfo=UTC)
    return ReleaseRecord(release=f"r{number}", table="silver.orders", version=1, table_id="t", released_at=moment)


def test_a_flipped_bit_in_the_log_of_a_system_table_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    ledger = Ledger(warehouse)
    for number in (1, 2):
        ledger._append("releases", [record(number)])
    assert [each.release for each in ledger.releases(9)] == ["r2", "r1"]
    for file in sorted(Path(warehouse.system("releases").url, "_delta_log").glob("*.json")):
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"2026-01-0", b"2026-01-1"))
        assert file.read_bytes() != whole
        with pytest.raises(InfrastructureError) as caught:
            ledger.releases(9)
        assert caught.value.code == "ledger-unreadable"
        assert str(file) in caught.value.what
        assert "restore the file" in (caught.value.hint or "")
        with pytest.raises(InfrastructureError) as caught:
            ledger._append("releases", [record(3)])
        assert caught.value.code == "ledger-write-failed"
        assert str(file) in caught.value.what
        file.write_bytes(whole)
    assert [each.release for each in ledger.releases(9)] == ["r2", "r1"]
