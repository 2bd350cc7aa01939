"""Each verb has a page that names its options and shows what it really answers."""

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
"""Options of every verb, explained in docs/index.md."""


def page(verb: str) -> Path:
    return DOCS / "commands" / f"{verb}.md"


def commands(verb: str) -> list[click.Command]:
    """The verb itself, and the verbs that it has."""
    command = app.get_command(click.Context(app), verb)
    assert command is not None
    return [command, *(command.commands.values() if isinstance(command, click.Group) else ())]


def options_of(command: click.Command) -> set[str]:
    return {word for option in command.params if isinstance(option, click.Option) for word in option.opts} - SHARED


def options(verb: str) -> set[str]:
    return set().union(*map(options_of, commands(verb)))


def told_options(text: str) -> set[str]:
    """The options in the tables of a page, or of a part of it."""
    return set(re.findall(r"`(--?[a-zA-Z][a-z-]*)`", "\n".join(re.findall(r"^\| `.*", text, re.MULTILINE))))


def examples(verb: str) -> Iterator[tuple[str, Block | None]]:
    """The commands of the verb's page, each with the block below it that shows what it answers."""
    found = blocks(page(verb))
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language == "bash":
            for command in block.text.splitlines():
                yield command, after if after and after.language in ("text", "json") else None


def test_every_verb_has_a_page_and_every_page_a_verb() -> None:
    assert {file.stem for file in (DOCS / "commands").glob("*.md")} == set(COMMANDS)


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    every = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")} - {"index.md"}
    assert sorted(file for file in every if f"]({file})" not in index) == []


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_page_names_every_option_and_no_other(verb: str) -> None:
    assert told_options(prose(page(verb))) == options(verb)


@pytest.mark.parametrize("verb", [verb for verb in COMMANDS if len(commands(verb)) > 1])
def test_each_verb_of_a_verb_has_a_part_of_the_page_with_its_options_and_an_example(verb: str) -> None:
    own, *below = commands(verb)
    assert options_of(own) == set()
    text = page(verb).read_text(encoding="utf-8")
    for command in below:
        part = re.search(rf"^## {command.name}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
        assert part, command.name
        assert told_options(part[1]) == options_of(command), command.name
        typed = re.findall(rf"^lakesmith {verb} {command.name}\b.*", part[1], re.MULTILINE)
        assert typed, command.name
        assert any("--json" in each for each in typed) == ("--json" in options_of(command)), command.name


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_page_tells_exit_codes_and_shows_an_example(verb: str) -> None:
    assert "## Exit codes" in prose(page(verb))
    assert list(examples(verb))


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_page_shows_the_json_of_a_verb_that_has_it(verb: str) -> None:
    shown = [command for command, after in examples(verb) if after and after.language == "json"]
    assert bool(shown) == ("--json" in options(verb))


def test_the_problem_that_validate_shows_is_what_a_misspelt_key_gives(tmp_path: Path) -> None:
    (shown,) = [block for block in blocks(page("validate")) if block.example]
    assert CliRunner().invoke(app, ["init", str(tmp_path)]).exit_code == 0
    declaration = tmp_path / "silver" / "orders.sql"
    declaration.write_text(declaration.read_text().replace("required", "requird"))
    answer = CliRunner().invoke(app, ["validate", "--lake", str(tmp_path)])
    assert (answer.exit_code, answer.stderr) == (2, shown.text)


def shape(value: object) -> object:
    """What has to be the same in every answer: the keys, and the shape of a list's first element."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case _:
            return type(value).__name__ if isinstance(value, str | bool) else "value"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory, shared_spark: SparkSession) -> Iterator[list[Shown]]:
    """Every example of every page, typed in the order of the verbs; afterwards the lake is there to be asked."""
    folder = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakesmith.run.execute.open_session", lambda *_, **__: shared_spark)
        patch.setattr("lakesmith.run.execute.close_session", lambda _: None)
        patch.setattr("lakesmith.run.unit_tests.session.open_session", lambda *_, **__: shared_spark)
        patch.setattr("lakesmith.run.unit_tests.session.close_session", lambda _: None)
        patch.chdir(folder)
        shown = []
        for verb in COMMANDS:
            if verb == "adopt":
                _put_old_orders(folder / "shop")
            for command, block in examples(verb):
                answer = CliRunner().invoke(app, shlex.split(command)[1:])
                shown.append(Shown(verb=verb, command=command, block=block, answer=answer))
            if verb == "init":
                patch.chdir(folder / "shop")
            if verb == "adopt":
                (folder / "shop/bronze/old_orders.yml").unlink()
        yield shown


def _put_old_orders(lake: Path) -> None:
    """The table that the page of `adopt` is about."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (lake / "old/orders").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), lake / "old/orders/a.parquet")
    (lake / "bronze/old_orders.yml").write_text("source: {adopt: old/orders}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An example, and what the command really answered."""

    verb: str
    command: str
    block: Block | None
    answer: Result

    def __str__(self) -> str:
        return f"{name(page(self.verb))}: {self.command}\n{self.answer.output}"


@pytest.mark.spark
def test_every_example_ends_well(walk: list[Shown]) -> None:
    # What the doctor finds depends on the machine.
    wrong = [each for each in walk if each.answer.exit_code not in ((0, 4) if each.verb == "doctor" else (0,))]
    assert [str(each) for each in wrong] == []


@pytest.mark.spark
def test_every_example_shows_what_the_verb_answers(walk: list[Shown]) -> None:
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
def test_the_columns_of_a_quarantine_are_those_that_the_reference_tells(walk: list[Shown]) -> None:
    told = re.findall(
        r"^\| `(\w+)` \|",
        prose(DOCS / "reference" / "system-tables.md").partition("## quarantine\n")[2],
        re.MULTILINE,
    )
    answer = CliRunner().invoke(app, ["query", "FROM quarantine.silver_orders", "--json"])
    assert json.loads(answer.stdout)["columns"] == told
