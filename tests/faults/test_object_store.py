"""Pinned batches and leases in an object store behind a failing network: each is written exactly once."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.marks import chosen_only
from tests.run.lakes import Written
from tests.servers.http_proxy import Failure, HttpProxy
from tests.store.stores import Place, make_place, put

from lakesmith import failpoints
from lakesmith.declare import TableName
from lakesmith.errors import InfrastructureError
from lakesmith.ledger.batch import Batch, CompletedBatch
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.content import FullBuild
from lakesmith.ledger.lease import Leases
from lakesmith.ports import Store, names_in_folder
from lakesmith.store import failures, object_clients

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.servers

NAME = TableName("gold", "sales")
FOLDER = f"_lakesmith/batches/{NAME}"
LEASES = f"_lakesmith/leases/{NAME}"
BATCH = Batch(sequence=7, attempt=0, parent=6, run_id="one", pinned_at=1, definition="d", content=FullBuild())
DONE = CompletedBatch(
    sequence=7, attempt=1, version=3, run_id="one", rows_in=1, rows_written=1, rows_quarantined=0, rows_deduplicated=0
)
LARGE = bytes(range(256)) * 70_000


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry as often as usual, without waiting."""
    monkeypatch.setattr(failures, "WAITS", (0.01,) * 5)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return make_place("s3", request)


@pytest.fixture
def proxy(place: Place, http_proxy_to: Callable[..., HttpProxy]) -> HttpProxy:
    return http_proxy_to(place.port)


@pytest.fixture
def storage(place: Place, proxy: HttpProxy) -> Store:
    """The store behind the proxy."""
    return place.through(proxy.port).open()


@pytest.mark.parametrize("failure", ["503", "reset", "drop reply"])
def test_a_batch_is_pinned_and_finished_once_over_a_failing_network(
    place: Place, proxy: HttpProxy, storage: Store, failure: Failure
) -> None:
    batches = Batches(storage, NAME)
    proxy.fail(failure, "PUT", times=4)
    pinned = batches.pin(BATCH)
    proxy.fail(failure, "PUT", times=4)
    batches.finish(DONE)
    proxy.fail(failure, "GET", times=4)
    assert pinned == batches.pinned(7, 1) == replace(BATCH, attempt=1)
    assert batches.done(7) == DONE
    assert names_in_folder(place.open(), FOLDER) == ["00000007.01.json", "00000007.done.json"]
    assert proxy.failed[0].startswith("PUT")
    assert len(proxy.failed) >= 6


def test_concurrent_pins_of_a_batch_with_lost_replies_each_find_their_own_attempt(
    place: Place, proxy: HttpProxy, storage: Store
) -> None:
    proxy.fail("drop reply", "PUT", times=5)
    with ThreadPoolExecutor(4) as pool:
        runs = [replace(BATCH, run_id=str(number)) for number in range(4)]
        pinned = list(pool.map(Batches(storage, NAME).pin, runs))
    assert sorted(each.attempt for each in pinned) == [1, 2, 3, 4]
    assert all(Batches(place.open(), NAME).pinned(7, each.attempt) == each for each in pinned)


@pytest.mark.parametrize("failure", ["503", "reset", "drop reply"])
def test_a_lease_is_taken_once_and_released_over_a_failing_network(
    place: Place, proxy: HttpProxy, storage: Store, failure: Failure
) -> None:
    proxy.fail(failure, "PUT", times=4)
    with Leases(storage, "run one").hold(NAME, "run"):
        with pytest.raises(InfrastructureError, match="run one"), Leases(place.open(), "run two").hold(NAME, "run"):
            pass
        proxy.fail(failure, "PUT", times=4)
    assert len(proxy.failed) == 8
    with Leases(place.open(), "run two").hold(NAME, "run"):
        pass
    assert names_in_folder(place.open(), LEASES) == ["00000002.json"]


def test_a_lease_that_cannot_be_released_expires(place: Place, proxy: HttpProxy, storage: Store) -> None:
    with Leases(storage, "run one").hold(NAME, "run"):
        proxy.fail("503", times=-1)
    (lease,) = names_in_folder(place.open(), LEASES)
    lease_record = json.loads(place.open().read(f"{LEASES}/{lease}") or b"")
    assert lease_record["released"] is False
    with Leases(place.open(), "run two", clock=lambda: lease_record["expires_at"]).hold(NAME, "run"):
        pass


def test_a_large_upload_succeeds_when_its_last_reply_is_lost(place: Place, proxy: HttpProxy, storage: Store) -> None:
    proxy.fail("drop reply", "POST", "uploadId=")
    assert storage.put_file("large.bin", io.BytesIO(LARGE), size=len(LARGE), on_progress=lambda _: None)
    assert len(proxy.failed) == 1
    assert not storage.put_file("large.bin", io.BytesIO(LARGE), size=len(LARGE), on_progress=lambda _: None)
    assert place.open().open("large.bin").read() == LARGE


def test_azure_recognizes_its_own_file_after_a_lost_reply(
    request: pytest.FixtureRequest, http_proxy_to: Callable[..., HttpProxy]
) -> None:
    place = make_place("azure", request)
    proxy = http_proxy_to(place.port)
    storage = place.through(proxy.port).open()
    proxy.fail("drop reply", "PUT", "a.json")
    assert storage.put_if_absent("a.json", b"first")
    assert len(proxy.failed) == 1
    assert not storage.put_if_absent("a.json", b"first")


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_a_store_that_never_answers_is_reported_as_unreachable(
    place: Place, proxy: HttpProxy, storage: Store, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    assert object_clients.SILENT_SECONDS <= 60, "six attempts may take at most a minute each"
    monkeypatch.setattr(object_clients, "SILENT_SECONDS", 0.3)
    proxy.fail("hang", method, times=-1)
    batches = Batches(storage, NAME)
    with pytest.raises(InfrastructureError) as caught:
        batches.pin(BATCH) if method == "PUT" else batches.done(7)
    assert (caught.value.code, caught.value.exit_code) == ("storage-unreachable", 4)
    assert "run again" in str(caught.value.hint)
    assert len(proxy.failed) == 6
    assert names_in_folder(place.open(), FOLDER) == []
    proxy.heal()
    assert batches.pin(BATCH).attempt == 1


def test_a_slow_reply_is_awaited_as_long_as_bytes_arrive(
    place: Place, proxy: HttpProxy, storage: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place.open(), "large.bin", LARGE)
    monkeypatch.setattr(object_clients, "SILENT_SECONDS", 0.4)
    proxy.fail("slow", "GET", times=3)
    with storage.open("large.bin") as file:
        assert file.read() == LARGE
    assert len(proxy.failed) == 3


def test_the_probe_rejects_a_store_that_ignores_put_conditions(proxy: HttpProxy, storage: Store) -> None:
    assert storage.probe() is None
    proxy.fail("unconditional", "PUT", times=-1)
    assert "two writers of one file both succeeded" in str(storage.probe())
    assert len(proxy.failed) >= 2


@pytest.mark.parametrize("failure", ["expired", "expired token"])
def test_expired_credentials_are_reported_and_no_batch_is_half_written(
    place: Place, proxy: HttpProxy, storage: Store, failure: Failure
) -> None:
    batches = Batches(storage, NAME)
    pinned = batches.pin(BATCH)
    proxy.fail(failure, times=-1)
    for request in (
        lambda: batches.finish(DONE),
        lambda: batches.pin(replace(BATCH, sequence=8)),
        lambda: batches.done(7),
        lambda: Leases(storage, "run").hold(NAME, "run").__enter__(),
    ):
        with pytest.raises(InfrastructureError) as caught:
            request()
        assert (caught.value.code, caught.value.exit_code) == ("storage-denied", 4)
        assert "set credentials" in str(caught.value.hint)
    assert len(proxy.failed) <= 5, "rejected requests are not retried"
    assert names_in_folder(place.open(), FOLDER) == ["00000007.01.json"]
    proxy.heal()
    batches.finish(DONE)
    assert (batches.pinned(7, 1), batches.done(7)) == (pinned, DONE)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("failure", "code"),
    chosen_only([("503", "storage-unreachable"), ("expired", "storage-denied")], ("503", "storage-unreachable")),
)
def test_a_landing_zone_that_fails_during_a_run_loses_and_duplicates_no_row(
    tmp_path: Path, spark: SparkSession, place: Place, proxy: HttpProxy, failure: Failure, code: str
) -> None:
    lake = Written(tmp_path / "shop", spark)
    behind = place.through(proxy.port)
    lake.declare(
        {
            "lakesmith.yml": json.dumps({"name": "shop", "environments": {"dev": {"storage": behind.settings}}}),
            "bronze/orders.yml": f'source: {{files: "{behind.url}/*.json", archive: done}}\n',
        }
    )
    for number in (1, 2, 3):
        put(place.open(), f"{number}.json", b'{"id": %d}\n{broken\n' % number)
    proxy.fail("503", times=4)

    def fail_after_pin(place: str, about: str) -> None:
        if place == "batch.pinned":
            proxy.fail(failure, times=-1)

    failpoints.watch(fail_after_pin)
    try:
        lake.run(ok=False)
    finally:
        failpoints.watch(None)
    errors = lake.reports[-1].errors
    assert {error.code for error in errors} == {code}
    assert all(error.hint for error in errors)
    proxy.heal()
    assert lake.run()["bronze.orders"].rows_written == 3
    assert lake.run() == {}
    assert lake.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,), (3,)]
    assert lake.rows("SELECT count(*) FROM quarantine.bronze_orders") == [(3,)]
    assert [file.path for file in place.open().find("**")] == [f"done/{number}.json" for number in (1, 2, 3)]
