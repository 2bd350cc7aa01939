"""Files of real remote stores into bronze, with the guarantees of local files."""

from __future__ import annotations

import json

import pytest
from tests.run.lakes import Written
from tests.servers.http import WebServer
from tests.servers.proxy import Proxy
from tests.store.stores import REMOTE, Place, make_place, put

from lakesmith.store import failures

pytestmark = [pytest.mark.spark, pytest.mark.servers]


def declare(written: Written, places: dict[str, Place], more: str = "") -> None:
    """One bronze table for each store; the lake's storage block has its settings."""
    storage = {url: settings for place in places.values() for url, settings in place.settings.items()}
    written.declare(
        {"lakesmith.yml": json.dumps({"name": "shop", "environments": {"dev": {"storage": storage}}})}
        | {f"bronze/{kind}.yml": f'source: {{files: "{place.url}/*.json"{more}}}\n' for kind, place in places.items()}
    )


def test_files_of_every_store_are_ingested_once_and_archived(
    written: Written, request: pytest.FixtureRequest, http: WebServer
) -> None:
    places = {kind: make_place(kind, request) for kind in REMOTE}
    declare(written, places, ", archive: done")
    for place in places.values():
        put(place.open(), "a.json", b'{"id": 1}\n{broken\n')
    (http.folder / "a.json").write_bytes(b'{"id": 1}\n{broken\n')
    written.declare({"bronze/web.yml": f'source: {{files: "http://127.0.0.1:{http.port}/*.json"}}\n'})
    steps = written.run()
    assert {table: (step.rows_written, step.rows_quarantined) for table, step in steps.items()} == {
        f"bronze.{kind}": (1, 1) for kind in (*REMOTE, "web")
    }
    assert written.run() == {}
    for kind, place in places.items():
        (location,) = written.rows(f"SELECT _source_file FROM bronze.{kind}")
        assert str(location[0]).endswith("/a.json")
        assert list(place.open().find("*.json")) == []


def test_a_store_that_sometimes_answers_503_is_retried(
    written: Written, request: pytest.FixtureRequest, proxy_to: object
) -> None:
    place = make_place("s3", request)
    put(place.open(), "a.json", b'{"id": 1}\n')
    proxy: Proxy = proxy_to(place.port)  # type: ignore[operator]
    declare(written, {"s3": place.through(proxy.port)})
    proxy.fail("503", "503")
    assert written.run()["bronze.s3"].rows_written == 1
    assert proxy.faulted == 2


def test_an_unreachable_store_is_a_problem_of_its_table_only(
    written: Written, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "WAITS", (0.01,) * len(failures.WAITS))
    place = make_place("s3", request)
    declare(written, {"s3": place.through(1)})
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json}\n"})
    written.land("orders/a.json", {"id": 1})
    steps = written.run(ok=False)
    assert steps["bronze.orders"].rows_written == 1
    (error,) = written.reports[-1].errors
    assert (error.table, error.code, error.exit_code) == ("bronze.s3", "storage-unreachable", 4)
