"""`lakesmith contract`: printed and written contracts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakesmith.cli import app


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    assert call("init", str(tmp_path / "shop")).exit_code == 0
    return tmp_path / "shop"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_contract_is_printed_or_written(shop: Path, tmp_path: Path) -> None:
    printed = call("contract", "export", "silver.orders", "--lake", str(shop))
    written = call("contract", "export", "silver.orders", "--lake", str(shop), "-o", str(tmp_path / "a/o.yml"))
    assert (printed.exit_code, written.exit_code) == (0, 0)
    assert (tmp_path / "a/o.yml").read_text() == printed.stdout
    assert "kind: DataContract" in printed.stdout


@pytest.mark.parametrize(("form", "key"), [("avro", "namespace"), ("json-schema", "$schema")])
def test_the_other_formats_are_json(form: str, key: str, shop: Path) -> None:
    assert key in json.loads(call("contract", "export", "silver.orders", "--format", form, "-C", str(shop)).stdout)


def test_an_existing_file_is_only_overwritten_with_force(shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "o.yml"
    target.write_text("mine")
    export = ("contract", "export", "silver.orders", "--lake", str(shop), "--output", str(target))
    rejected = call(*export)
    assert (rejected.exit_code, target.read_text()) == (2, "mine")
    assert "would-overwrite" in rejected.stderr
    assert call(*export, "--force").exit_code == 0
    assert target.read_text() != "mine"


def test_an_exported_contract_is_imported_as_a_table(shop: Path, tmp_path: Path) -> None:
    document = str(tmp_path / "o.yml")
    call("contract", "export", "silver.orders", "--lake", str(shop), "-o", document)
    made = call("contract", "import", document, "--lake", str(shop), "--layer", "bronze", "--name", "sold", "--write")
    assert made.exit_code == 0, made.output
    assert made.stderr.startswith("warning: source: ")
    assert "amount >= 0" in (shop / "bronze/sold.yml").read_text()
    assert call("validate", "--lake", str(shop)).exit_code == 0
    again = call("contract", "import", document, "--lake", str(shop), "--write")
    assert (again.exit_code, "would-overwrite" in again.stderr) == (2, True)


def test_a_document_is_imported_without_a_lake(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("contract", "export", "silver.orders", "--lake", str(shop), "-o", str(tmp_path / "o.yml"))
    monkeypatch.chdir(tmp_path)
    shown = json.loads(call("contract", "import", "o.yml", "--json").stdout)
    assert shown["file"] == "silver/orders.sql"
    assert shown["text"].startswith("/* lakesmith")


def test_a_missing_document_is_reported(tmp_path: Path) -> None:
    answer = call("contract", "import", str(tmp_path / "none.yml"))
    assert (answer.exit_code, "unreadable-file" in answer.stderr) == (2, True)
    assert "none.yml:1" not in answer.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    expectation = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "order_id"}}
    file = tmp_path / "suite.json"
    file.write_text(json.dumps({"name": "orders", "expectations": [expectation]}))
    return file


def test_a_suite_of_great_expectations_is_printed_to_be_pasted(suite: Path, tmp_path: Path) -> None:
    answer = call("contract", "import", str(suite))
    assert (answer.exit_code, answer.stdout) == (
        0,
        "# From the suite orders of Great Expectations, for bronze.orders.\ncolumns:\n  order_id: {required: true}\n",
    )
    assert json.loads(call("contract", "import", str(suite), "--json").stdout)["complete"] is False
    assert call("contract", "import", str(suite), "--write", "-o", str(tmp_path / "part.yml")).exit_code == 0
    assert (tmp_path / "part.yml").read_text() == answer.stdout


def test_a_suite_without_a_source_is_not_written_as_a_table(shop: Path, suite: Path) -> None:
    answer = call("contract", "import", str(suite), "--lake", str(shop), "--name", "sold", "--write")
    assert (answer.exit_code, "[incomplete-declaration]" in answer.stderr) == (2, True)
    assert "paste the output into the table, such as bronze/sold.yml" in " ".join(answer.stderr.split())
    assert not (shop / "bronze/sold.yml").exists()


def test_an_unknown_document_is_reported_with_the_formats_that_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"kind": "other"}')
    stderr = call("contract", "import", str(tmp_path / "a.json")).stderr
    assert "Open Data Contract Standard 3, suite of Great Expectations (JSON)" in " ".join(stderr.split())


@pytest.mark.parametrize(
    ("typed", "shown"),
    [(("contract", "dif"), "'contract dif'"), (("quarantine", "foo"), "'quarantine foo'"), (("stats",), "'stats'")],
)
def test_an_unknown_command_is_reported_with_the_valid_commands(typed: tuple[str, ...], shown: str) -> None:
    answer = call(*typed)
    assert answer.exit_code == 2
    assert f"there is no command {shown}" in answer.stderr
    assert "hint: " in answer.stderr
    assert "commands: " in answer.stderr


def test_a_group_of_commands_accepts_the_lake_before_the_command(shop: Path) -> None:
    assert call("quarantine", "--lake", str(shop), "list").exit_code == 0
