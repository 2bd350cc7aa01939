"""The commit point on a local disk: two processes that share only the folder race for it."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from tests.servers.fetch import strace
from tests.spark import second_writer

from lakesmith.jvm.jars import LOG_STORE, digest, spark_jars
from lakesmith.jvm.java import find_java
from lakesmith.jvm.session import LOG_STORE_CLASS
from lakesmith.store.checksum_files import checksum_path, checksums_of

pytestmark = pytest.mark.spark

OURS = LOG_STORE_CLASS
DELTAS = "io.delta.storage.LocalLogStore"
DELAY = 25
"""Milliseconds between the check whether a version exists and its commit."""
SLOW = 3000
"""Microseconds of delay for every rename and link."""

IN_DELTA = '{"commitInfo":{"timestamp":0,"operation":"WRITE","userMetadata":"%d:%d"}}'
"""A commit that all readers of a log understand."""
WHO = re.compile(r"\b[01]:\d+\b")
"""The writer of a commit and its number."""
ROOT = Path(__file__).parents[2]

Drive = Callable[..., list[str]]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("java_build", ROOT / "java" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def command(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command that starts tests/spark/java/Drive.java."""
    classes = tmp_path_factory.mktemp("classes")
    against = build.class_path()
    build.compile_java([Path(__file__).parent / "java" / "Drive.java"], classes, against=against)
    path = ":".join(map(str, (classes, LOG_STORE, *against, *spark_jars())))
    return [str(find_java().java), "-XX:+UseSerialGC", "-cp", path, "Drive"]


@pytest.fixture(scope="module")
def drive(command: list[str]) -> Iterator[Drive]:
    """One JVM that runs commands in order."""
    with subprocess.Popen([*command, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        requests, answered = served.stdin, served.stdout

        def run(*words: object) -> list[str]:
            requests.write("\x1f".join(map(str, words)).replace("\n", "\x1e") + "\n")
            requests.flush()
            said: list[str] = []
            while (line := answered.readline()) != "done\n":
                assert line, "the JVM has ended"
                said.append(line.removesuffix("\n"))
            assert said.pop() == "well"
            return said

        yield run
        requests.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The confirmed commits of two writers, and the commits in the log."""

    acknowledged: list[str]
    """`writer:version` for every confirmed commit."""
    present: list[str]

    @property
    def gone(self) -> set[str]:
        return set(self.acknowledged) - set(self.present)


def assert_checksums(log: Path) -> None:
    """Assert that each commit has the checksum of its own content, and that no other file is left."""
    for commit in log.glob("[0-9]*.json"):
        assert Path(checksum_path(str(commit))).read_bytes() == checksums_of(commit.read_bytes()), commit
    assert not list(log.glob(".*.tmp"))


def race(command: list[str], store: str, folder: Path, versions: int, delay: int) -> Race:
    log = folder / "_delta_log"
    log.mkdir()
    barrier = folder / "barrier"
    words = [(*command, "race", store, str(log), str(n), str(versions), str(delay), str(barrier)) for n in (0, 1)]
    writers = [subprocess.Popen(w, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for w in words]
    answers = [writer.communicate(timeout=120) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], answers
    lines = [line.split() for out, _ in answers for line in out.splitlines()]
    assert len(lines) == 2 * versions
    present = [(log / f"{version:020}.json").read_text().strip() for version in range(versions)]
    if store == OURS:
        assert_checksums(log)
    return Race(acknowledged=[what for word, what in lines if word == "won"], present=present)


@pytest.mark.verify
def test_exactly_one_of_two_racing_processes_wins_each_of_a_thousand_versions(
    command: list[str], tmp_path: Path
) -> None:
    result = race(command, OURS, tmp_path, versions=1000, delay=0)
    assert sorted(result.acknowledged) == sorted(result.present)
    assert {what[0] for what in result.present} == {"0", "1"}, "one process won everything: nothing was raced"


def test_a_delay_before_the_claim_loses_nothing(command: list[str], tmp_path: Path) -> None:
    result = race(command, OURS, tmp_path, versions=40, delay=DELAY)
    assert sorted(result.acknowledged) == sorted(result.present)


def test_the_same_delay_makes_delta_s_store_lose_acknowledged_commits(command: list[str], tmp_path: Path) -> None:
    result = race(command, DELTAS, tmp_path, versions=40, delay=DELAY)
    assert len(result.gone) >= 10, "a delayed rename has to lose commits again and again, not by luck"


def slowly(microseconds: int) -> list[str]:
    """Run a command with slow renames and links."""
    calls = "rename,renameat,renameat2,link,linkat"
    words = [str(strace()), "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", f"--trace={calls}"]
    return [*words, f"--inject={calls}:delay_enter={microseconds}"]


def answers_of(*commands: list[str]) -> list[str]:
    """Run commands in parallel and return the lines that they print."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(strace().parent)}
    writers = [
        subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        for each in commands
    ]
    try:
        answers = [writer.communicate(timeout=200) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()  # a process waits forever for another that has died
            writer.wait()
    assert {writer.returncode for writer in writers} == {0}, answers
    return [line for out, _ in answers for line in out.splitlines()]


def contend(command: list[str], store: str, folder: Path, commits: int) -> Race:
    """Run two processes that each make this number of commits."""
    log = folder / "_delta_log"
    log.mkdir()
    words = ["commit", store, str(log)]
    lines = answers_of(
        *([*slowly(SLOW), *command, *words, str(n), str(commits), f"{folder}/barrier"] for n in (0, 1)),
    )
    present = [file.read_text().strip() for file in sorted(log.glob("*.json"))]
    if store == OURS:
        assert_checksums(log)
    return Race(acknowledged=[line.split()[1] for line in lines if line.startswith("won")], present=present)


@pytest.mark.verify
def test_two_writers_of_five_hundred_commits_each_on_a_slow_disk_leave_all_thousand(
    command: list[str], tmp_path: Path
) -> None:
    result = contend(command, OURS, tmp_path, 500)
    assert len(result.present) == 1000
    assert sorted(result.present) == sorted(result.acknowledged)
    changes = sum(one[0] != other[0] for one, other in itertools.pairwise(result.present))
    assert changes >= 100, "one process wrote after the other: nothing was raced"


@pytest.mark.verify
def test_the_same_two_writers_lose_commits_with_delta_s_store(command: list[str], tmp_path: Path) -> None:
    result = contend(command, DELTAS, tmp_path, 500)
    assert len(result.acknowledged) == 1000
    assert len(result.gone) >= 10, "a delayed rename has to lose commits again and again, not by luck"


@pytest.mark.parametrize("way", ["links", "files"])
def test_the_store_and_a_python_writer_lose_no_commits_in_one_log(command: list[str], tmp_path: Path, way: str) -> None:
    table, barrier, each = tmp_path / "table", str(tmp_path / "barrier"), 100
    second_writer.make(table)
    log = table / "_delta_log"
    java = [*slowly(SLOW), *command, "commit", OURS, str(log), "0", str(each), barrier, IN_DELTA]
    python = [*slowly(SLOW), sys.executable, "-m", "tests.spark.second_writer", way, str(table), str(each), barrier]
    lines = answers_of(java, python)
    acknowledged = [found for line in lines if line.startswith("won") for found in WHO.findall(line)]
    commits = sorted(log.glob("*.json"))
    assert [commit.stem for commit in commits] == [f"{version:020}" for version in range(2 * each + 1)]
    present = [found for commit in commits[1:] for found in WHO.findall(commit.read_text())]
    assert sorted(present) == sorted(acknowledged)
    assert sorted(present) == sorted(f"{writer}:{number}" for writer in (0, 1) for number in range(each))
    assert_checksums(log)
    assert "lost a version to the other" in lines, "the writers never raced"


def test_an_existing_version_is_rejected_and_unchanged(drive: Drive, tmp_path: Path) -> None:
    commit = tmp_path / "00000000000000000000.json"
    commit.write_text("first\n")
    assert drive("write", OURS, commit, "second", False) == ["lost second"]
    assert commit.read_text() == "first\n"


def test_only_the_commit_and_its_checksum_file_remain(drive: Drive, tmp_path: Path) -> None:
    drive("write", OURS, tmp_path / "00000000000000000000.json", "first", False)
    drive("write", OURS, tmp_path / "00000000000000000000.json", "second", False)
    names = {"00000000000000000000.json", ".00000000000000000000.json.crc"}
    assert {file.name for file in tmp_path.iterdir()} == names


@pytest.mark.parametrize(
    "lines", [["ü"], ["x" * 510], ["x" * 511], ["x" * 512], ["x" * 700, "y"], ["x" * 70_001, "y" * 50_002]]
)
def test_a_commit_gets_the_same_checksum_as_from_python_and_hadoop_and_a_flipped_bit_is_not_read(
    drive: Drive, tmp_path: Path, lines: list[str]
) -> None:
    commit = tmp_path / "00000000000000000000.json"
    drive("write", OURS, commit, "\n".join(lines), False)
    whole = commit.read_bytes()
    assert Path(checksum_path(str(commit))).read_bytes() == checksums_of(whole)
    assert drive("read", OURS, commit) == lines
    commit.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
    *_, last = drive("read", OURS, commit)
    assert last == "rejected org.apache.hadoop.fs.ChecksumException"
    assert commit.is_file(), "Hadoop may put a file away that breaks its seal"
    Path(checksum_path(str(commit))).unlink()
    assert len(drive("read", OURS, commit)) == len(lines)


def test_checksums_of_python_are_verified_by_hadoop_and_a_flipped_bit_is_found(drive: Drive, tmp_path: Path) -> None:
    second_writer.make(tmp_path / "table")
    commit = tmp_path / "table/_delta_log/00000000000000000000.json"
    whole = commit.read_bytes()
    assert drive("read", OURS, commit) == whole.decode().splitlines()
    commit.write_bytes(whole.replace(b'"id"', b'"ie"'))
    assert drive("read", OURS, commit) == ["rejected org.apache.hadoop.fs.ChecksumException"]


def test_an_overwritten_file_can_be_read_although_an_old_checksum_was_beside_it(drive: Drive, tmp_path: Path) -> None:
    file = tmp_path / "_last_checkpoint"
    # Delta's own store writes through Hadoop, and leaves a checksum file.
    drive("write", DELTAS, file, "old", True)
    assert (tmp_path / "._last_checkpoint.crc").is_file()
    drive("write", OURS, file, "new", True)
    assert drive("read", OURS, file) == ["new"]


def test_a_commit_can_be_read_although_a_checksum_of_an_older_file_was_left(drive: Drive, tmp_path: Path) -> None:
    commit = tmp_path / "00000000000000000000.json"
    drive("write", DELTAS, commit, "old", False)
    commit.unlink()
    drive("write", OURS, commit, "new", False)
    assert drive("read", OURS, commit) == ["new"]


def test_files_of_delta_beside_a_commit_are_not_checked_by_older_checksums(drive: Drive, tmp_path: Path) -> None:
    stale = [tmp_path / f".{0:020}.{kind}.crc" for kind in ("json", "crc", "checkpoint.parquet")]
    own_checksum = tmp_path / f".{1:020}.crc.crc"
    for checksum_file in (*stale, own_checksum):
        checksum_file.write_bytes(checksums_of(b"older"))
    (tmp_path / f"{1:020}.crc").write_bytes(b"older")
    drive("write", OURS, tmp_path / f"{0:020}.json", "first", False)
    assert [checksum_file.exists() for checksum_file in stale] == [True, False, False]
    assert stale[0].read_bytes() == checksums_of(b"first\n")
    drive("write", OURS, tmp_path / f"{1:020}.json", "second", False)
    assert own_checksum.exists(), "the file that it is for is there"


def test_a_temporary_file_that_a_killed_writer_left_is_not_listed(drive: Drive, tmp_path: Path) -> None:
    drive("write", OURS, tmp_path / "00000000000000000000.json", "first", False)
    (tmp_path / ".00000000000000000001.json.0b0a.tmp").write_text("half a com")
    assert drive("list", OURS, tmp_path / "00000000000000000000.json") == ["00000000000000000000.json"]


def test_names_with_spaces_percents_and_emoji_are_used_unchanged(drive: Drive, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c 🧊"
    folder.mkdir()
    drive("write", OURS, f"file://{folder}/0.json", "first", False)
    assert (folder / "0.json").read_text() == "first\n"


def test_the_shipped_jar_is_built_from_the_source(build: ModuleType, tmp_path: Path) -> None:
    rebuilt = tmp_path / "rebuilt.jar"
    build.build(rebuilt)
    assert digest(rebuilt) == digest(LOG_STORE), "run `make log-store` after a change to java/src"
