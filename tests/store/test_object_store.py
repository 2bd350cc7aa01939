"""Connections of object stores: credentials, imports, processes, and the settings for engines."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.marks import chosen_only
from tests.servers.azure import azure
from tests.servers.http_proxy import HttpProxy, http_proxy_to
from tests.servers.s3 import S3Server, s3
from tests.store.stores import make_place, put

from lakesmith.errors import DeclarationError, InfrastructureError
from lakesmith.store import ObjectStore, failures, open_store
from lakesmith.store.access import find_access
from lakesmith.store.object_clients import azure_account, s3_keys, s3_region

__all__ = ["azure", "http_proxy_to", "s3"]

HttpProxyTo = Callable[[int], HttpProxy]
LARGE = bytes(range(256)) * 70_000


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder without credentials."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "WAITS", (0.01,) * 5)


def test_no_client_is_imported_before_a_store_is_used() -> None:
    program = """
import sys
from lakesmith.lake import Lake
from lakesmith.store import open_store
open_store("s3://bucket/in", {"s3://bucket": {"endpoint": "http://127.0.0.1:1"}}).url
print([name for name in ("obstore", "s3fs", "remote_store", "azure", "fsspec", "pyarrow") if name in sys.modules])
"""
    assert _run(program) == "[]"


@pytest.mark.servers
def test_a_listing_of_s3_imports_one_client(s3: S3Server) -> None:
    bucket = s3.bucket()
    (s3.folder / bucket / "a.json").write_text("{}")
    program = f"""
import sys
from lakesmith.store import open_store
store = open_store("s3://{bucket}", {{"s3://{bucket}": {s3.settings()!r}}})
assert [file.path for file in store.find("*.json")] == ["a.json"]
print([name for name in ("obstore", "s3fs", "remote_store", "azure", "fsspec", "botocore") if name in sys.modules])
"""
    assert _run(program) == "['obstore']"


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.servers
def test_a_fork_of_a_connected_process_gets_an_error_and_does_not_hang(s3: S3Server) -> None:
    bucket = s3.bucket()
    program = f"""
import os, sys
from lakesmith.errors import InfrastructureError
from lakesmith.store import open_store
store = open_store("s3://{bucket}", {{"s3://{bucket}": {s3.settings()!r}}})
store.put_if_absent("a", b"1")
child = os.fork()
if child == 0:
    try:
        store.read("a")
    except InfrastructureError as error:
        print(error.code, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert _run(program) == "forked-process"


def test_keys_in_the_settings_win(no_credentials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    access = find_access("s3://b", {"s3://b": {"key": "mine", "secret": "hush"}}).access
    keys = s3_keys(access)
    assert (keys.key, keys.secret, keys.token) == ("mine", "hush", None)
    assert "hush" not in repr(keys)


def test_keys_and_region_are_read_from_the_profile(no_credentials: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = find_access("s3://b", {}).access
    assert (s3_keys(access).key, s3_region(access)) == (None, None)
    folder = no_credentials / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id=one\naws_secret_access_key=hush\n"
        "[work]\naws_access_key_id=two\naws_secret_access_key=hush\naws_session_token=t\n"
    )
    (folder / "config").write_text("[default]\nregion=eu-north-1\n[profile work]\nregion=eu-west-3\n")
    assert (s3_keys(access).key, s3_region(access)) == ("one", "eu-north-1")
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert (s3_keys(access).key, s3_keys(access).token, s3_region(access)) == ("two", "t", "eu-west-3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "three")  # obstore reads the environment by itself
    assert s3_keys(access).key is None


@pytest.mark.servers
def test_a_token_in_the_environment_is_not_mixed_with_keys_of_the_settings(
    s3: S3Server, no_credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another key")
    bucket = s3.bucket()
    store = open_store(f"s3://{bucket}", {f"s3://{bucket}": s3.settings() | {"region": "us-east-1"}})
    assert store.put_if_absent("a", b"1")


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"account": "shop"}, ("shop", "https://shop.blob.core.windows.net", None, None)),
        (
            {"endpoint": "https://shop.blob.core.windows.net/?sv=1&sig=x"},
            ("shop", "https://shop.blob.core.windows.net", None, "sv=1&sig=x"),
        ),
        ({"account": "shop", "sas_token": "?sv=1"}, ("shop", "https://shop.blob.core.windows.net", None, "sv=1")),
        (
            {"connection_string": "AccountName=shop;AccountKey=a2V5==;EndpointSuffix=core.chinacloudapi.cn"},
            ("shop", "https://shop.blob.core.chinacloudapi.cn", "a2V5==", None),
        ),
    ],
)
def test_an_azure_account_is_read_from_any_settings(
    settings: dict[str, str], found: tuple[str, str, str | None, str | None]
) -> None:
    account = azure_account(find_access("az://c", {"az://c": settings}).access)
    name, endpoint, key, sas = found
    assert (account.name, account.key, account.sas) == (name, key, sas)
    assert account.endpoint == endpoint


def test_engines_get_the_same_url_and_credentials() -> None:
    settings = {"endpoint": "http://127.0.0.1:9000", "key": "me", "secret": "hush", "region": "eu-north-1"}
    store = open_store("s3a://lake/prod", {"s3://lake": settings})
    spark, delta, duck = store.engine("spark"), store.engine("delta-rs"), store.engine("duckdb")
    assert {spark.url, delta.url, duck.url} == {"s3://lake/prod"}
    assert spark.settings == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.bucket.lake.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.bucket.lake.endpoint.region": "eu-north-1",
        "spark.hadoop.fs.s3a.bucket.lake.path.style.access": "true",
        "spark.hadoop.fs.s3a.bucket.lake.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        "spark.hadoop.fs.s3a.bucket.lake.access.key": "me",
        "spark.hadoop.fs.s3a.bucket.lake.secret.key": "hush",
    }
    assert delta.settings["AWS_ALLOW_HTTP"] == "true"
    assert (duck.settings["ENDPOINT"], duck.settings["USE_SSL"]) == ("127.0.0.1:9000", "false")
    assert "hush" not in f"{spark}{delta}{duck}"


def test_spark_names_azure_by_the_account_also_for_an_emulator() -> None:
    real = open_store("az://lake/prod", {"az://lake": {"account": "shop", "account_key": "a2V5"}})
    assert real.engine("spark").url == "abfss://lake@shop.dfs.core.windows.net/prod"
    assert real.engine("spark").settings == {"spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net": "a2V5"}
    assert real.engine("delta-rs").url == "az://lake/prod"
    emulator = {"account": "dev", "account_key": "a2V5", "endpoint": "http://127.0.0.1:10000/dev"}
    access = open_store("az://lake", {"az://lake": emulator}).engine("spark")
    assert access.url == "abfs://lake@dev.dfs.core.windows.net"
    assert access.settings["spark.hadoop.fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert access.settings["spark.hadoop.fs.azure.always.use.https"] == "false"


def test_google_needs_a_file_for_spark_alone() -> None:
    of_file = open_store("gs://lake", {"gs://lake": {"service_account": "/keys/lake.json"}})
    assert of_file.engine("delta-rs").settings == {"google_service_account": "/keys/lake.json"}
    assert of_file.engine("spark").url == "gs://lake"
    of_text = open_store("gs://lake", {"gs://lake": {"service_account": '{"private_key": "hush"}'}})
    assert set(of_text.engine("delta-rs").settings) == {"google_service_account_key"}
    with pytest.raises(DeclarationError) as caught:
        of_text.engine("spark")
    assert "hush" not in str(caught.value)


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_delta_rs_reads_and_writes_with_the_settings_of_the_store(kind: str, request: pytest.FixtureRequest) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    access = make_place(kind, request).open().engine("delta-rs")
    rows = pa.table({"id": [1, 2]})
    for _ in range(2):
        write_deltalake(f"{access.url}/t", rows, mode="append", storage_options={**access.settings})
    table = DeltaTable(f"{access.url}/t", storage_options={**access.settings})
    assert (table.version(), table.to_pyarrow_table().num_rows) == (1, 4)


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["s3", "azure"])
@pytest.mark.parametrize("failure", ["drop reply", "503", "reset"])
def test_a_replacement_over_a_failing_network_is_done_once(
    kind: str, failure: str, request: pytest.FixtureRequest, http_proxy_to: HttpProxyTo, no_waiting: None
) -> None:
    place = make_place(kind, request)
    proxy = http_proxy_to(place.port)
    store = place.through(proxy.port).open()
    store.replace("a", b"1")
    for number in range(3):
        found = store.stat("a")
        assert found is not None
        proxy.fail(failure, "PUT")  # type: ignore[arg-type]
        assert store.replace("a", b"%d" % number, if_match=found.etag)
        assert not store.replace("a", b"other", if_match=found.etag)
    assert len(proxy.failed) == 3


@pytest.mark.servers
@pytest.mark.parametrize(
    ("kind", "method", "part"),
    chosen_only(
        [
            *(("s3", *request) for request in (("POST", ""), ("PUT", "big"), ("DELETE", ""))),
            *(("azure", *request) for request in (("PUT", "blocklist"), ("PUT", "big"), ("POST", ""))),
        ],
        ("s3", "POST", ""),
        ("azure", "PUT", "blocklist"),
    ),
)
def test_a_large_file_is_put_once_when_a_reply_is_lost(
    kind: str, method: str, part: str, request: pytest.FixtureRequest, http_proxy_to: HttpProxyTo, no_waiting: None
) -> None:
    place = make_place(kind, request)
    proxy = http_proxy_to(place.port)
    store = place.through(proxy.port).open()
    for after in range(3):
        proxy.heal()
        proxy.fail("drop reply", method, part, after=after)
        name = f"big{after}"
        assert store.put_file(name, io.BytesIO(LARGE), size=len(LARGE), on_progress=lambda _: None)
        assert not store.put_file(name, io.BytesIO(LARGE), size=len(LARGE), on_progress=lambda _: None)
        assert place.open().open(name).read() == LARGE
        with store.create(f"created{after}") as file:
            file.write(LARGE)
        assert place.open().open(f"created{after}").read() == LARGE
    keys = [file.key for file in place.open().list("")]
    assert keys == [*(f"big{number}" for number in range(3)), *(f"created{number}" for number in range(3))]


@pytest.mark.servers
def test_an_error_of_the_file_is_not_an_error_of_the_store(s3: S3Server) -> None:
    bucket = s3.bucket()
    store = open_store(f"s3://{bucket}", {f"s3://{bucket}": s3.settings()})

    def write() -> None:
        with store.create("a") as file:
            file.write(b"1")
            raise OSError("the local disk broke")

    with pytest.raises(OSError, match="the local disk broke"):
        write()


def test_a_file_that_s3_cannot_copy_is_refused_before_it_is_sent() -> None:
    class Endless:
        def read(self, size: int) -> bytes:
            return bytes(size)

    store = open_store("s3://b", {"s3://b": {"endpoint": "http://127.0.0.1:1"}})
    with pytest.raises(InfrastructureError) as caught:
        store.put_file("a", Endless(), size=6 << 30, on_progress=lambda _: None)  # type: ignore[arg-type]
    assert caught.value.code == "file-too-large"


@pytest.mark.servers
def test_threads_share_one_connection(s3: S3Server) -> None:
    bucket = s3.bucket()
    store = open_store(f"s3://{bucket}", {f"s3://{bucket}": s3.settings()})
    assert isinstance(store, ObjectStore)
    threads = [threading.Thread(target=put, args=(store, f"{number}.json")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.list(""))) == 8
