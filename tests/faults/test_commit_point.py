"""A run rejects a store that lets two writers of one file both succeed, before it writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.lake import Lake
from lakesmith.store.local import LocalStore


def test_a_run_rejects_a_store_that_ignores_put_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakesmith.yml").write_text("name: shop\n")
    (tmp_path / "bronze").mkdir()
    (tmp_path / "bronze/orders.yml").write_text("source: {files: landing/*.json}\n")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/1.json").write_text('{"id": 1}\n')

    def put(self: LocalStore, key: str, data: bytes) -> bool:
        self.replace(key, data)
        return True

    monkeypatch.setattr(LocalStore, "put_if_absent", put)
    with pytest.raises(InfrastructureError) as caught:
        Lake.open(tmp_path).run()
    assert (caught.value.code, caught.value.exit_code) == ("no-put-if-absent", 4)
    assert caught.value.hint
    warehouse = tmp_path / ".lakesmith/warehouse"
    assert not list(warehouse.rglob("_delta_log"))
    assert not list(warehouse.rglob("batches"))
