"""Spark's temporary files are private and do not outlive their session."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakesmith.jvm import scratch

HOLDS = """
import os, sys, time
from lakesmith.jvm.scratch import own_scratch
own = own_scratch()
os.mkdir(os.path.join(own.folder, "blockmgr"))
print(own.folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_own", [])
    monkeypatch.setattr("atexit.register", lambda _: None)
    return tmp_path


def holder(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with its own folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_is_private_and_unique_for_the_process(temporary: Path) -> None:
    own = scratch.own_scratch()
    assert scratch.own_scratch() is own
    assert Path(own.folder).parent == temporary
    assert os.stat(own.folder).st_mode & 0o777 == 0o700
    (Path(own.folder) / "blockmgr" / "00").mkdir(parents=True)
    (Path(own.folder) / "some.so").touch()
    own.clear()
    assert os.listdir(own.folder) == ["lock"]
    own.remove()
    assert os.listdir(temporary) == []


def test_a_process_that_ends_removes_its_folder(temporary: Path) -> None:
    process, folder = holder(temporary)
    assert folder.is_dir()
    process.communicate()
    assert not folder.exists()


def test_folders_of_killed_processes_are_removed_and_others_are_not(temporary: Path) -> None:
    killed, left = holder(temporary)
    alive, used = holder(temporary)
    foreign = temporary / "spark-5f0c"
    foreign.mkdir()
    new, old = (temporary / f"lakesmith-spark-{name}" for name in ("new", "old"))
    for folder in (new, old):
        folder.mkdir()
    a_day_ago = time.time() - 90_000
    os.utime(old, (a_day_ago, a_day_ago))
    killed.kill()
    killed.communicate()
    assert left.is_dir()
    own = scratch.own_scratch()
    assert {str(path) for path in temporary.iterdir()} == {own.folder, str(used), str(foreign), str(new)}
    alive.communicate()


def test_a_child_that_inherits_the_lock_keeps_the_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = scratch.own_scratch()
    child = subprocess.Popen(["sleep", "60"], pass_fds=[own.lock])
    os.close(own.lock)
    monkeypatch.setattr(scratch, "_own", [])
    scratch.own_scratch()
    assert os.path.isdir(own.folder), "its JVM would lose its files"
    child.kill()
    child.wait()
    monkeypatch.setattr(scratch, "_own", [])
    scratch.own_scratch()
    assert not os.path.exists(own.folder)
