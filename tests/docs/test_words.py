"""Keeps obsolete words out of names, texts, comments and pages: the glossary has the words to use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT, name, pages

OBSOLETE = re.compile(
    r"\b(told|retold|taken in|took in|mend(s|ed|ing)?|anew|spelt|respelt|settled?|settles|seen through|of late|upkeep"
    r"|the books|weighed|befalls?|verbs?|has no value|placing|shaped|doubled|heed(s|ed)?|for ever|twice over"
    r"|(is|are|be|stands?) in the way)\b",
    re.IGNORECASE,
)
"""Words of an old dialect. Write instead: reported, ingested, fixed, again, written, completed, recent, maintenance,
row counts, compared, hits, command, is NULL, dv_merge, duplicated, respect, forever, twice, blocks."""
OBSOLETE_IN_NAMES = re.compile(r"(^|_)(asked|kept|met|ends|told|refused|ground|nowhere)(_|$)", re.IGNORECASE)
"""Parts of names that hide what a value is. Write instead: requested, remaining, matched, stops, rejected, missing."""
ALLOWED = {"docs/reference/glossary.md", "tests/docs/test_words.py"}
MODULES = [path for folder in ("src", "tests", "bench", "examples", "java") for path in (ROOT / folder).rglob("*.py")]
OTHER_SOURCES = [
    path
    for pattern in ("java/**/*.java", "tests/**/*.java", "examples/shop/*/*.*")
    for path in ROOT.glob(pattern)
    if path.suffix != ".pyc"  # `make demo` leaves some
]


def names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of the syntax tree defines."""
    match node:
        case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
            yield text
        case ast.Name(id=text, ctx=ast.Store()) | ast.arg(arg=text):
            yield text


def obsolete_lines(source: str, *, literals: bool) -> Iterator[tuple[int, str]]:
    """Yield the lines with an obsolete word in a name, comment, docstring or message, and with `literals` in any text.

    The name of a test is a sentence, in which each word of OBSOLETE_IN_NAMES can be right.
    """
    for number, line in enumerate(source.splitlines(), start=1):
        if OBSOLETE.search(line.partition("#")[2]):
            yield number, line
    for node in ast.walk(ast.parse(source)):
        for text in names(node):
            is_hiding = OBSOLETE_IN_NAMES.search(text) and not text.startswith("test_")
            if is_hiding or OBSOLETE.search(text.replace("_", " ")):
                yield getattr(node, "lineno", 0), text
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) | ast.Assert(msg=ast.Constant(value=str(text))):
                if OBSOLETE.search(text):
                    yield node.lineno, text
            case ast.Constant(value=str(text)) if literals and OBSOLETE.search(text):
                yield node.lineno, text


@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in pages() if name(page) not in ALLOWED])
def test_a_page_has_no_obsolete_word(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    assert [f"{number}: {line}" for number, line in lines if OBSOLETE.search(line)] == []


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "examples", "java"])
def test_python_code_has_no_obsolete_word(folder: str) -> None:
    """Every text in `src` is checked. Texts in tests can be data, so only their docstrings and messages are."""
    modules = [path for path in MODULES if path.relative_to(ROOT).parts[0] == folder and name(path) not in ALLOWED]
    found = {
        f"{name(path)}:{line}: {' '.join(text.split())[:100]}"
        for path in modules
        for line, text in obsolete_lines(path.read_text(encoding="utf-8"), literals=folder == "src")
    }
    assert modules
    assert sorted(found) == []


def test_java_code_and_declarations_have_no_obsolete_word() -> None:
    found = [
        f"{name(path)}:{number}: {line}"
        for path in OTHER_SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if OBSOLETE.search(line)
    ]
    assert OTHER_SOURCES
    assert found == []


def test_an_obsolete_word_is_found() -> None:
    assert OBSOLETE.search("The batch is settled")
    assert not OBSOLETE.search("The batch is committed")
    assert [line for line, _ in obsolete_lines("kept = 1\nrows = 2  # told\n", literals=False)] == [2, 1]
    assert not list(obsolete_lines("def test_a_run_ends() -> None: ...\n", literals=True))
