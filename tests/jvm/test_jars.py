"""The lock file of jars, and the errors for missing or corrupt ones."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.jvm import jars
from lakesmith.jvm.jars import Jar, damaged, jar_paths, locked, log_store, read_lock, resolve_jars
from lakesmith.jvm.java import JavaHome

CONTENT = b"the jar as it was locked"


@pytest.fixture
def jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Jar:
    """A lock file with one jar, and an empty cache."""
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# why\n[delta]\norg.example:thing:1.0 {sha256(CONTENT).hexdigest()} {len(CONTENT)}\n")
    monkeypatch.setattr(jars, "LOCK", lock)
    monkeypatch.setenv("LAKESMITH_CACHE", str(tmp_path / "cache"))
    return locked(["delta"])[0]


def deliver(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[int]:
    """Make every download return these bytes; return the number of requested jars of each download."""
    requested = []

    def download(coordinates: list[tuple[str, str, str]], folder: Path, java: JavaHome | None) -> tuple[Path, ...]:
        requested.append(len(coordinates))
        files = tuple(folder / f"{artifact}-{version}.jar" for _, artifact, version in coordinates)
        for file in files:
            file.write_bytes(content)
        return files

    monkeypatch.setattr(jars, "download", download)
    return requested


def test_every_line_of_the_lock_file_has_a_hash_and_a_size() -> None:
    for name, members in read_lock(jars.LOCK.read_text()).items():
        assert members, f"set {name} is empty"
        assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in members)


def test_the_lock_file_names_no_repository() -> None:
    assert "://" not in jars.LOCK.read_text()


def test_an_unknown_set_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(InfrastructureError) as caught:
        locked(["icebreg"])
    assert caught.value.code == "unknown-jars"
    assert "did you mean 'iceberg'?" in str(caught.value.hint)


def test_a_missing_jar_stops_a_session_and_names_the_command_to_fetch_it(jar: Jar) -> None:
    with pytest.raises(InfrastructureError) as caught:
        jar_paths(["delta"])
    assert caught.value.code == "jars-missing"
    assert jar.name in caught.value.what
    assert caught.value.hint == "lakesmith doctor --fix"


def test_a_truncated_jar_counts_as_missing(jar: Jar) -> None:
    jar.path.parent.mkdir(parents=True)
    jar.path.write_bytes(CONTENT[:-1])
    with pytest.raises(InfrastructureError, match="missing or incomplete"):
        jar_paths(["delta"])


def test_a_jar_of_the_right_size_with_other_bytes_is_corrupt(jar: Jar) -> None:
    jar.path.parent.mkdir(parents=True)
    jar.path.write_bytes(CONTENT[::-1])
    assert damaged([jar]) == [jar]


def test_a_fetched_jar_is_cached_and_not_fetched_again(monkeypatch: pytest.MonkeyPatch, jar: Jar) -> None:
    requested = deliver(monkeypatch, CONTENT)
    assert resolve_jars(["delta"]) == (jar.path,)
    assert resolve_jars(["delta"]) == (jar.path,)
    assert jar.path.read_bytes() == CONTENT
    assert requested == [1]


def test_a_jar_with_another_hash_never_reaches_the_cache(monkeypatch: pytest.MonkeyPatch, jar: Jar) -> None:
    deliver(monkeypatch, CONTENT + b" with a present")
    with pytest.raises(InfrastructureError) as caught:
        resolve_jars(["delta"])
    assert caught.value.code == "jar-differs"
    assert list(jar.path.parent.parent.rglob("*.jar")) == []


def test_the_log_store_is_first_on_the_class_path(monkeypatch: pytest.MonkeyPatch, jar: Jar) -> None:
    deliver(monkeypatch, CONTENT)
    resolve_jars(["delta"])
    assert jar_paths(["delta"]) == (jars.LOG_STORE, jar.path)


def test_a_changed_log_store_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed = tmp_path / "lakesmith-log-store.jar"
    changed.write_bytes(jars.LOG_STORE.read_bytes() + b"x")
    changed.with_suffix(".jar.sha256").write_bytes(jars.LOG_STORE.with_suffix(".jar.sha256").read_bytes())
    monkeypatch.setattr(jars, "LOG_STORE", changed)
    with pytest.raises(InfrastructureError, match="was changed after"):
        log_store()


@pytest.mark.spark
def test_ivy_fetches_exactly_the_requested_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAKESMITH_CACHE", str(tmp_path))
    fetched = resolve_jars(["postgresql"])
    assert [file.name for file in (tmp_path / "jars").iterdir()] == [file.name for file in fetched]


@pytest.mark.spark
def test_a_jar_that_cannot_be_found_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"no-such-jar") as caught:
        jars.download([("io.lakesmith", "no-such-jar", "0.0.1")], tmp_path)
    assert caught.value.code == "jars-unreachable"
