"""The JVM is killed while it writes: the process that used it says what to do next, and the lake keeps its promises."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tests.faults.attach import Engine
from tests.faults.siege import PATIENCE, Oracle, Siege, untyped
from tests.faults.victim import answer_of, start

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(1200)]

TRIES = 4
"""So many times at the most a JVM may be too fast to be killed in the middle of something."""


@pytest.fixture
def engines() -> Iterator[Callable[[], Engine]]:
    """Starts JVMs."""
    started: list[Engine] = []

    def make() -> Engine:
        started.append(Engine())
        return started[-1]

    yield make
    for engine in started:
        engine.close()


def test_a_jvm_that_dies_in_the_middle_of_a_parquet_file_leaves_nothing_behind_that_counts(
    engines: Callable[[], Engine], oracle: Oracle, tmp_path: Path
) -> None:
    engine = engines()
    siege = Siege(tmp_path / "slow", "slow", 7, oracle, engine.jvm)
    siege.land()
    assert siege.settle() == []
    for both in (False, True):
        siege.land()
        siege.land()
        before = _data_files(siege)
        order = siege.order()
        process = start(order)
        unfinished = _first(partial(_unfinished, siege, before))
        os.kill(engine.jvm.process, signal.SIGKILL)
        if both:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE)
        assert unfinished
        answer = answer_of(order)
        assert (answer is None) == both
        if answer is not None:
            assert answer.errors
            assert not untyped(answer)
        assert siege.judge() == []
        engine.close()
        engine = engines()
        siege.jvm = engine.jvm
        assert siege.settle() == []


def test_a_jvm_that_dies_while_it_sums_up_the_log_leaves_a_log_that_can_be_read(
    engines: Callable[[], Engine], oracle: Oracle, tmp_path: Path
) -> None:
    engine = engines()
    siege = Siege(tmp_path / "merge", "merge", 7, oracle, engine.jvm)
    siege.land()
    assert siege.settle() == []
    log = siege.folder / ".lakesmith/warehouse/silver/events/_delta_log"
    _sum_up_every_version(log)
    for _ in range(TRIES):
        siege.land()
        before = _summed(log)
        order = siege.order()
        process = start(order)
        seen = _first(partial(_begun, log, before))
        os.kill(engine.jvm.process, signal.SIGKILL)
        process.join(PATIENCE)
        assert seen
        in_time = max(map(_version, seen)) > _pointed_at(log)
        assert not untyped(answer_of(order))
        assert siege.judge() == []
        engine.close()
        engine = engines()
        siege.jvm = engine.jvm
        if in_time:
            break
        assert siege.settle() == []
    else:
        pytest.fail("each time the log was summed up before the JVM was killed")
    siege.land()
    assert siege.settle() == []
    assert _pointed_at(log) == max(map(_version, log.glob("*.json")))


def _sum_up_every_version(log: Path) -> None:
    """A commit by hand, with which Delta writes a checkpoint after each version."""
    commits = sorted(log.glob("*.json"))
    told = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    metadata = [action["metaData"] for action in told if "metaData" in action][-1]
    often = {**metadata, "configuration": {**metadata["configuration"], "delta.checkpointInterval": "1"}}
    info = {"timestamp": int(time.time() * 1000), "operation": "SET TBLPROPERTIES", "operationParameters": {}}
    lines = [json.dumps({"commitInfo": info}), json.dumps({"metaData": often})]
    (log / f"{len(commits):020}.json").write_text("".join(f"{line}\n" for line in lines))


def _summed(log: Path) -> set[Path]:
    """The sums of the log, ended or begun."""
    return {path for path in log.iterdir() if ".checkpoint." in path.name}


def _begun(log: Path, before: set[Path]) -> set[Path]:
    return _summed(log) - before


def _version(file: Path) -> int:
    return int(re.findall(r"\d{20}", file.name)[0])


def _pointed_at(log: Path) -> int:
    """The version of the newest sum that is ended."""
    pointer = log / "_last_checkpoint"
    return int(json.loads(pointer.read_text())["version"]) if pointer.exists() else -1


def _data_files(siege: Siege) -> set[Path]:
    """The Parquet files of the silver table, committed, staged or being written."""
    warehouse = siege.folder / ".lakesmith" / "warehouse"
    folders = (warehouse / "silver", warehouse / "_lakesmith" / "checked")
    return {file for folder in folders if folder.is_dir() for file in folder.rglob("*.parquet")}


def _unfinished(siege: Siege, before: set[Path]) -> set[Path]:
    return {file for file in _data_files(siege) - before if _is_unfinished(file)}


def _is_unfinished(file: Path) -> bool:
    """Whether a Parquet file has no end yet."""
    with suppress(FileNotFoundError):
        return not file.read_bytes().endswith(b"PAR1") or file.stat().st_size < 8
    return False


def _first(look: Callable[[], set[Path]]) -> set[Path]:
    """What is seen first."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if found := look():
                return found
        time.sleep(0.001)
    return set()
