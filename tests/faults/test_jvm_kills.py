"""The JVM is killed while it writes: its process reports a next step, and the lake keeps its promises."""

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
from tests.faults.attacked_lake import PATIENCE, AttackedLake, Oracle, untyped
from tests.faults.lake_process import answer_of, start

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(1200)]

TRIES = 4
"""The maximum number of tries to kill a JVM while it writes a checkpoint."""


@pytest.fixture
def engines() -> Iterator[Callable[[], Engine]]:
    """Start JVMs."""
    started: list[Engine] = []

    def make() -> Engine:
        started.append(Engine())
        return started[-1]

    yield make
    for engine in started:
        engine.close()


def test_a_jvm_that_dies_while_it_writes_parquet_leaves_no_visible_rows(
    engines: Callable[[], Engine], oracle: Oracle, tmp_path: Path
) -> None:
    engine = engines()
    lake = AttackedLake(tmp_path / "slow", "slow", 7, oracle, engine.jvm)
    lake.land()
    assert lake.run_to_completion() == []
    for both in (False, True):
        lake.land()
        lake.land()
        before = _data_files(lake)
        order = lake.order()
        process = start(order)
        unfinished = _wait_for(partial(_unfinished, lake, before))
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
        assert lake.check() == []
        engine.close()
        engine = engines()
        lake.jvm = engine.jvm
        assert lake.run_to_completion() == []


def test_a_jvm_that_dies_while_it_writes_a_checkpoint_leaves_a_readable_log(
    engines: Callable[[], Engine], oracle: Oracle, tmp_path: Path
) -> None:
    engine = engines()
    lake = AttackedLake(tmp_path / "merge", "merge", 7, oracle, engine.jvm)
    lake.land()
    assert lake.run_to_completion() == []
    log = lake.folder / ".lakesmith/warehouse/silver/events/_delta_log"
    _checkpoint_every_version(log)
    for _ in range(TRIES):
        lake.land()
        before = _checkpoints(log)
        order = lake.order()
        process = start(order)
        seen = _wait_for(partial(_new_checkpoints, log, before))
        os.kill(engine.jvm.process, signal.SIGKILL)
        process.join(PATIENCE)
        assert seen
        in_time = max(map(_version, seen)) > _newest_checkpoint(log)
        assert not untyped(answer_of(order))
        assert lake.check() == []
        engine.close()
        engine = engines()
        lake.jvm = engine.jvm
        if in_time:
            break
        assert lake.run_to_completion() == []
    else:
        pytest.fail("each time the checkpoint was complete before the JVM was killed")
    lake.land()
    assert lake.run_to_completion() == []
    assert _newest_checkpoint(log) == max(map(_version, log.glob("*.json")))


def _checkpoint_every_version(log: Path) -> None:
    """Commit a property that makes Delta write a checkpoint after each version."""
    commits = sorted(log.glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
    often = {**metadata, "configuration": {**metadata["configuration"], "delta.checkpointInterval": "1"}}
    info = {"timestamp": int(time.time() * 1000), "operation": "SET TBLPROPERTIES", "operationParameters": {}}
    lines = [json.dumps({"commitInfo": info}), json.dumps({"metaData": often})]
    (log / f"{len(commits):020}.json").write_text("".join(f"{line}\n" for line in lines))


def _checkpoints(log: Path) -> set[Path]:
    """Return the complete and incomplete checkpoints of the log."""
    return {path for path in log.iterdir() if ".checkpoint." in path.name}


def _new_checkpoints(log: Path, before: set[Path]) -> set[Path]:
    return _checkpoints(log) - before


def _version(file: Path) -> int:
    return int(re.findall(r"\d{20}", file.name)[0])


def _newest_checkpoint(log: Path) -> int:
    """Return the version of the newest complete checkpoint."""
    pointer = log / "_last_checkpoint"
    return int(json.loads(pointer.read_text())["version"]) if pointer.exists() else -1


def _data_files(lake: AttackedLake) -> set[Path]:
    """Return the Parquet files of the silver table: committed, staged or being written."""
    warehouse = lake.folder / ".lakesmith" / "warehouse"
    return set((warehouse / "silver").rglob("*.parquet"))


def _unfinished(lake: AttackedLake, before: set[Path]) -> set[Path]:
    return {file for file in _data_files(lake) - before if _is_unfinished(file)}


def _is_unfinished(file: Path) -> bool:
    """Return whether a Parquet file is incomplete."""
    with suppress(FileNotFoundError):
        return not file.read_bytes().endswith(b"PAR1") or file.stat().st_size < 8
    return False


def _wait_for(look: Callable[[], set[Path]]) -> set[Path]:
    """Wait until `look` finds files, and return them."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if found := look():
                return found
        time.sleep(0.001)
    return set()
