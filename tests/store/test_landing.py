"""Landing files: completely or not at all, once, under a name that the table ingests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pytest
from tests.servers.azure import azure
from tests.servers.http import WebServer, http
from tests.servers.proxy import Proxy, proxy_to
from tests.servers.s3 import s3
from tests.servers.sftp import SftpServer, sftp
from tests.store.stores import REMOTE, make_place, names, put

from lakesmith.errors import UsageError
from lakesmith.ports import FileFact, SkippedEntry, Store, names_in_folder
from lakesmith.store import (
    LandingProgress,
    LandingReport,
    LocalStore,
    failures,
    land,
    landing_store,
    list_in_order,
    open_store,
)

__all__ = ["azure", "http", "proxy_to", "s3", "sftp"]

STORES = ["local", *(pytest.param(kind, marks=pytest.mark.servers) for kind in REMOTE)]


@pytest.fixture(params=STORES)
def zone(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "zone") if request.param == "local" else make_place(request.param, request).open()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "2026-01-01.json"
    found.write_bytes(b'{"order_id": 1}\n')
    return found


def landed(zone: Store, *files: Path, glob: str = "orders/*.json", name: str | None = None) -> LandingReport:
    return land(zone, glob, files, table="bronze.orders", name=name)


def states(landing: LandingReport) -> list[str]:
    return [file.state for file in landing.files]


def test_a_file_lands_in_the_folder_of_the_table(zone: Store, file: Path) -> None:
    landing = landed(zone, file)
    assert (states(landing), landing.errors) == (["landed"], ())
    (fact,) = zone.find("orders/*.json")
    assert (fact.path, landing.files[0].location) == ("orders/2026-01-01.json", zone.location(fact.path))
    assert zone.read(fact.path) == file.read_bytes()


def test_a_manifest_is_stored_where_listings_skip_it(zone: Store, file: Path) -> None:
    landed(zone, file)
    note = json.loads(zone.read("orders/_manifest/2026-01-01.json.json") or b"")
    assert note.pop("landed_at")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert note == {"file": "2026-01-01.json", "bytes": 16, "sha256": digest}
    assert [found.path for found in zone.find("**")] == ["orders/2026-01-01.json"]


def test_the_same_bytes_land_once(zone: Store, file: Path) -> None:
    landed(zone, file)
    before = list(zone.find("orders/*"))
    again = landed(zone, file)
    assert (states(again), again.errors) == (["already landed"], ())
    assert list(zone.find("orders/*")) == before


def test_other_content_under_the_same_name_is_rejected(zone: Store, file: Path) -> None:
    landed(zone, file)
    before = file.read_bytes()
    file.write_bytes(b'{"order_id": 2}\n')
    landing = landed(zone, file)
    assert states(landing) == ["rejected"]
    assert [(error.code, error.exit_code) for error in landing.errors] == [("landed-other-bytes", 1)]
    assert zone.read("orders/2026-01-01.json") == before


def test_a_name_stays_in_use_after_its_file_was_archived(zone: Store, file: Path) -> None:
    landed(zone, file)
    zone.move("orders/2026-01-01.json", "orders/_done/2026-01-01.json")
    assert states(landed(zone, file)) == ["already landed"]
    file.write_bytes(b'{"order_id": 2}\n')
    assert states(landed(zone, file)) == ["rejected"]


def test_a_file_without_a_manifest_is_compared_by_its_content(zone: Store, file: Path) -> None:
    put(zone, "orders/2026-01-01.json", file.read_bytes())
    assert states(landed(zone, file)) == ["already landed"]
    put(zone, "orders/other.json", b"other bytes, more")
    assert [error.code for error in landed(zone, file, name="other.json").errors] == ["landed-other-bytes"]


def test_a_concurrent_landing_is_reported_as_already_landed(
    zone: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = type(zone).put_file

    def put_file(self: Store, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        monkeypatch.undo()
        put(zone, key, b"of another, who was faster")
        return given(self, key, file, size=size, on_progress=on_progress)

    monkeypatch.setattr(type(zone), "put_file", put_file)
    assert [error.code for error in landed(zone, file).errors] == ["landed-other-bytes"]
    assert zone.read("orders/2026-01-01.json") == b"of another, who was faster"


def test_a_rejected_file_does_not_stop_the_others(zone: Store, file: Path, tmp_path: Path) -> None:
    put(zone, "orders/2026-01-01.json", b"other")
    second = tmp_path / "2026-01-02.json"
    second.write_text("{}")
    landing = landed(zone, file, second)
    assert (states(landing), len(landing.errors)) == (["rejected", "landed"], 1)


def test_an_interrupted_landing_leaves_nothing_visible(zone: Store, tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b"x" * 20_000_000)

    def interrupt(sending: LandingProgress) -> None:
        if sending.sent >= 8_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        land(zone, "orders/*.json", [large], table="bronze.orders", on_progress=interrupt)
    assert (list(zone.find("**")), names_in_folder(zone, "orders")) == ([], [])
    assert states(landed(zone, large)) == ["landed"]


def test_a_file_that_is_still_being_written_does_not_land(zone: Store, tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b"x" * 20_000_000)

    def write(sending: LandingProgress) -> None:
        with large.open("r+b") as file:
            file.seek(19_000_000)
            file.write(b"y")

    landing = land(zone, "orders/*.json", [large], table="bronze.orders", on_progress=write)
    assert [error.code for error in landing.errors] == ["file-rewritten"]
    assert list(zone.find("**")) == []


def test_progress_is_reported_up_to_the_last_byte(zone: Store, tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b"x" * 10_000_000)
    reports: list[LandingProgress] = []
    land(zone, "orders/*.json", [large], table="bronze.orders", on_progress=reports.append)
    assert reports[-1] == LandingProgress(file=str(large), sent=10_000_000, bytes=10_000_000)
    assert [each.sent for each in reports] == sorted(each.sent for each in reports)


@pytest.mark.servers
@pytest.mark.parametrize("kind", REMOTE)
def test_a_landing_in_a_busy_store_succeeds(
    kind: str,
    request: pytest.FixtureRequest,
    file: Path,
    proxy_to: Callable[[int], Proxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "WAITS", (0.01,) * 5)
    place = make_place(kind, request)
    proxy = proxy_to(place.port)
    proxy.fail("reset", "reset", "reset" if kind == "sftp" else "503")
    assert states(landed(place.behind(proxy), file)) == ["landed"]
    proxy.fail_always("reset")
    assert [error.code for error in landed(place.behind(proxy), file, name="b.json").errors] == ["storage-unreachable"]
    assert [found.path for found in place.open().find("**")] == ["orders/2026-01-01.json"]


@pytest.mark.servers
def test_only_the_file_and_its_manifest_stay_on_the_server(sftp: SftpServer, file: Path) -> None:
    root, folder = f"sftp://127.0.0.1:{sftp.port}", sftp.drop()
    zone = open_store(f"{root}{folder}", {root: sftp.settings()})
    landed(zone, file)
    file.write_bytes(b"other")
    landed(zone, file)
    assert names(folder) == ["2026-01-01.json", "2026-01-01.json.json"]


def test_files_cannot_land_on_a_web_server(http: WebServer, file: Path) -> None:
    assert [error.code for error in landed(open_store(f"http://127.0.0.1:{http.port}"), file).errors] == [
        "storage-read-only"
    ]


@pytest.mark.parametrize(
    ("glob", "name", "key"),
    [
        ("*.json", None, "2026-01-01.json"),
        ("orders/**/*.json", None, "orders/2026-01-01.json"),
        ("orders/year=*/*.json", "year=2026/a.json", "orders/year=2026/a.json"),
        ("orders/all.json", "all.json", "orders/all.json"),
    ],
)
def test_the_name_is_relative_to_the_folder_of_the_glob(
    tmp_path: Path, file: Path, glob: str, name: str | None, key: str
) -> None:
    zone = LocalStore(tmp_path / "zone")
    landed(zone, file, glob=glob, name=name)
    assert [found.path for found in zone.find(glob)] == [key]


def test_a_source_with_an_absolute_path_is_landed_there(tmp_path: Path, file: Path) -> None:
    zone, glob = landing_store(f"{tmp_path}/elsewhere/*.json", "s3://drops", {})
    assert states(landed(zone, file, glob=glob)) == ["landed"]
    assert (tmp_path / "elsewhere" / "2026-01-01.json").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ["a.csv", "_a.json", ".a.json", "deep/a.json", "../a.json", "../orders/a.json"])
def test_a_name_that_does_not_match_the_glob_is_rejected_before_anything_lands(
    tmp_path: Path, file: Path, name: str
) -> None:
    zone = LocalStore(tmp_path / "zone")
    with pytest.raises(UsageError) as caught:
        landed(zone, file, name=name)
    assert caught.value.code == "landing-name"
    assert not os.path.exists(tmp_path / "zone")


@pytest.mark.parametrize("glob", ["orders/*.json", "orders/**", "orders/caf?.json"])
def test_a_name_that_is_not_utf8_is_rejected_and_shown_escaped(tmp_path: Path, glob: str) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.json")
    file.write_bytes(b"{}")
    zone = LocalStore(tmp_path / "zone")
    with pytest.raises(UsageError, match=r"caf\\xe9\.json would not be ingested") as caught:
        landed(zone, file, glob=glob)
    assert caught.value.code == "landing-name"
    assert not os.path.exists(tmp_path / "zone")
    assert states(landed(zone, file, name="café.json")) == ["landed"]


def test_a_missing_file_is_reported_before_anything_lands(tmp_path: Path, file: Path) -> None:
    zone = LocalStore(tmp_path / "zone")
    for wrong in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(UsageError):
            landed(zone, file, wrong, glob="orders/*")
    assert not os.path.exists(tmp_path / "zone")


def test_one_name_is_only_for_one_file(tmp_path: Path, file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        landed(LocalStore(tmp_path), file, file, name="a.json")
    assert caught.value.code == "one-name"


class Changing(LocalStore):
    """A folder in which files arrive during the first listing, which shows only the last of them."""

    def __init__(self, root: Path, *coming: str) -> None:
        super().__init__(root)
        self.coming = coming
        self.starts: list[str | None] = []

    def find(
        self,
        pattern: str,
        known: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Callable[[SkippedEntry], None] | None = None,
    ) -> Iterator[FileFact]:
        self.starts.append(after)
        found = super().find(pattern, known, after)
        for name in self.coming:
            put(self, name)
        shown, self.coming = self.coming[-1:], ()
        return iter([*found, *(file for file in super().find(pattern) if file.path in shown)])


@pytest.mark.parametrize(("after", "bookmark"), [(None, None), ("in/a.json", "in/a.json"), (None, "in/a.json")])
def test_a_file_that_arrives_during_a_listing_is_not_missed(
    tmp_path: Path, after: str | None, bookmark: str | None
) -> None:
    zone = Changing(tmp_path, "in/b.json", "in/c.json")
    put(zone, "in/a.json")
    (known,) = LocalStore(tmp_path).find("in/*.json")
    found = list_in_order(zone, "in/*.json", {known.path: known}, after, bookmark)
    assert [file.path for file in found] == ["in/b.json", "in/c.json"]
    assert zone.starts == [after, bookmark]


def test_a_file_after_the_last_name_of_a_listing_is_found_by_the_next(tmp_path: Path) -> None:
    zone = Changing(tmp_path)
    put(zone, "in/b.json")
    first = zone.find
    zone.starts.clear()

    def then_more(
        pattern: str,
        known: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Callable[[SkippedEntry], None] | None = None,
    ) -> Iterator[FileFact]:
        found = list(first(pattern, known, after))
        if not (tmp_path / "in/c.json").exists():
            put(zone, "in/c.json")
        return iter(found)

    zone.find = then_more  # type: ignore[method-assign]
    assert [file.path for file in list_in_order(zone, "in/*.json", {}, "in/a.json", "in/a.json")] == ["in/b.json"]


def test_a_landing_zone_with_nothing_new_is_listed_once(tmp_path: Path) -> None:
    zone = Changing(tmp_path)
    put(zone, "in/b.json")
    known = {file.path: file for file in LocalStore(tmp_path).find("in/*.json")}
    assert list_in_order(zone, "in/*.json", known, None, "in/b.json") == ()
    put(zone, "in/a.json")  # late
    assert [file.path for file in list_in_order(zone, "in/*.json", known, None, "in/b.json")] == ["in/a.json"]
    assert zone.starts == [None, None]
