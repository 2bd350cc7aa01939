"""Keeps obsolete words out of names, texts of the command, and pages: the glossary has the words to use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT, name, pages

OBSOLETE = re.compile(
    r"\b(told|taken in|took in|mend(s|ed|ing)?|anew|spelt|respelt|settled?|settles|seen through|of late|upkeep"
    r"|the books|weighed|befalls?|retold|verbs?|has no value)\b",
    re.IGNORECASE,
)
ALLOWED = {"docs/reference/glossary.md"}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The names, texts and comments of a module, with their lines."""
    source = path.read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines(), start=1):
        if "#" in line:
            yield number, line.partition("#")[2]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)):
                yield node.lineno, text
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield node.lineno, text.replace("_", " ")
            case ast.Name(id=text, ctx=ast.Store()) | ast.arg(arg=text):
                yield node.lineno, text.replace("_", " ")


@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in pages() if name(page) not in ALLOWED])
def test_a_page_has_no_obsolete_word(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    assert [f"{number}: {line}" for number, line in lines if OBSOLETE.search(line)] == []


def test_the_source_has_no_obsolete_word() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {' '.join(text.split())[:100]}"
        for path in (ROOT / "src" / "lakesmith").rglob("*.py")
        for line, text in texts(path)
        if OBSOLETE.search(text)
    }
    assert sorted(found) == []


def test_an_obsolete_word_is_found() -> None:
    assert OBSOLETE.search("The batch is settled")
    assert not OBSOLETE.search("The batch is committed")
