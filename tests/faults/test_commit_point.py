"""A run rejects a store that lets two writers of one file both succeed, before it writes anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.servers.http_proxy import HttpProxy
from tests.servers.s3 import S3Server

from lakesmith.errors import InfrastructureError
from lakesmith.lake import Lake
from lakesmith.lake.running import refuse_unconditional_store
from lakesmith.store.local import LocalStore


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lakesmith.yml").write_text("name: shop\n")
    (tmp_path / "bronze").mkdir()
    (tmp_path / "bronze/orders.yml").write_text("source: {files: landing/*.json}\n")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/1.json").write_text('{"id": 1}\n')
    return tmp_path


@pytest.mark.servers
def test_a_run_rejects_an_object_store_that_ignores_put_conditions(
    lake: Path, s3: S3Server, http_proxy_to: Callable[..., HttpProxy]
) -> None:
    bucket, proxy = s3.bucket(), http_proxy_to(s3.port)
    proxy.fail("unconditional", "PUT", times=-1)
    url = f"s3://{bucket}"
    environment = {"warehouse": f"{url}/warehouse", "storage": {url: s3.settings(proxy.port)}}
    (lake / "lakesmith.yml").write_text(yaml.safe_dump({"name": "shop", "environments": {"dev": environment}}))
    with pytest.raises(InfrastructureError) as caught:
        Lake.open(lake).run()
    assert (caught.value.code, caught.value.exit_code) == ("no-put-if-absent", 4)
    assert "If-None-Match" in str(caught.value.hint)
    found = [path.relative_to(s3.folder / bucket).parts[:3] for path in (s3.folder / bucket).rglob("*")]
    assert {parts for parts in found if len(parts) == 3} == {("warehouse", "_lakesmith", "probe")}


@pytest.mark.servers
def test_a_process_probes_an_object_store_once(
    lake: Path, s3: S3Server, http_proxy_to: Callable[..., HttpProxy]
) -> None:
    bucket, proxy = s3.bucket(), http_proxy_to(s3.port)
    url = f"s3://{bucket}"
    environment = {"warehouse": f"{url}/warehouse", "storage": {url: s3.settings(proxy.port)}}
    (lake / "lakesmith.yml").write_text(yaml.safe_dump({"name": "shop", "environments": {"dev": environment}}))
    for _ in range(2):
        refuse_unconditional_store(Lake.open(lake)._lake)
    assert sum(request.startswith("PUT") for request in proxy.seen) == 5


def test_a_run_rejects_a_store_that_ignores_put_conditions(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: LocalStore, key: str, data: bytes) -> bool:
        self.replace(key, data)
        return True

    monkeypatch.setattr(LocalStore, "put_if_absent", put)
    with pytest.raises(InfrastructureError) as caught:
        Lake.open(lake).run()
    assert (caught.value.code, caught.value.exit_code) == ("no-put-if-absent", 4)
    assert caught.value.hint
    warehouse = lake / ".lakesmith/warehouse"
    assert not list(warehouse.rglob("_delta_log"))
    assert not list(warehouse.rglob("batches"))
