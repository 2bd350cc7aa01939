"""The commit point on S3: two processes race for it, also over a failing network."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.servers.http_proxy import HttpProxy
from tests.servers.s3 import S3Server
from tests.spark.test_log_store import Race, build, command

from lakesmith.jvm.jars import locked
from lakesmith.jvm.session import S3_LOG_STORE_CLASS

__all__ = ["build", "command"]

pytestmark = [pytest.mark.spark, pytest.mark.servers]

DELTAS = "io.delta.storage.S3SingleDriverLogStore"


class Log:
    """The log of a table in a separate bucket, written by processes through a port."""

    def __init__(self, command: list[str], s3: S3Server, port: int | None = None) -> None:
        bucket = s3.bucket()
        self.folder = s3.folder / bucket / "_delta_log"
        self.url = f"s3a://{bucket}/_delta_log"
        settings = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{port or s3.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": s3.key,
            "fs.s3a.secret.key": s3.secret,
            "fs.s3a.retry.interval": "50ms",
            "defaults": "true",
        }
        jars = ":".join(str(jar.path) for jar in locked(["s3"]))
        at = command.index("-cp") + 1
        words = [*command[:at], f"{command[at]}:{jars}", *command[at + 1 :]]
        self._command = [words[0], *(f"-D{name}={value}" for name, value in settings.items()), *words[1:]]

    def drive(self, *words: object) -> list[str]:
        answer = subprocess.run([*self._command, *map(str, words)], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    def write(self, version: int, line: str, store: str = S3_LOG_STORE_CLASS) -> list[str]:
        return self.drive("write", store, f"{self.url}/{version:020}.json", line, False)

    def race(self, store: str, commits: int, barrier: Path) -> Race:
        """Run two processes that each make this number of commits, each with the next free version."""
        words = [(*self._command, "commit", store, self.url, str(n), str(commits), str(barrier)) for n in (0, 1)]
        writers = [subprocess.Popen(w, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for w in words]
        answers = [writer.communicate(timeout=200) for writer in writers]
        assert [writer.returncode for writer in writers] == [0, 0], answers
        lines = [line.split() for out, _ in answers for line in out.splitlines()]
        return Race(acknowledged=[what for word, what in lines if word == "won"], present=self.present())

    def present(self) -> list[str]:
        return [file.read_text().strip() for file in sorted(self.folder.glob("*.json"))]


def test_two_processes_that_commit_to_one_log_lose_nothing(command: list[str], s3: S3Server, tmp_path: Path) -> None:
    result = Log(command, s3).race(S3_LOG_STORE_CLASS, 100, tmp_path / "barrier")
    assert len(result.present) == 200
    assert sorted(result.present) == sorted(result.acknowledged)


@pytest.mark.verify
def test_the_same_two_processes_lose_commits_with_delta_s_store(
    command: list[str], s3: S3Server, tmp_path: Path
) -> None:
    result = Log(command, s3).race(DELTAS, 100, tmp_path / "barrier")
    assert len(result.acknowledged) == 200
    assert result.gone


def test_a_commit_with_a_lost_reply_is_made_once_and_recognized(
    command: list[str], s3: S3Server, http_proxy_to: Callable[[int], HttpProxy]
) -> None:
    proxy = http_proxy_to(s3.port)
    log = Log(command, s3, proxy.port)
    proxy.fail("drop reply", "PUT", ".json")
    assert log.write(0, "first") == ["won first"]
    assert [each.split()[0] for each in proxy.failed] == ["PUT"]
    assert sum(each.startswith("PUT") and ".json" in each for each in proxy.seen) >= 2
    assert log.write(0, "second") == ["lost second"]
    assert log.present() == ["first"]


def test_a_busy_store_is_retried_and_a_commit_is_made_once(
    command: list[str], s3: S3Server, http_proxy_to: Callable[[int], HttpProxy]
) -> None:
    proxy = http_proxy_to(s3.port)
    log = Log(command, s3, proxy.port)
    proxy.fail("503", "PUT", ".json", times=2)
    proxy.fail("reset", "PUT", ".json")
    assert log.write(0, "first") == ["won first"]
    assert len(proxy.failed) == 3
    assert log.drive("read", S3_LOG_STORE_CLASS, f"{log.url}/{0:020}.json") == ["first"]
    assert log.drive("list", S3_LOG_STORE_CLASS, f"{log.url}/{0:020}.json") == [f"{0:020}.json"]
