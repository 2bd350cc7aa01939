from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import ShellComplete

from lakesmith.cli import app
from lakesmith.errors import DataError, InfrastructureError, UsageError
from lakesmith.ports import Answer
from lakesmith.reports import Finding, RunReport

if TYPE_CHECKING:
    from tests.cli.conftest import FakeLake, Invoke, Parsed


def completions(arguments: list[str], incomplete: str) -> list[str]:
    found = ShellComplete(app, {}, "lakesmith", "_LAKESMITH_COMPLETE").get_completions(arguments, incomplete)
    return [item.value for item in found]


def test_validate_reports_the_valid_tables(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("validate")
    assert result.exit_code == 0
    assert "valid: shop (dev), 2 tables (1 bronze, 1 silver), 1 check" in result.stdout
    assert "warning: silver.orders has no owner" in result.stdout


def test_validate_as_json(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    assert parsed(invoke("validate", "--json"))["by_layer"] == {"bronze": 1, "silver": 1}


def test_plan_is_a_tree_by_layer_with_reasons(invoke: Invoke, lake: FakeLake) -> None:
    lines = invoke("plan").stdout.splitlines()
    assert lines[0] == "shop (dev): 2 tables to bring up to date, 1 unchanged"
    assert "    ~ bronze.orders  files have come" in lines
    assert "    + silver.orders  it does not exist" in lines
    assert "    = gold.sales  inputs are the same" in lines
    assert "        because nothing was read before" in lines


def test_plan_as_json_has_every_step_with_its_inputs(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    plan = parsed(invoke("plan", "--json"))
    assert plan["lake"] == "shop"
    assert len(plan["hash"]) == 16
    bronze, silver, gold = plan["tables"]
    assert bronze["steps"][0]["step"] == "ingest"
    assert bronze["steps"][0]["files"] == [{"path": "/l/a.json", "size": 2048, "modified": 1}]
    assert silver["after"] == ["bronze.orders"]
    assert silver["steps"][0]["inputs"] == [{"table": "bronze.orders", "since": None}]
    assert (gold["status"], gold["steps"]) == ("unchanged", [])


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_backfill_needs_its_first_and_its_last_day(command: str, invoke: Invoke, lake: FakeLake) -> None:
    invoke(command, "sales", "--from", "2026-01-01", "--to", "2026-01-31", "--chunk", "3")
    assert lake.called["days"] == (date(2026, 1, 1), date(2026, 1, 31))
    assert lake.called["chunk"] == 3
    for words, shown in (
        (("--from", "2026-01-01"), "--from needs --to too"),
        (("--to", "2026-01-01"), "--to needs --from too"),
        (("--from", "yesterday", "--to", "2026-01-01"), "'yesterday' does not match the format"),
    ):
        wrong = invoke(command, "sales", *words)
        assert wrong.exit_code == 2
        assert shown in wrong.stderr


@pytest.mark.parametrize("command", ["plan", "run", "status"])
def test_selectors_are_arguments_or_options(command: str, invoke: Invoke, lake: FakeLake) -> None:
    result = invoke(command, "+orders", "-s", "tag:daily", "--select", "layer:gold", "--exclude", "orders+2")
    assert result.exit_code == 0
    assert lake.called["select"] == ("+orders", "tag:daily", "layer:gold")
    assert lake.called["exclude"] == ("orders+2",)


def test_run_prints_events_and_row_counts(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("run", "--full-refresh", "--jobs", "3")
    assert result.exit_code == 0
    assert (lake.called["full_refresh"], lake.called["jobs"]) == (True, 3)
    assert "starting Spark…\n" in result.stdout
    assert "silver.orders: build (1 new version)\n" in result.stdout
    assert "1,003 rows in, 1,000 written, 1 quarantined, 2 deduplicated" in result.stdout
    assert "1,003 rows in = 1,000 written + 1 quarantined + 2 deduplicated" in result.stdout
    assert "warning: silver.orders: known_currency: 3 rows" in result.stdout
    assert "next: lakesmith quarantine list silver.orders" in result.stdout


def test_run_with_nothing_to_do_says_so(invoke: Invoke, lake: FakeLake) -> None:
    lake.report = RunReport(run=None, steps=(), checks=())
    result = invoke("run")
    assert (result.exit_code, result.stdout) == (0, "nothing to do: every table is up to date\n")


def test_a_table_that_cannot_be_planned_fails_a_run_without_other_work(invoke: Invoke, lake: FakeLake) -> None:
    lake.report = RunReport(run=None, steps=(), checks=(), errors=(DataError("changed-file", "it changed"),))
    result = invoke("run")
    assert result.exit_code == 1
    assert "[changed-file]" in result.stderr
    assert "nothing to do" not in result.stdout


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ((), 1),
        ((DataError("gate", "too few rows"),), 1),
        ((DataError("gate", "too few rows"), InfrastructureError("disk", "full")), 4),
    ],
)
def test_a_failed_run_exits_with_the_highest_exit_code(
    errors: tuple[DataError, ...], code: int, invoke: Invoke, lake: FakeLake
) -> None:
    lake.will_end("failed", *errors)
    result = invoke("run")
    assert result.exit_code == code
    assert all(f"[{error.code}]" in result.stderr for error in errors)
    assert "lakesmith history --run r1" in result.stdout


def test_run_as_json_keeps_progress_off_stdout(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    lake.will_end("failed", DataError("gate", "too few rows", table="silver.orders"))
    result = invoke("run", "--json")
    shown = parsed(result)
    assert result.exit_code == 1
    assert shown["outcome"] == "failed"
    assert shown["steps"][0]["started_at"] == "2026-11-15T12:00:00Z"
    assert shown["errors"][0]["code"] == "gate"
    assert "starting Spark…" in result.stderr


def test_a_dry_run_prints_the_plan(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("run", "--dry-run").stdout == invoke("plan").stdout
    assert lake.called["method"] == "plan"


def test_status_prints_readable_numbers_by_layer(invoke: Invoke, lake: FakeLake) -> None:
    lines = invoke("status").stdout.splitlines()
    bronze = next(line for line in lines if line.startswith("bronze.orders"))
    assert [word for word in bronze.split() if word in ["1,234,567", "2.5", "MB", "3", "min", "ago"]] == [
        "1,234,567",
        "2.5",
        "MB",
        "3",
        "min",
        "ago",
    ]
    assert lines[lines.index(bronze) + 1] == ""
    assert "1 row in quarantine; why: lakesmith quarantine list" in lines


def test_status_shows_why_rows_are_in_quarantine(invoke: Invoke, lake: FakeLake) -> None:
    shown = invoke("status", "--quarantine").stdout
    assert 'silver.orders  amount >= 0     1  {"amount": -5}' in shown
    assert shown.endswith("look at the rows: lakesmith quarantine list silver.orders\n")
    assert "secret" not in shown


def test_status_as_json_has_plain_numbers(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    shown = parsed(invoke("status", "--json", "--quarantine"))
    assert (shown["lake"], shown["environment"]) == ("shop", "dev")
    assert shown["tables"][0]["rows"] == 1234567
    assert shown["tables"][2]["updated_at"] is None
    assert shown["quarantine"][0]["reason"] == "amount >= 0"


def test_history_lists_runs(invoke: Invoke, lake: FakeLake) -> None:
    shown = invoke("history", "--limit", "5").stdout
    assert lake.called == {"method": "history", "table": None, "limit": 5}
    assert "2026-11-15 12:00:00 UTC" in shown
    assert "1,003" in shown


def test_history_of_a_table_lists_versions(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    assert "OPTIMIZE" in invoke("history", "silver.orders").stdout
    shown = parsed(invoke("history", "silver.orders", "--json"))
    assert shown["table"] == "silver.orders"
    assert shown["versions"][0] == {
        "version": 3,
        "committed_at": "2026-11-15T12:00:00Z",
        "operation": "MERGE",
        "rows_written": 1000,
        "run_id": "r1",
    }


def test_history_of_a_run_lists_its_steps(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    assert "build changes" in invoke("history", "--run", "r1").stdout
    assert parsed(invoke("history", "--run", "r1", "--json"))["steps"][0]["rows_deduplicated"] == 2


def test_history_takes_a_table_or_a_run(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("history", "silver.orders", "--run", "r1").exit_code == 2


def test_query_takes_sql_from_the_command_a_file_or_standard_input(
    invoke: Invoke, lake: FakeLake, tmp_path: Path
) -> None:
    (tmp_path / "q.sql").write_text("SELECT 2")
    for arguments, text, sql in (
        (("SELECT 1",), None, "SELECT 1"),
        (("--file", str(tmp_path / "q.sql")), None, "SELECT 2"),
        (("-",), "SELECT 3", "SELECT 3"),
    ):
        assert invoke("query", *arguments, "--at", "3", "--at", "silver.a=1", text=text).exit_code == 0
        assert lake.called == {"method": "query", "sql": sql, "at": ("3", "silver.a=1")}


@pytest.mark.parametrize("arguments", [(), ("SELECT 1", "--file", "x"), ("--file", "/does/not/exist")])
def test_query_without_readable_sql_is_a_usage_error(
    arguments: tuple[str, ...], invoke: Invoke, lake: FakeLake
) -> None:
    result = invoke("query", *arguments)
    assert result.exit_code == 2
    assert "hint" in result.stderr or "cannot be read" in result.stderr


def test_query_shows_numbers_as_they_are(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("query", "x").stdout == ("order_id  amount  note\n       1   19.90  a|b\n 1234567   -5.00  NULL\n")


def test_query_as_markdown_escapes_bars(invoke: Invoke, lake: FakeLake) -> None:
    shown = invoke("query", "x", "--format", "markdown").stdout.splitlines()
    assert shown[:3] == ["| order_id | amount | note |", "| ---: | ---: | --- |", "| 1 | 19.90 | a\\|b |"]


def test_query_as_csv_can_be_read_back(invoke: Invoke, lake: FakeLake) -> None:
    lake.answer = Answer(columns=("a", "b"), types=("VARCHAR", "BIGINT[]"), rows=(('x,"y"\nz', [1]), (None, None)))
    shown = invoke("query", "x", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(shown))) == [["a", "b"], ['x,"y"\nz', "[1]"], ["", ""]]


@pytest.mark.parametrize("arguments", [("--json",), ("--format", "json")])
def test_query_as_json_is_exact_and_complete(
    arguments: tuple[str, ...], invoke: Invoke, lake: FakeLake, parsed: Parsed
) -> None:
    rows = tuple((number, math.nan, b"\xff", datetime(2026, 1, 1)) for number in range(500))
    lake.answer = Answer(columns=("n", "f", "b", "t"), types=("BIGINT", "DOUBLE", "BLOB", "TIMESTAMP"), rows=rows)
    shown = parsed(invoke("query", "x", "--limit", "3", *arguments))
    assert shown["columns"] == ["n", "f", "b", "t"]
    assert shown["rows"][499] == [499, "nan", "ff", "2026-01-01T00:00:00"]


def test_a_long_printed_answer_is_truncated_with_a_note(invoke: Invoke, lake: FakeLake) -> None:
    lake.answer = Answer(columns=("n",), types=("BIGINT",), rows=tuple((number,) for number in range(500)))
    result = invoke("query", "x", "--limit", "3")
    assert len(result.stdout.splitlines()) == 4
    assert result.stderr == "the first 3 rows are shown; --limit 0 shows all\n"
    assert len(invoke("query", "x", "--limit", "0").stdout.splitlines()) == 501


def test_data_cannot_send_control_characters_to_the_terminal(invoke: Invoke, lake: FakeLake) -> None:
    lake.answer = Answer(columns=("t",), types=("VARCHAR",), rows=(("\x1b[31mred\a\nnext",),))
    assert invoke("query", "x").stdout.splitlines()[1] == "\\x1b[31mred\\x07\\nnext"


def test_profile_shows_columns_values_and_the_yaml_to_paste(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("profile", "silver.orders", "--rows", "10")
    assert lake.called == {"method": "profile", "table": "silver.orders", "rows": 10}
    assert result.stdout == (
        "silver.orders (version 4), 5,000 rows\n"
        "profiled a random sample of 10 rows\n"
        "\n"
        "column  type           empty  distinct  unique  length   pattern  frequent\n"
        "amount  decimal(12,2)  10.0%    ~1,234  no      –        –        5.00 (1,200), 7.00\n"
        "email   string          0.0%        10  yes     9 to 12  email    masked\n"
        "\n"
        "column   min  5%  25%  median  75%  95%     max  mean\n"
        "amount  0.99   1    5      10   20  100  250.00  12.5\n"
        "\n"
        "Proposed; review it, then paste it into the declaration\n"
        "\n"
        "checks:\n"
        "  # it was so\n"
        "  amount_range: {range: {column: amount, min: 0}, on_fail: warn}\n"
    )


def test_profile_as_yaml_prints_only_the_proposals(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("profile", "silver.orders", "--yaml").stdout == lake.profiled.yaml
    assert lake.called["rows"] == 1_000_000


def test_profile_as_json_has_everything(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    shown = parsed(invoke("profile", "silver.orders", "--json"))
    assert (shown["rows"], shown["profiled_rows"], shown["yaml"]) == (5000, 10, lake.profiled.yaml)
    assert shown["columns"][0]["min"] == "0.99"
    assert shown["proposals"][0]["rule"] == {"range": {"column": "amount", "min": 0}, "on_fail": "warn"}


def test_profile_is_yaml_or_json(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("profile", "silver.orders", "--yaml", "--json")
    assert result.exit_code == 2
    assert "conflicting-options" in result.stdout


def test_profile_says_when_there_is_nothing_to_propose(invoke: Invoke, lake: FakeLake) -> None:
    lake.profiled = replace(lake.profiled, proposals=(), yaml="", columns=())
    assert "nothing to propose" in invoke("profile", "silver.orders").stdout


def test_lineage_of_the_lake_is_a_tree_from_its_sources(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("lineage").stdout.splitlines() == [
        "bronze.orders  ← landing/orders/*.json",
        "  silver.orders",
        "    gold.sales",
    ]


def test_lineage_of_a_table_goes_both_ways(invoke: Invoke, lake: FakeLake) -> None:
    assert invoke("lineage", "silver.orders", "--columns").stdout.splitlines() == [
        "upstream",
        "silver.orders",
        "  bronze.orders  ← landing/orders/*.json",
        "downstream",
        "silver.orders",
        "  gold.sales",
        "",
        "column                derived from",
        "silver.orders.amount  bronze.orders.amount",
    ]


def test_lineage_as_json_and_mermaid(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    assert parsed(invoke("lineage", "--json"))["edges"][0] == {
        "source": "bronze.orders",
        "target": "silver.orders",
    }
    shown = invoke("lineage", "--format", "mermaid").stdout.splitlines()
    assert shown[0] == "flowchart LR"
    assert "    bronze__orders --> silver__orders" in shown


def test_doctor_without_findings_exits_with_0(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("doctor", "--fix", "--deep")
    assert (result.exit_code, result.stdout) == (0, "ok     java  Java 17\n")
    assert lake.called == {"method": "doctor", "fix": True, "deep": True}


def test_doctor_prints_how_to_fix_a_problem(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    lake.findings = (Finding(subject="java", ok=False, found="none", fix="install Java 17"),)
    result = invoke("doctor")
    assert result.exit_code == 4
    assert "fix: install Java 17" in result.stdout
    assert parsed(invoke("doctor", "--json")) == {
        "ok": False,
        "findings": [{"subject": "java", "ok": False, "found": "none", "fix": "install Java 17"}],
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str, invoke: Invoke) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert "_LAKESMITH_COMPLETE" in result.stdout


def test_an_unknown_shell_is_a_usage_error(invoke: Invoke) -> None:
    assert invoke("completion", "tcsh").exit_code == 2


def test_commands_and_tables_are_completed(lake: FakeLake) -> None:
    assert completions([], "st") == ["status"]
    assert completions(["history"], "silver") == ["silver.orders"]
    assert completions(["run"], "+bronze") == ["+bronze.orders"]
    assert completions(["plan", "--select"], "layer:g") == ["layer:gold"]


def test_an_unreadable_lake_completes_nothing(lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise UsageError("no-lake", "there is none")

    monkeypatch.setattr("lakesmith.cli.call.Call.table_names", broken)
    assert completions(["history"], "silver") == []


def test_contract_diff_prints_each_change_with_direction_version_and_readers(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("contract", "diff", "silver.orders")
    assert (result.exit_code, lake.called) == (0, {"method": "contract_diff", "tables": ("silver.orders",)})
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines == [
        "table what backward forward version affected consumers",
        "silver.orders amount was removed yes no 2.0.0 gold.sales.total, gold.model",
        "silver.orders note is new yes yes 1.1.0 –",
        "bronze.orders: no version is recorded; the next run records 2.0.0",
        "silver.orders: 1.0.0 → 2.0.0 (forward); breaking: `lakesmith validate` shows what to do",
        "gold.sales: 1.0.0, unchanged",
    ]


def test_contract_diff_as_json_has_the_changes_of_every_table(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    tables = parsed(invoke("contract", "diff", "--json"))["tables"]
    assert [len(table["changes"]) for table in tables] == [0, 2, 0]
    assert tables[1]["changes"][0]["consumers"] == ["gold.sales.total", "gold.model"]


def test_contract_check_exits_with_1_when_a_table_breaks_its_contract(
    invoke: Invoke, lake: FakeLake, parsed: Parsed
) -> None:
    result = invoke("contract", "check")
    assert result.exit_code == 1
    assert "silver.orders: differs, 1 declared column" in result.stdout
    assert " ".join(result.stdout.splitlines()[-1].split()) == "silver.orders amount int bigint has another type"
    assert invoke("contract", "check", "bronze.orders").exit_code == 0
    as_json = invoke("contract", "check", "--json")
    assert as_json.exit_code == 1
    assert parsed(as_json)["tables"][1]["differences"][0]["stored"] == "bigint"


def test_contract_without_a_command_lists_its_commands(invoke: Invoke) -> None:
    result = invoke("contract", "--help")
    assert result.exit_code == 0
    for command in ("diff", "check"):
        assert f"\n  {command} " in result.stdout
