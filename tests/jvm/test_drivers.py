"""JDBC drivers by coordinate: found in the cache, and fetched only on request."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lakesmith.errors import LakesmithError
from lakesmith.jvm.drivers import driver_class, driver_jars, fetch_driver
from lakesmith.jvm.jars import locked

POSTGRESQL = {"url": "jdbc:postgresql://127.0.0.1/shop"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKESMITH_CACHE", str(tmp_path))
    return tmp_path


def put(file: Path, entries: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as jar:
        for name, text in entries.items():
            jar.writestr(name, text)


def test_postgresql_needs_no_driver_setting() -> None:
    (jar,) = locked(["postgresql"])
    for settings in (POSTGRESQL, {**POSTGRESQL, "driver": f"{jar.group}:{jar.artifact}:{jar.version}"}):
        assert fetch_driver(settings) == driver_jars(settings) == (jar.path,)
        assert driver_class(settings) == "org.postgresql.Driver"


def test_the_error_for_a_missing_driver_names_the_command_to_fetch_it(cache: Path) -> None:
    with pytest.raises(LakesmithError) as caught:
        driver_jars(POSTGRESQL)
    assert (caught.value.code, caught.value.exit_code) == ("driver-missing", 4)
    assert "lakesmith doctor --fix" in str(caught.value.hint)


def test_any_driver_is_found_by_its_coordinate_with_its_class(cache: Path) -> None:
    settings = {"url": "jdbc:acme:shop", "driver": "com.acme:acme-jdbc:1.0, com.acme:acme-common:2.0"}
    folder = cache / "drivers" / "com.acme"
    put(folder / "acme-jdbc-1.0.jar", {"META-INF/services/java.sql.Driver": "com.acme.Driver # ours\n"})
    put(folder / "acme-common-2.0.jar", {})
    assert [path.name for path in driver_jars(settings)] == ["acme-jdbc-1.0.jar", "acme-common-2.0.jar"]
    assert driver_class(settings) == "com.acme.Driver"
    assert driver_class({**settings, "driver.class": "com.acme.Other"}) == "com.acme.Other"


def test_a_driver_is_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[tuple[str, str, str]] = []

    def download(coordinates: list[tuple[str, str, str]], folder: Path) -> tuple[Path, ...]:
        requested.extend(coordinates)
        file = folder / "acme-1.0.jar"
        file.write_bytes(b"jar")
        return (file,)

    monkeypatch.setattr("lakesmith.jvm.drivers.download", download)
    settings = {"url": "jdbc:acme:shop", "driver": "com.acme:acme:1.0"}
    for _ in range(2):
        assert fetch_driver(settings) == (cache / "drivers" / "com.acme" / "acme-1.0.jar",)
    assert requested == [("com.acme", "acme", "1.0")]
    assert driver_jars(settings)[0].read_bytes() == b"jar"


@pytest.mark.parametrize("settings", [{"url": "jdbc:acme:shop"}, {"url": "jdbc:acme:shop", "driver": "acme.jar"}])
def test_a_driver_without_a_class_is_rejected(settings: dict[str, str]) -> None:
    with pytest.raises(LakesmithError) as caught:
        driver_jars(settings)
    assert caught.value.code == "unknown-driver"
    assert "org.postgresql:postgresql" in str(caught.value.hint)
