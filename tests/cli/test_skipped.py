"""A plan and one run report the entries of a landing folder that cannot be ingested."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke, Parsed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake whose landing folder has nothing to ingest."""
    monkeypatch.setenv("LAKESMITH_CACHE", str(tmp_path / "cache"))
    lake = tmp_path / "shop"
    (lake / "bronze").mkdir(parents=True)
    (lake / "landing").mkdir()
    (lake / "lakesmith.yml").write_text("name: shop\n")
    (lake / "bronze" / "orders.yml").write_text("source: {files: landing/*.json}\n")
    os.mkfifo(lake / "landing" / "a.json")
    (lake / "landing" / "b\x1b[2J.json").symlink_to("/etc/hostname")
    Path(os.fsdecode(os.fsencode(lake) + b"/landing/caf\xe9.json")).touch()
    monkeypatch.chdir(lake)
    return lake


SHOWN = (
    "landing/a.json: it is a FIFO",
    "landing/b\\x1b[2J.json: it is a symbolic link that leaves the landing folder; `symlinks: anywhere`",
    "landing/caf\\xe9.json: its name is not UTF-8",
)


def test_a_plan_shows_what_is_skipped_until_a_run_has_reported_it(folder: Path, invoke: Invoke) -> None:
    for _ in range(2):
        plan = invoke("plan")
        assert plan.exit_code == 0
        assert [text for text in SHOWN if f"skips {text}" not in plan.stdout] == []
    first = invoke("run")
    assert first.exit_code == 0
    assert [text for text in SHOWN if f"skipped: bronze.orders: {text}" not in first.stdout] == []
    assert "(name-not-utf8)" in first.stdout
    assert "nothing to do" in first.stdout
    assert "skip" not in invoke("plan").stdout
    assert "skip" not in invoke("run").stdout
    found = invoke("query", "SELECT file, code FROM system.skipped ORDER BY file", "--format", "csv").stdout
    assert found.splitlines()[-1] == "landing/caf\\xe9.json,name-not-utf8"


def test_json_has_every_skipped_entry(folder: Path, invoke: Invoke, parsed: Parsed) -> None:
    for number in range(30):
        (folder / "landing" / f"_{number:02}.json").touch()
    (table,) = parsed(invoke("plan", "--json"))["tables"]
    assert len(table["skipped"]) == 33
    assert table["skipped"][-1]["code"] == "name-not-utf8"
    assert "skips 23 more; --json lists them" in invoke("plan").stdout
    report = parsed(invoke("run", "--json"))
    assert (report["outcome"], len(report["skipped"])) == ("ok", 33)
    assert {entry["table"] for entry in report["skipped"]} == {"bronze.orders"}
    assert parsed(invoke("run", "--json"))["skipped"] == []
    (folder / "landing" / "_30.json").touch()
    assert len(parsed(invoke("run", "--json"))["skipped"]) == 1


def test_a_corrupt_ledger_only_repeats_the_report_of_skipped_entries(folder: Path, invoke: Invoke) -> None:
    assert invoke("run").exit_code == 0
    for commit in (folder / ".lakesmith/warehouse/system/skipped/_delta_log").glob("*.json"):
        commit.write_text("{broken")
    plan = invoke("plan")
    assert plan.exit_code == 0
    assert "skips landing/a.json" in plan.stdout
    run = invoke("run")
    assert run.exit_code == 4
    assert "[ledger-write-failed]" in run.stderr
