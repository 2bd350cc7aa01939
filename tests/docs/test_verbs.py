"""Each verb has a page that names its options and shows what it really answers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from tests.docs.markdown import DOCS, Block, blocks, missing_lines, name, prose

from lakesmith.cli import VERBS, app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = {"--lake", "-C", "--env", "-e", "--var", "--help", "-h"}
"""Options of every verb, explained in docs/index.md."""


def page(verb: str) -> Path:
    return DOCS / "verbs" / f"{verb}.md"


def options(verb: str) -> set[str]:
    command = app.get_command(click.Context(app), verb)
    assert command is not None
    return {word for option in command.params if isinstance(option, click.Option) for word in option.opts} - SHARED


def examples(verb: str) -> Iterator[tuple[str, Block | None]]:
    """The commands of the verb's page, each with the block below it that shows what it answers."""
    found = blocks(page(verb))
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language == "bash":
            for command in block.text.splitlines():
                yield command, after if after and after.language in ("text", "json") else None


def test_every_verb_has_a_page_and_every_page_a_verb() -> None:
    assert {file.stem for file in (DOCS / "verbs").glob("*.md")} == set(VERBS)


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    every = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")} - {"index.md"}
    assert sorted(file for file in every if f"]({file})" not in index) == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_names_every_option_and_no_other(verb: str) -> None:
    told = re.findall(r"`(--?[a-zA-Z][a-z-]*)`", "\n".join(re.findall(r"^\| `.*", prose(page(verb)), re.MULTILINE)))
    assert set(told) == options(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_tells_exit_codes_and_shows_an_example(verb: str) -> None:
    assert "## Exit codes" in prose(page(verb))
    assert list(examples(verb))


@pytest.mark.parametrize("verb", VERBS)
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


@pytest.mark.spark
def test_every_example_shows_what_the_verb_answers(
    tmp_path: Path, shared_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesmith.run.execute.open_session", lambda *_: shared_spark)
    monkeypatch.setattr("lakesmith.run.execute.close_session", lambda _: None)
    monkeypatch.chdir(tmp_path)
    for verb in VERBS:
        for command, shown in examples(verb):
            answer = CliRunner().invoke(app, shlex.split(command)[1:])
            where = f"{name(page(verb))}: {command}\n{answer.output}"
            assert answer.exit_code in (0, 4) if verb == "doctor" else answer.exit_code == 0, where
            if shown is None or shown.example:
                continue
            if shown.language == "json":
                assert shape(json.loads(answer.stdout)) == shape(json.loads(shown.text)), where
            else:
                assert missing_lines(shown.text, answer.stdout) == [], where
        if verb == "init":
            monkeypatch.chdir(tmp_path / "shop")
