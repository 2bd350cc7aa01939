from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lakesmith.cli.call import Call
from lakesmith.cli.commands.land import land
from lakesmith.errors import DataError
from lakesmith.store import LandedFile, LandingProgress, LandingReport

DIGEST = "a" * 64


class Lake:
    """A fake lake that lands files at once and records the last call."""

    def __init__(self) -> None:
        self.called: dict[str, Any] = {}
        self.rejects = False

    def land(
        self,
        files: Sequence[str],
        *,
        to: str,
        name: str | None = None,
        on_progress: Callable[[LandingProgress], None] | None = None,
    ) -> LandingReport:
        self.called = {"files": files, "to": to, "name": name, "progress": on_progress is not None}
        if on_progress:
            on_progress(LandingProgress(file=files[0], sent=5, bytes=10))
        error = DataError("landed-other-bytes", "other bytes", table=to)
        landed = LandedFile(
            file=files[0],
            location=f"s3://drops/orders/{files[0]}",
            state="rejected" if self.rejects else "landed",
            bytes=2048,
            sha256=DIGEST,
        )
        return LandingReport(table=to, files=(landed,), errors=(error,) if self.rejects else ())


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    fake = Lake()
    monkeypatch.setattr(Call, "open", lambda self: fake)
    return fake


def invoke(*words: str) -> Result:
    return CliRunner().invoke(land, words, obj=Call())


def test_land_shows_where_each_file_is_now(lake: Lake) -> None:
    result = invoke("a.json", "--to", "bronze.orders")
    assert result.exit_code == 0
    assert result.stdout == f"landed  s3://drops/orders/a.json  2.0 kB  sha256 {DIGEST[:12]}…\n"
    assert lake.called == {"files": ("a.json",), "to": "bronze.orders", "name": None, "progress": False}


def test_land_accepts_another_name(lake: Lake) -> None:
    invoke("a.json", "--to", "bronze.orders", "--as", "b.json")
    assert lake.called["name"] == "b.json"


def test_a_rejected_file_gives_the_code_of_its_error(lake: Lake) -> None:
    lake.rejects = True
    result = invoke("a.json", "--to", "bronze.orders")
    assert result.exit_code == 1
    assert result.stdout.startswith("rejected  ")
    assert "[landed-other-bytes]" in result.stderr


def test_land_prints_json(lake: Lake) -> None:
    lake.rejects = True
    result = invoke("a.json", "--to", "bronze.orders", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["table"], answer["files"][0]["state"]) == (1, "bronze.orders", "rejected")
    assert answer["errors"][0]["code"] == "landed-other-bytes"


def test_a_terminal_shows_a_progress_bar(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = invoke("a.json", "--to", "bronze.orders")
    assert lake.called["progress"]
    assert "a.json" in result.stderr


@pytest.mark.parametrize("words", [(), ("a.json",), ("--to", "bronze.orders")])
def test_land_requires_a_file_and_a_table(lake: Lake, words: tuple[str, ...]) -> None:
    assert invoke(*words).exit_code == 2
