"""The settings of Spark; a start prints nothing, is isolated and commits safely."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakesmith.declare.secrets import Secret, SecretReference, Settings
from lakesmith.errors import InfrastructureError
from lakesmith.jvm import session as sessions
from lakesmith.jvm.class_archive import class_archive_files, sizes, sizes_file, usable_archive
from lakesmith.jvm.jars import jar_paths
from lakesmith.jvm.java import JavaHome, find_java
from lakesmith.jvm.session import isolated, open_session, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = JavaHome(path=Path("/java"), version="17.0.1", origin="folder")
JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))

Merged = Callable[[Mapping[str, str]], dict[str, str]]


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> Merged:
    """Return Lakesmith's settings with a user's, on a machine without a class archive."""
    monkeypatch.setattr(sessions, "usable_archive", lambda java, jars: ())
    return lambda user: session_settings(user, java=JAVA, jars=JARS)


def test_a_remote_spark_that_does_not_listen_is_reported_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(InfrastructureError, match=f"sc://127.0.0.1:{port} did not answer") as caught:
            open_session("far", {"spark.remote": f"sc://127.0.0.1:{port}"})
    assert caught.value.code == "spark-start"


def test_settings_of_the_user_win(merged: Merged) -> None:
    assert merged({"spark.sql.shuffle.partitions": "7"})["spark.sql.shuffle.partitions"] == "7"


def test_a_local_spark_shuffles_into_as_many_partitions_as_it_has_cores(merged: Merged) -> None:
    assert merged({"spark.master": "local[3]"})["spark.sql.shuffle.partitions"] == "3"


def test_a_cluster_gets_the_jars_and_keeps_its_own_sizes(merged: Merged) -> None:
    settings = merged({"spark.master": "spark://host:7077"})
    assert settings["spark.jars"] == "file:///jars/a.jar,file:///jars/b.jar"
    assert "spark.sql.shuffle.partitions" not in settings
    assert "spark.driver.memory" not in settings


def test_a_users_extensions_and_class_path_are_added_to_those_of_delta(merged: Merged) -> None:
    settings = merged({"spark.sql.extensions": "org.example.More", "spark.driver.extraClassPath": "/c.jar"})
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,org.example.More"
    assert settings["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar:/c.jar"


def test_spark_hides_settings_with_secrets_under_any_name(merged: Merged) -> None:
    secret = Secret((SecretReference("env", "HOME"),))
    settings = Settings({"spark.hadoop.fs.quiet": secret, "spark.redaction.regex": "mine", "spark.loud": "1"})
    regex = merged(settings)["spark.redaction.regex"]
    hidden = [
        key for key in ("fs.quiet", "spark.hadoop.fs.quiet", "spark.ssl.password", "mine") if re.search(regex, key)
    ]
    assert hidden == ["fs.quiet", "spark.hadoop.fs.quiet", "spark.ssl.password", "mine"]
    assert not re.search(regex, "spark.loud")


def test_the_jvm_gets_only_the_secret_variables_that_its_libraries_read() -> None:
    with sessions._environment(find_java(), ("SHOP_TOKEN", "AWS_SECRET_ACCESS_KEY", "HOME", "ALSO")):
        assert os.environ["LAKESMITH_UNSET"] == "ALSO SHOP_TOKEN"
    assert "LAKESMITH_UNSET" not in os.environ


def test_a_token_in_the_address_of_a_remote_spark_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_REMOTE", "sc://127.0.0.1:1/;token=hush-hush;user_id=reader")
    with pytest.raises(InfrastructureError, match=r"sc://127\.0\.0\.1:1 did not answer") as caught:
        open_session("far", Settings({"spark.remote": Secret((SecretReference("env", "SHOP_REMOTE"),))}))
    assert "hush-hush" not in str(caught.value)


def test_an_existing_class_archive_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    files = (Path("/cache/jdk.base"), Path("/cache/spark.jsa"))
    monkeypatch.setattr(sessions, "usable_archive", lambda java, jars: files)
    assert "-XX:SharedArchiveFile=/cache/jdk.base:/cache/spark.jsa" in sessions.java_options(JAVA, JARS)


def test_without_a_class_archive_no_option_names_one(merged: Merged) -> None:
    assert "SharedArchiveFile" not in merged({})["spark.driver.extraJavaOptions"]


def test_a_failed_start_restores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/elsewhere")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    inside: dict[str, str] = {}
    with suppress(ZeroDivisionError), sessions._environment(find_java(), (), sys.executable):
        inside.update(os.environ)
        raise ZeroDivisionError
    assert inside["PYSPARK_PYTHON"] == sys.executable
    assert inside["SPARK_HOME"] != "/elsewhere"
    assert os.environ["SPARK_HOME"] == "/elsewhere"
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.spark
def test_views_and_settings_of_an_isolated_session_do_not_reach_another(spark: SparkSession) -> None:
    one, other = isolated(spark), isolated(spark)
    one.range(1).createOrReplaceTempView("mine")
    one.conf.set("spark.databricks.delta.write.txnAppId", "flow")
    assert not other.catalog.tableExists("mine")
    assert other.conf.get("spark.databricks.delta.write.txnAppId", "unset") == "unset"
    assert other.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_commits_use_the_log_store_of_lakesmith(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        writer = spark.range(3).write.format("delta").mode("append").option("delta.checkpointInterval", 1)
        writer.save(str(tmp_path / "table"))
    log = {file.name for file in (tmp_path / "table" / "_delta_log").iterdir()}
    assert {"00000000000000000001.json", ".00000000000000000001.json.crc", "_last_checkpoint"} <= log
    # Delta's own store would leave a checksum file beside each file that it overwrites.
    assert "._last_checkpoint.crc" not in log


@pytest.mark.spark
def test_output_of_the_jvm_is_not_part_of_a_command_s_output(shared_spark: SparkSession) -> None:
    jvm: Any = shared_spark.sparkContext._jvm
    files = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/fd")
    assert (files / "1").readlink() == (files / "2").readlink()


@pytest.mark.spark
def test_opening_a_running_session_returns_it(shared_spark: SparkSession, spark: SparkSession) -> None:
    assert open_session("again", {}).sparkContext is shared_spark.sparkContext


@pytest.mark.spark
def test_a_foreign_session_is_rejected(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sessions.DELTA, "spark.sql.catalog.spark_catalog", "org.example.Other")
    monkeypatch.setattr(spark.__class__.builder.__class__, "getOrCreate", lambda builder: spark)
    with pytest.raises(InfrastructureError) as caught:
        open_session("again", {})
    assert caught.value.code == "foreign-session"


def start(folder: Path, settings: str = "{}") -> subprocess.CompletedProcess[str]:
    script = (
        "from lakesmith.errors import LakesmithError\n"
        "from lakesmith.jvm.session import open_session\n"
        "try:\n"
        f"    spark = open_session('a start', {settings})\n"
        "except LakesmithError as error:\n"
        "    print(error.code)\n"
        "else:\n"
        "    print(spark.range(5).count())\n"
        "    spark.stop()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=240,
    )


@pytest.mark.spark
def test_a_start_prints_nothing_and_leaves_nothing_in_the_folder(tmp_path: Path) -> None:
    answer = start(tmp_path)
    assert (answer.stdout, answer.stderr) == ("5\n", "")
    assert list(tmp_path.iterdir()) == []


def lend_archive(monkeypatch: pytest.MonkeyPatch, cache: Path) -> tuple[Path, ...]:
    """A cache whose class archive was created for jars at another path."""
    real = usable_archive(find_java(), jar_paths())
    assert real, "make setup makes one"
    (cache / "archive").mkdir(parents=True)
    (cache / "jars").symlink_to(real[0].parent.parent / "jars")
    monkeypatch.setenv("LAKESMITH_CACHE", str(cache))
    lent = class_archive_files(find_java(), jar_paths())
    assert lent[0].name != real[0].name
    for mine, theirs in zip(real, lent, strict=True):
        shutil.copyfile(mine, theirs)
    sizes_file(lent).write_text(sizes(lent))
    return lent


@pytest.mark.verify
@pytest.mark.spark
def test_an_unusable_class_archive_is_silently_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lend_archive(monkeypatch, tmp_path / "cache")
    answer = start(tmp_path)
    assert (answer.stdout, answer.stderr) == ("5\n", "")


@pytest.mark.verify
@pytest.mark.spark
def test_a_truncated_archive_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = lend_archive(monkeypatch, tmp_path / "cache")
    assert usable_archive(find_java(), jar_paths()) == archive
    os.truncate(archive[-1], 4096)
    assert usable_archive(find_java(), jar_paths()) == ()


@pytest.mark.spark
def test_a_spark_that_cannot_start_is_an_infrastructure_error(tmp_path: Path) -> None:
    answer = start(tmp_path, "{'spark.driver.memory': 'plenty'}")
    assert answer.stdout == "spark-start\n"
