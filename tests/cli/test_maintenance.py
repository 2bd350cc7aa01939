"""The commands `compact`, `vacuum`, `restore`, `rollback` and `releases`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from tests.cli.conftest import FakeLake, Invoke, Parsed


@pytest.mark.parametrize(
    ("typed", "called", "shown"),
    [
        (("compact",), {"method": "plan_compact", "tables": ()}, "compact 3 files"),
        (
            ("vacuum", "silver.orders", "--older-than", "30d", "--force"),
            {"method": "plan_vacuum", "tables": ("silver.orders",), "older_than": 30 * 86400.0, "force": True},
            "delete files that no version of the last 30d references",
        ),
        (
            ("restore", "silver.orders", "--to", "3"),
            {"method": "plan_restore", "table": "silver.orders", "version": 3},
            "restore version 3",
        ),
        (("rollback", "r1"), {"method": "plan_rollback", "release": "r1"}, "restore version 3"),
    ],
)
def test_a_dry_run_prints_the_steps_and_executes_none(
    invoke: Invoke, lake: FakeLake, typed: tuple[str, ...], called: dict[str, object], shown: str
) -> None:
    result = invoke(*typed, "--dry-run")
    assert result.exit_code == 0
    assert shown in result.stdout
    assert lake.called == called


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        (("compact", "silver.orders"), {"method": "compact", "tables": ("silver.orders",)}),
        (("vacuum",), {"method": "vacuum", "tables": (), "older_than": 7 * 86400.0, "force": False}),
        (
            ("restore", "silver.orders", "--to", "3"),
            {"method": "restore", "table": "silver.orders", "version": 3},
        ),
        (("rollback", "r1"), {"method": "rollback", "release": "r1"}),
    ],
)
def test_the_command_shows_the_report_and_returns_its_exit_code(
    invoke: Invoke, lake: FakeLake, parsed: Parsed, typed: tuple[str, ...], called: dict[str, object]
) -> None:
    assert invoke(*typed).exit_code == 0
    assert lake.called == called
    assert parsed(invoke(*typed, "--json"))["outcome"] == "ok"
    lake.will_end("failed", InfrastructureError("table-leased", "somebody is working on it", hint="wait"))
    assert invoke(*typed).exit_code == 4


def test_tables_without_maintenance_work_are_not_changed(invoke: Invoke, lake: FakeLake) -> None:
    lake.report = RunReport(run=None, steps=(), checks=())
    result = invoke("compact")
    assert (result.exit_code, result.stdout) == (0, "nothing to do: no table needs maintenance\n")


def test_an_invalid_length_of_time_is_rejected(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("vacuum", "--older-than", "soon").exit_code == 2


def test_releases_are_listed_with_their_versions(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    assert "r1" in invoke("releases", "--limit", "5").stdout
    assert lake.called == {"method": "releases", "limit": 5}
    assert "silver.orders=3" in invoke("releases").stdout
    assert parsed(invoke("releases", "--json"))["releases"] == [
        {"release": "r1", "released_at": "2026-01-02T03:04:00Z", "tables": {"silver.orders": 3}}
    ]
    assert invoke("query", "FROM silver.orders", "--release", "r1").exit_code == 0
    assert lake.called == {"method": "query", "sql": "FROM silver.orders", "at": (), "release": "r1"}
    lake.released = ()
    assert invoke("releases").stdout == "there is no release yet; a successful run creates one\n"
