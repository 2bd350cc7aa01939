"""Network failures of stores, and connections to each; `tests/conformance` has the tests of every store."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.servers.azure import AzureServer, azure
from tests.servers.http import WebServer, http
from tests.servers.http_proxy import HttpProxy, http_proxy_to
from tests.servers.proxy import Cut, Fault, Proxy, proxy_to
from tests.servers.s3 import S3Server, s3
from tests.servers.sftp import SftpServer, sftp
from tests.store.stores import REMOTE, Place, make_place, put

from lakesmith.errors import DataError, DeclarationError, InfrastructureError
from lakesmith.ports import SkippedEntry
from lakesmith.store import ObjectStore, failures, landing_store, open_store
from lakesmith.store.access import find_access

__all__ = ["azure", "http", "http_proxy_to", "proxy_to", "s3", "sftp"]

LARGE = bytes(range(256)) * 40_000
ProxyTo = Callable[[int], Proxy]
HttpProxyTo = Callable[[int], HttpProxy]


@pytest.fixture(params=REMOTE)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry five times without waiting."""
    monkeypatch.setattr(failures, "WAITS", (0.01,) * 5)


def storms(place: Place) -> tuple[Fault, ...]:
    """Four failures in a row, by the kind of the store."""
    return ("reset",) * 4 if place.url.startswith("sftp") else ("503", "503", "reset", "503")


@pytest.mark.servers
def test_a_busy_store_is_retried(place: Place, proxy_to: ProxyTo, no_waiting: None) -> None:
    put(place.open(), "a.json", b"1")
    proxy = proxy_to(place.port)
    storage = place.behind(proxy)
    proxy.fail(*storms(place))
    assert [file.path for file in storage.find("*.json")] == ["a.json"]
    proxy.fail(*storms(place))
    assert storage.open("a.json").read() == b"1"
    proxy.fail(*storms(place))
    assert storage.put_if_absent("b.json", b"2")
    proxy.fail(*storms(place))
    storage.move("b.json", "archive/b.json")
    assert storage.read("archive/b.json") == b"2"
    assert proxy.faulted == 16


@pytest.mark.servers
def test_a_store_that_stays_busy_is_an_error(place: Place, proxy_to: ProxyTo, no_waiting: None) -> None:
    proxy = proxy_to(place.port)
    proxy.fail_always(storms(place)[0])
    with pytest.raises(InfrastructureError) as caught:
        list(place.behind(proxy).find("*.json"))
    assert caught.value.code == "storage-unreachable"
    assert proxy.faulted == 6


@pytest.mark.servers
def test_a_missing_server_is_an_error(place: Place, proxy_to: ProxyTo, no_waiting: None) -> None:
    proxy = proxy_to(place.port)
    proxy.close()
    with pytest.raises(InfrastructureError) as caught:
        list(place.behind(proxy).find("*.json"))
    assert caught.value.code == "storage-unreachable"


@pytest.mark.servers
def test_a_stream_resumes_after_a_broken_connection(place: Place, proxy_to: ProxyTo, no_waiting: None) -> None:
    put(place.open(), "large.bin", LARGE * 2)
    proxy = proxy_to(place.port)
    storage = place.behind(proxy)
    with storage.open("large.bin") as file:
        start = file.read(100)
        proxy.fail(Cut(2_000_000), "reset", Cut(1_000_000))
        assert start + file.read() == LARGE * 2
    assert proxy.faulted == 3


@pytest.mark.servers
def test_a_stream_does_not_resume_in_another_file(place: Place, proxy_to: ProxyTo, no_waiting: None) -> None:
    put(place.open(), "large.bin", LARGE)
    proxy = proxy_to(place.port)
    with place.behind(proxy).open("large.bin") as file:
        file.read(100)
        place.open().replace("large.bin", LARGE + b"more")
        proxy.fail("reset")
        with pytest.raises(DataError) as caught:
            file.read()
    assert caught.value.code == "file-rewritten"


@pytest.mark.servers
def test_an_upload_over_a_bad_connection_arrives_complete(place: Place, proxy_to: ProxyTo, no_waiting: None) -> None:
    proxy = proxy_to(place.port)
    proxy.fail(*storms(place))
    put(place.behind(proxy), "large.bin", LARGE)
    assert place.open().open("large.bin").read() == LARGE
    assert [file.path for file in place.open().find("**")] == ["large.bin"]


@pytest.mark.servers
def test_rejected_credentials_are_reported_and_not_shown(place: Place) -> None:
    put(place.open(), "a.json")
    for ask in (
        lambda storage: list(storage.find("*.json")),
        lambda storage: storage.open("a.json"),
        lambda storage: storage.put_if_absent("b.json", b""),
        lambda storage: storage.move("a.json", "b.json"),
    ):
        with pytest.raises(InfrastructureError) as caught:
            ask(place.open_denied())
        assert caught.value.code == "storage-denied"
        (settings,) = place.settings.values()
        given = [*settings.items(), *place.wrong.items()]
        secrets = [value for name, value in given if name in ("key", "secret", "account_key", "key_file")]
        assert secrets
        assert not [secret for secret in secrets if secret in f"{caught.value!s}{caught.value!r}"]


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_a_missing_bucket_is_an_error(kind: str, request: pytest.FixtureRequest) -> None:
    (settings,) = make_place(kind, request).settings.values()
    scheme = {"s3": "s3", "azure": "az"}[kind]
    storage = open_store(f"{scheme}://nowhere", {f"{scheme}://nowhere": settings})
    for ask in (lambda: list(storage.find("*.json")), lambda: storage.put_if_absent("a", b"")):
        with pytest.raises(InfrastructureError) as caught:
            ask()
        assert caught.value.code == "storage-missing"


@pytest.mark.servers
def test_a_folder_without_permission_is_an_error(sftp: SftpServer, request: pytest.FixtureRequest) -> None:
    place = make_place("sftp", request)
    put(place.open(), "in/a.json")
    folder = Path(place.url.removeprefix(f"sftp://127.0.0.1:{sftp.port}")) / "in"
    folder.chmod(0)
    try:
        for ask in (lambda: list(place.open().find("in/*.json")), lambda: place.open().open("in/a.json")):
            with pytest.raises(InfrastructureError) as caught:
                ask()
            assert caught.value.code == "storage-denied"
    finally:
        folder.chmod(0o755)


@pytest.mark.servers
def test_a_server_with_another_host_key_is_rejected(sftp: SftpServer) -> None:
    root = f"sftp://127.0.0.1:{sftp.port}"
    other = (sftp.folder / "user.pub").read_text().split()[1]
    for known in (f"[127.0.0.1]:{sftp.port} ssh-ed25519 {other}", f"elsewhere ssh-ed25519 {other}"):
        storage = open_store(f"{root}{sftp.drop()}", {root: sftp.settings() | {"known_hosts": known}})
        with pytest.raises(InfrastructureError) as caught:
            list(storage.find("*"))
        assert caught.value.code == "unknown-host-key"
        assert "ssh-keyscan" in str(caught.value.hint)


@pytest.mark.servers
def test_private_keys_can_be_files_or_content(sftp: SftpServer) -> None:
    root, settings = f"sftp://127.0.0.1:{sftp.port}", sftp.settings()
    hosts = sftp.folder / "known_hosts"
    hosts.write_text(settings["known_hosts"])
    texts = {"user": sftp.user, "key_file": Path(settings["key_file"]).read_text(), "known_hosts": str(hosts)}
    assert list(open_store(f"{root}{sftp.drop()}", {root: texts}).find("*")) == []


@pytest.mark.servers
def test_many_pages_of_a_listing_are_read(s3: S3Server) -> None:
    bucket = s3.bucket()
    folder = s3.folder / bucket / "in"
    (folder / "archive").mkdir(parents=True)
    for number in range(2_500):
        (folder / f"{number:04}.json").write_text("1")
    (folder / "archive" / "old.json").touch()
    storage = open_store(f"s3a://{bucket}", {f"s3://{bucket}": s3.settings()})
    known = {file.path: file for file in storage.find("in/*.json")}
    assert len(known) == 2_500
    (folder / "new.json").write_text("1")
    assert [file.path for file in storage.find("in/*.json", known)] == ["in/new.json"]


@pytest.mark.servers
def test_s3_lists_only_keys_after_a_path(s3: S3Server, http_proxy_to: HttpProxyTo) -> None:
    bucket, proxy = s3.bucket(), http_proxy_to(s3.port)
    for day in (1, 2, 3):
        folder = s3.folder / bucket / f"in/day={day}"
        folder.mkdir(parents=True)
        for number in range(1_000 if day < 3 else 1_500):
            (folder / f"{number:04}.json").write_text("1")
    storage = open_store(f"s3://{bucket}", {f"s3://{bucket}": s3.settings(proxy.port)})
    assert len(list(storage.find("in/*/*.json"))) == 3_500
    assert len(proxy.seen) == 4
    proxy.seen.clear()
    found = [file.path for file in storage.find("in/*/*.json", after="in/day=3/0001.json")]
    assert (len(found), found[0], len(proxy.seen)) == (1_498, "in/day=3/0002.json", 2)  # a stream of two pages
    proxy.seen.clear()
    url = f"s3://{bucket}/in/day=*/*.json"
    assert [file.path for file in storage.find(url, after=f"s3://{bucket}/in/day=3/1498.json")] == [
        f"s3://{bucket}/in/day=3/1499.json"
    ]
    assert len(proxy.seen) == 1
    proxy.seen.clear()
    assert len(list(storage.find("in/day=3/0*.json"))) == 1_000
    assert len(proxy.seen) <= 2


@pytest.mark.servers
@pytest.mark.verify
def test_a_folder_below_a_flat_glob_costs_at_most_two_pages(s3: S3Server, http_proxy_to: HttpProxyTo) -> None:
    bucket, proxy = s3.bucket(), http_proxy_to(s3.port)
    archive = s3.folder / bucket / "in" / "archive"
    archive.mkdir(parents=True)
    for number in range(4_500):
        (archive / f"{number:04}.json").write_text("1")
    for name in ("a.json", "b.json", "c.json"):
        (archive.parent / name).write_text("1")
    storage = open_store(f"s3://{bucket}", {f"s3://{bucket}": s3.settings(proxy.port)})
    assert [file.path for file in storage.find("in/*.json")] == ["in/a.json", "in/b.json", "in/c.json"]
    assert len(proxy.seen) == 1
    proxy.seen.clear()
    assert [file.path for file in storage.find("in/*.json", after="in/a.json")] == ["in/b.json", "in/c.json"]
    assert len(proxy.seen) <= 3


@pytest.mark.servers
def test_azure_lists_no_folders_before_a_path(azure: AzureServer, http_proxy_to: HttpProxyTo) -> None:
    proxy, container = http_proxy_to(azure.port), azure.container()
    storage = open_store(f"az://{container}", {f"az://{container}": azure.settings(proxy.port)})
    for day in range(1, 6):
        put(storage, f"day={day}/a.json")
        put(storage, f"day={day}/b.json")
    proxy.seen.clear()
    found = storage.find("*/*.json", after="day=4/a.json")
    assert [file.path for file in found] == ["day=4/b.json", "day=5/a.json", "day=5/b.json"]
    listed = [parse_qs(urlsplit(request).query).get("prefix", [""])[0] for request in proxy.seen]
    assert sorted(listed) == ["", "day=4/", "day=5/"]


@pytest.mark.servers
def test_sftp_lists_no_folders_before_a_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    from paramiko import SFTPClient

    storage = make_place("sftp", request).open()
    for day in range(1, 6):
        put(storage, f"day={day}/a.json")
        put(storage, f"day={day}/b.json")
    listed: list[str] = []
    real = SFTPClient.listdir_attr

    def noting(self: object, folder: str) -> object:
        listed.append(folder.rstrip("/").rpartition("/")[2])
        return real(self, folder)

    monkeypatch.setattr(SFTPClient, "listdir_attr", noting)
    found = storage.find("*/*.json", after="day=4/a.json")
    assert [file.path for file in found] == ["day=4/b.json", "day=5/a.json", "day=5/b.json"]
    assert sorted(listed[1:]) == ["day=4", "day=5"]


@pytest.mark.servers
def test_folder_markers_are_not_files(azure: AzureServer) -> None:
    container = azure.container()
    storage = open_store(f"az://{container}", {f"az://{container}": azure.settings()})
    put(storage, "in/day/a.json", b"1")
    put(storage, "in/empty.json", b"")
    for name in ("in", "in/day", "in/day/", "in/later/", "in/never"):
        azure.put_marker(container, name)
    assert [file.key for file in storage.list("in/")] == ["in/day/a.json", "in/empty.json"]
    for pattern in ("in/**", "in/**/*"):
        assert [file.path for file in storage.find(pattern)] == ["in/day/a.json", "in/empty.json"]
    assert [file.path for file in storage.find("in/*")] == ["in/empty.json"]


@pytest.mark.servers
def test_a_small_file_costs_one_request_each_time(s3: S3Server, http_proxy_to: HttpProxyTo) -> None:
    bucket, proxy = s3.bucket(), http_proxy_to(s3.port)
    storage = open_store(f"s3://{bucket}", {f"s3://{bucket}": s3.settings(proxy.port)})
    for act in (
        lambda: storage.put_if_absent("a", b"1"),
        lambda: storage.put_if_absent("a", b"2"),
        lambda: storage.read("a"),
        lambda: storage.stat("a"),
        lambda: storage.open("a").close(),
        lambda: list(storage.list("a", after="a")),
        lambda: storage.replace("a", b"2"),
        lambda: storage.confirm({"a": 1}),
        lambda: storage.delete(["a", "b", "c"]),
    ):
        proxy.seen.clear()
        act()
        assert len(proxy.seen) == 1, proxy.seen


def test_a_web_server_gets_no_request_for_files_before_a_path(http: WebServer) -> None:
    for day in (1, 2, 3):
        for name in "ab":
            (http.folder / f"in/day={day}").mkdir(parents=True, exist_ok=True)
            (http.folder / f"in/day={day}/{name}.json").write_text("{}")
    storage = open_store(f"http://127.0.0.1:{http.port}")
    found = storage.find("in/*/*.json", after="in/day=2/a.json")
    assert [file.path for file in found] == ["in/day=2/b.json", "in/day=3/a.json", "in/day=3/b.json"]
    assert sorted(http.requests) == [
        *("GET /in/", "GET /in/day%3D2/", "GET /in/day%3D3/"),
        *("HEAD /in/day%3D2/b.json", "HEAD /in/day%3D3/a.json", "HEAD /in/day%3D3/b.json"),
    ]


@pytest.mark.servers
def test_azure_accepts_a_connection_string(azure: AzureServer) -> None:
    container, settings = azure.container(), azure.settings()
    parts = {
        "DefaultEndpointsProtocol": "http",
        "AccountName": settings["account"],
        "AccountKey": settings["account_key"],
        "BlobEndpoint": settings["endpoint"],
    }
    connection = ";".join(f"{name}={value}" for name, value in parts.items())
    url = f"abfss://{container}@devstoreaccount1.dfs.core.windows.net/in"
    storage = open_store(url, {f"abfss://{container}": {"connection_string": connection}})
    put(storage, "a.json")
    assert [file.path for file in storage.find("*")] == ["a.json"]


def test_a_web_server_is_listed_by_its_index_pages(http: WebServer) -> None:
    for name in ("in/a.json", "in/b c.json", "in/b.csv", "in/y=1/d.json", "in/_notes/e.json"):
        (http.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (http.folder / name).write_text("{}")
    storage = open_store(f"http://127.0.0.1:{http.port}")
    assert [file.path for file in storage.find("in/*.json")] == ["in/a.json", "in/b c.json"]
    assert [file.path for file in storage.find("in/**/*.json")] == ["in/a.json", "in/b c.json", "in/y=1/d.json"]
    assert [file.path for file in storage.find("in/b.csv")] == ["in/b.csv"]
    assert list(storage.find("in/none.csv")) == list(storage.find("nowhere/*")) == []


def test_a_file_of_a_web_server_is_read_and_checked_for_changes(http: WebServer) -> None:
    file = http.folder / "a.json"
    file.write_bytes(LARGE)
    storage = open_store(f"http://127.0.0.1:{http.port}/")
    (fact,) = storage.find("*.json")
    assert fact.size == len(LARGE)
    assert storage.open("a.json", fact).read() == LARGE
    os.utime(file, (0, 0))
    with pytest.raises(DataError) as caught:
        storage.open("a.json", fact)
    assert caught.value.code == "file-rewritten"


def test_a_web_server_gets_its_token_and_headers(http: WebServer) -> None:
    (http.folder / "a.json").write_text("{}")
    http.token = "abracadabra"
    root = f"http://127.0.0.1:{http.port}"
    assert [file.path for file in open_store(root, {root: {"token": "abracadabra"}}).find("*.json")] == ["a.json"]
    by_header = {"headers": "Authorization: Bearer abracadabra\nX-Other: 1"}
    assert open_store(root, {root: by_header}).read("a.json") == b"{}"
    for settings in ({}, {root: {"token": "another"}}):
        for pattern in ("*.json", "a.json"):
            with pytest.raises(InfrastructureError) as caught:
                list(open_store(root, settings).find(pattern))
            assert caught.value.code == "storage-denied"
            assert "another" not in str(caught.value)


def test_a_busy_web_server_is_retried_and_a_broken_stream_resumes(
    http: WebServer, proxy_to: ProxyTo, no_waiting: None
) -> None:
    (http.folder / "a.bin").write_bytes(LARGE)
    proxy = proxy_to(http.port)
    storage = open_store(f"http://127.0.0.1:{proxy.port}")
    proxy.fail("503", "reset", "503")
    assert [file.path for file in storage.find("*.bin")] == ["a.bin"]
    with storage.open("a.bin") as file:
        start = file.read(100)
        proxy.fail(Cut(3_000_000))
        assert start + file.read() == LARGE
    proxy.fail_always("503")
    with pytest.raises(InfrastructureError) as caught:
        list(storage.find("*.bin"))
    assert caught.value.code == "storage-unreachable"


def test_a_web_server_is_read_only(http: WebServer) -> None:
    with pytest.raises(InfrastructureError) as caught:
        open_store(f"http://127.0.0.1:{http.port}").put_if_absent("a", b"")
    assert caught.value.code == "storage-read-only"


def test_the_longest_url_prefix_wins() -> None:
    settings = {
        "s3://": {"region": "any"},
        "s3://drops": {"region": "bucket"},
        "s3://drops/in": {"region": "folder"},
        "s3://drop": {"region": "another"},
    }
    found = {
        url: find_access(url, settings).access.get("region")
        for url in ("s3://drops/in/a", "s3a://drops/other", "s3://drops", "s3://dropsy/in", "s3://drop/in")
    }
    assert list(found.values()) == ["folder", "bucket", "bucket", "any", "another"]


def test_a_misspelled_setting_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(DeclarationError) as caught:
        open_store("s3://drops", {"s3://drops": {"endpiont": "x"}})
    assert caught.value.code == "unknown-key"
    assert "did you mean 'endpoint'?" in str(caught.value.hint)


@pytest.mark.parametrize(("url", "code"), [("ftp://host/a", "unknown-storage"), ("s3:///a", "bad-path")])
def test_a_url_without_a_store_is_an_error(url: str, code: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        open_store(url)
    assert caught.value.code == code


def test_an_azure_url_without_an_account_is_an_error() -> None:
    with pytest.raises(DeclarationError) as caught:
        list(open_store("az://container").find("*"))
    assert caught.value.code == "missing-key"


@pytest.mark.parametrize("setting", [{"key_file": "/nowhere/key"}, {"key_file": "-----BEGIN X"}, {"known_hosts": "x"}])
def test_a_key_that_cannot_be_read_is_an_error(setting: dict[str, str]) -> None:
    with pytest.raises(DeclarationError) as caught:
        list(open_store("sftp://host/in", {"sftp://host": setting}).find("*"))
    assert caught.value.code == "bad-key-file"


def test_settings_are_not_shown() -> None:
    storage = open_store("s3://drops/in", {"s3://drops": {"secret": "hush"}})
    assert "hush" not in repr(storage)
    assert "hush" not in repr(find_access("s3://drops", {"s3://drops": {"secret": "hush"}}))
    assert pickle.loads(pickle.dumps(storage)).url == "s3://drops/in"


@pytest.mark.parametrize(
    ("files", "landing", "root", "pattern"),
    [
        ("in/*.json", "/data", "/data", "in/*.json"),
        ("in/*.json", "s3://drops/zone", "s3://drops/zone", "in/*.json"),
        ("/other/*.json", "s3://drops", "/", "/other/*.json"),
        ("file:///other/*.json", "/data", "/", "/other/*.json"),
        ("s3://drops/in/2026-??.json", "/data", "s3://drops", "s3://drops/in/2026-??.json"),
    ],
)
def test_a_source_is_in_the_landing_zone_by_default(files: str, landing: str, root: str, pattern: str) -> None:
    storage, found = landing_store(files, landing, {})
    assert (storage.url, found) == (root, pattern)


@pytest.mark.servers
def test_files_listed_by_url_have_urls_as_paths(s3: S3Server) -> None:
    bucket = s3.bucket()
    settings = {f"s3://{bucket}": s3.settings()}
    storage, pattern = landing_store(f"s3://{bucket}/in/*.json", "/data", settings)
    assert isinstance(storage, ObjectStore)
    put(storage, "in/a.json", b"1")
    (fact,) = storage.find(pattern)
    assert fact.path == storage.location(fact.path) == f"s3://{bucket}/in/a.json"
    assert storage.open(fact.path, fact).read() == b"1"
    storage.move(fact.path, f"s3://{bucket}/archive/a.json")
    assert storage.read("archive/a.json") == b"1"


@pytest.mark.servers
def test_hidden_names_of_every_store_are_reported_and_folders_once(place: Place) -> None:
    storage = place.open()
    for name in ("a.json", "_b.json", ".c.json", "_tmp/d.json", "_tmp/e.json", "day/_f.json", "_note.txt"):
        put(storage, f"in/{name}", b"1")
    for pattern, files, hidden in (
        ("in/*.json", ["in/a.json"], ["in/.c.json", "in/_b.json"]),
        ("in/**/*.json", ["in/a.json"], ["in/.c.json", "in/_b.json", "in/_tmp", "in/day/_f.json"]),
    ):
        skipped: set[SkippedEntry] = set()
        assert [file.path for file in storage.find(pattern, None, None, skipped.add)] == files
        assert sorted((entry.path, entry.code) for entry in skipped) == [(path, "hidden-name") for path in hidden]
        skipped.clear()
        whole = f"{storage.url}/{pattern}"
        list(storage.find(whole, None, None, skipped.add))
        assert sorted(entry.path for entry in skipped) == [f"{storage.url}/{path}" for path in hidden]


@pytest.mark.servers
def test_odd_keys_of_every_store_are_listed_and_read_by_their_names(place: Place) -> None:
    storage = place.open()
    names = ["a b.json", "100%.json", "%41.json", "a#b.json", "a?b.json", "a=b.json", "[a].json", "😀.json", "-x.json"]
    names += ["caf\u00e9.json", "cafe\u0301.json", "A.json", "a.json", "a'b.json", 'a"b.json', "a+b.json", "a&b.json"]
    for name in names:
        put(storage, f"in/{name}", name.encode())
    found = list(storage.find("in/*.json"))
    assert sorted(file.path for file in found) == sorted(f"in/{name}" for name in names)
    for file in found:
        assert storage.open(file.path, file).read().decode() == file.path.removeprefix("in/")


@pytest.mark.servers
def test_entries_that_are_not_files_and_names_that_are_not_utf8_are_skipped(sftp: SftpServer) -> None:
    folder = sftp.drop()
    (folder / "good.json").write_text("1")
    (folder / "link.json").symlink_to("good.json")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "x.json").mkdir()
    os.mkfifo(folder / "fifo.json")
    root = f"sftp://127.0.0.1:{sftp.port}"
    storage = open_store(f"{root}{folder}", {root: sftp.settings()})
    skipped: set[SkippedEntry] = set()

    def listed(pattern: str) -> dict[str, str]:
        skipped.clear()
        assert [file.path for file in storage.find(pattern, None, None, skipped.add)] == ["good.json"]
        return {entry.path: entry.code for entry in skipped}

    kinds = dict.fromkeys(("link.json", "loop.json"), "link-not-followed") | {"fifo.json": "not-a-file"}
    assert listed("*.json") == kinds | {"x.json": "not-a-file"}
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.json")).write_text("1")
    Path(os.fsdecode(os.fsencode(folder) + b"/d\xe9")).mkdir()
    assert listed("*.json") == kinds | {"x.json": "not-a-file", "caf\\xe9.json": "name-not-utf8"}
    names = dict.fromkeys(("caf\\xe9.json", "d\\xe9"), "name-not-utf8")
    assert listed("**/*.json") == kinds | names


def test_names_of_a_web_server_that_are_not_utf8_are_skipped(http: WebServer) -> None:
    (http.folder / "good.json").write_text("1")
    (http.folder / "_hidden.json").write_text("1")
    (http.folder / "x.json").mkdir()
    Path(os.fsdecode(os.fsencode(http.folder) + b"/caf\xe9.json")).write_text("1")
    storage = open_store(f"http://127.0.0.1:{http.port}")
    skipped: set[SkippedEntry] = set()
    assert [file.path for file in storage.find("*.json", None, None, skipped.add)] == ["good.json"]
    assert {entry.path: entry.code for entry in skipped} == {
        "caf\\xed\\xb3\\xa9.json": "name-not-utf8",  # as Python's server writes the link
        "_hidden.json": "hidden-name",
        "x.json": "not-a-file",
    }
