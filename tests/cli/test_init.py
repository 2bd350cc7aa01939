from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesmith.declare import TableName
from lakesmith.lake import Lake

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke


def test_the_new_lake_is_valid_and_has_every_layer(invoke: Invoke, tmp_path: Path) -> None:
    made = invoke("init", str(tmp_path / "shop"))
    assert made.exit_code == 0
    valid = invoke("validate", "--lake", str(tmp_path / "shop"))
    assert valid.exit_code == 0, valid.stderr
    assert "valid: shop (dev), 3 tables (1 bronze, 1 silver, 1 gold)" in valid.stdout


def test_the_new_lake_has_a_plan(invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", str(tmp_path / "shop"))
    plan = Lake.open(tmp_path / "shop").plan()
    assert {table.table for table in plan.tables if table.steps} >= {TableName("bronze", "orders")}
    assert plan.problems == ()


def test_editors_find_the_schemas(invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", str(tmp_path))
    for file in (tmp_path / "lakesmith.yml", tmp_path / "bronze" / "orders.yml"):
        comment = re.match(r"# yaml-language-server: \$schema=(\S+)\n", file.read_text())
        assert comment
        assert (file.parent / comment.group(1)).is_file()


def test_every_created_file_but_the_schemas_is_listed(invoke: Invoke, tmp_path: Path) -> None:
    shown = invoke("init", str(tmp_path)).stdout.splitlines()
    made = [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()]
    assert {name for name in made if not name.startswith(".lakesmith/")} == {
        line.strip() for line in shown if line.startswith("  ") and not line.startswith(("  lakesmith ", "  cd "))
    }
    assert ".gitignore" in made


def test_nothing_is_overwritten(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "silver").mkdir()
    (tmp_path / "silver" / "orders.sql").write_text("mine")
    result = invoke("init", str(tmp_path))
    assert result.exit_code == 2
    assert "[would-overwrite]" in result.stderr
    assert "silver/orders.sql" in result.stderr
    assert (tmp_path / "silver" / "orders.sql").read_text() == "mine"
    assert not (tmp_path / "lakesmith.yml").exists()


def test_a_folder_that_cannot_be_created_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = invoke("init", str(tmp_path / "file" / "shop"))
    assert result.exit_code == 2
    assert "[not-writable]" in result.stderr


@pytest.mark.parametrize(
    ("folder", "name"), [("My Shop!", "my_shop"), ("2026", "lake_2026"), ("läden", "l_den"), ("🦆", "lake")]
)
def test_the_lake_is_named_after_its_folder(folder: str, name: str, invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", str(tmp_path / folder))
    assert f"name: {name}\n" in (tmp_path / folder / "lakesmith.yml").read_text()


def test_a_name_can_be_set(invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", str(tmp_path), "--name", "shop")
    assert "name: shop\n" in (tmp_path / "lakesmith.yml").read_text()


def test_an_invalid_name_is_rejected(invoke: Invoke, tmp_path: Path) -> None:
    assert "[bad-name]" in invoke("init", str(tmp_path), "--name", "Shop; DROP").stderr


def test_a_missing_column_is_reported_with_file_and_line(invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", str(tmp_path), "--name", "shop")
    gold = tmp_path / "gold" / "daily_sales.sql"
    gold.write_text(gold.read_text().replace("sum(amount)", "sum(amuont)"))
    result = invoke("validate", "--lake", str(tmp_path))
    assert result.exit_code == 2
    assert re.search(r"gold/daily_sales\.sql:\d+: .*amuont", result.stderr)
    assert "did you mean 'amount'?" in result.stderr


def test_validate_reports_an_invalid_test_file(invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", str(tmp_path), "--name", "shop")
    tests = tmp_path / "silver" / "orders.test.yml"
    text = tests.read_text()
    tests.write_text(text.replace("expect:", "expects:"))
    result = invoke("validate", "--lake", str(tmp_path))
    assert result.exit_code == 2
    assert re.search(r"silver/orders\.test\.yml:\d+: .*expects", result.stderr)
    tests.write_text(text.replace("bronze.orders", "bronze.order"))
    assert "there is no table bronze.order " in invoke("validate", "--lake", str(tmp_path)).stderr
