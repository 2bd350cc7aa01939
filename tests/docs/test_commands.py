"""Each command has a page that lists its options and shows its real output."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result
from tests.docs.markdown import DOCS, Block, blocks, missing_lines, name, prose

from lakesmith.cli import COMMANDS, app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = {"--lake", "-C", "--env", "-e", "--var", "--help", "-h"}
"""Options of every command, explained in docs/index.md."""


def page(command_name: str) -> Path:
    return DOCS / "commands" / f"{command_name}.md"


def commands(command_name: str) -> list[click.Command]:
    """Return the command and its subcommands."""
    command = app.get_command(click.Context(app), command_name)
    assert command is not None
    return [command, *(command.commands.values() if isinstance(command, click.Group) else ())]


def options_of(command: click.Command) -> set[str]:
    return {word for option in command.params if isinstance(option, click.Option) for word in option.opts} - SHARED


def options(command_name: str) -> set[str]:
    return set().union(*map(options_of, commands(command_name)))


def documented_options(text: str) -> set[str]:
    """Return the options in the tables of a page or section."""
    return set(re.findall(r"`(--?[a-zA-Z][a-z-]*)`", "\n".join(re.findall(r"^\| `.*", text, re.MULTILINE))))


def examples(command_name: str) -> Iterator[tuple[str, Block | None]]:
    """Yield the examples of the command's page, each with the block that shows its output."""
    found = blocks(page(command_name))
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language == "bash":
            for command in block.text.splitlines():
                yield command, after if after and after.language in ("text", "json") else None


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    assert {file.stem for file in (DOCS / "commands").glob("*.md")} == set(COMMANDS)


def test_the_index_links_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    every = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")} - {"index.md"}
    assert sorted(file for file in every if f"]({file})" not in index) == []


@pytest.mark.parametrize("command_name", COMMANDS)
def test_the_page_lists_exactly_the_options(command_name: str) -> None:
    assert documented_options(prose(page(command_name))) == options(command_name)


@pytest.mark.parametrize("command_name", [command_name for command_name in COMMANDS if len(commands(command_name)) > 1])
def test_each_subcommand_has_a_section_with_its_options_and_an_example(command_name: str) -> None:
    own, *below = commands(command_name)
    assert options_of(own) == set()
    text = page(command_name).read_text(encoding="utf-8")
    for command in below:
        part = re.search(rf"^## {command.name}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
        assert part, command.name
        assert documented_options(part[1]) == options_of(command), command.name
        typed = re.findall(rf"^lakesmith {command_name} {command.name}\b.*", part[1], re.MULTILINE)
        assert typed, command.name
        assert any("--json" in each for each in typed) == ("--json" in options_of(command)), command.name


@pytest.mark.parametrize("command_name", COMMANDS)
def test_the_page_has_exit_codes_and_an_example(command_name: str) -> None:
    assert "## Exit codes" in prose(page(command_name))
    assert list(examples(command_name))


@pytest.mark.parametrize("command_name", COMMANDS)
def test_the_page_shows_json_if_the_command_has_it(command_name: str) -> None:
    shown = [command for command, after in examples(command_name) if after and after.language == "json"]
    assert bool(shown) == ("--json" in options(command_name))


def test_the_documented_problem_is_that_of_a_misspelled_key(tmp_path: Path) -> None:
    (shown,) = [block for block in blocks(page("validate")) if block.example]
    assert CliRunner().invoke(app, ["init", str(tmp_path)]).exit_code == 0
    declaration = tmp_path / "silver" / "orders.sql"
    declaration.write_text(declaration.read_text().replace("required", "requird"))
    answer = CliRunner().invoke(app, ["validate", "--lake", str(tmp_path)])
    assert (answer.exit_code, answer.stderr) == (2, shown.text)


def shape(value: object) -> object:
    """Return the parts that must be equal in every answer: the keys, and the shape of a list's first element."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case _:
            return type(value).__name__ if isinstance(value, str | bool) else "value"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory, shared_spark: SparkSession) -> Iterator[list[Shown]]:
    """Run every example of every page in the order of the commands; the lake stays for queries."""
    folder = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakesmith.run.execute.open_session", lambda *_, **__: shared_spark)
        patch.setattr("lakesmith.run.execute.close_session", lambda _: None)
        patch.setattr("lakesmith.run.unit_tests.session.open_session", lambda *_, **__: shared_spark)
        patch.setattr("lakesmith.run.unit_tests.session.close_session", lambda _: None)
        patch.chdir(folder)
        shown = []
        for command_name in COMMANDS:
            if command_name == "adopt":
                _put_old_orders(folder / "shop")
            for command, block in examples(command_name):
                answer = CliRunner().invoke(app, shlex.split(command)[1:])
                shown.append(Shown(command_name=command_name, command=command, block=block, answer=answer))
            if command_name == "init":
                patch.chdir(folder / "shop")
            if command_name == "adopt":
                (folder / "shop/bronze/old_orders.yml").unlink()
        yield shown


def _put_old_orders(lake: Path) -> None:
    """Create the table of the page of `adopt`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (lake / "old/orders").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), lake / "old/orders/a.parquet")
    (lake / "bronze/old_orders.yml").write_text("source: {adopt: old/orders}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An example and its real output."""

    command_name: str
    command: str
    block: Block | None
    answer: Result

    def __str__(self) -> str:
        return f"{name(page(self.command_name))}: {self.command}\n{self.answer.output}"


@pytest.mark.spark
def test_every_example_succeeds(walk: list[Shown]) -> None:
    # The findings of the doctor depend on the machine.
    wrong = [each for each in walk if each.answer.exit_code not in ((0, 4) if each.command_name == "doctor" else (0,))]
    assert [str(each) for each in wrong] == []


@pytest.mark.spark
def test_every_example_shows_the_real_output(walk: list[Shown]) -> None:
    wrong = []
    for each in walk:
        if each.block is None or each.block.example:
            continue
        if each.block.language == "json":
            alike = shape(json.loads(each.answer.stdout)) == shape(json.loads(each.block.text))
        else:
            alike = missing_lines(each.block.text, each.answer.stdout) == []
        wrong += [] if alike else [str(each)]
    assert wrong == []


@pytest.mark.spark
def test_the_reference_lists_the_columns_of_a_quarantine(walk: list[Shown]) -> None:
    documented = re.findall(
        r"^\| `(\w+)` \|",
        prose(DOCS / "reference" / "system-tables.md").partition("## quarantine\n")[2],
        re.MULTILINE,
    )
    answer = CliRunner().invoke(app, ["query", "FROM quarantine.silver_orders", "--json"])
    assert json.loads(answer.stdout)["columns"] == documented
