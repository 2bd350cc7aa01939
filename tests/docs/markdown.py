"""Reads the Markdown pages: fenced blocks, links, and lines that may differ between runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
_FILE = re.compile(r"^(?:#|--) (?P<path>(?:lakesmith\.yml|(?:bronze|silver|gold)/\w+(?:\.test)?\.(?:yml|sql|py)))$")
_VARYING = (
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), "MOMENT"),
    (re.compile(r"just now|\d+(\.\d+)? (s|min|h|days)( ago)?(?=\s|,|:|$)"), "TIME"),
    (re.compile(r"\d+(\.\d+)? (B|kB|MB)\b"), "SIZE"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    language: str
    """The first word after the fence; `text example` is `text` whose lines are not compared."""
    example: bool
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file of a lake that the block contains, named in its first line."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found["path"] if found else None


def pages() -> list[Path]:
    """Return every page of the repository."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            language=(found["info"].split() or [""])[0],
            example="example" in found["info"].split(),
            text=found["text"],
            line=text.count("\n", 0, found.start()) + 2,
        )
        for found in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return [found["target"] for found in _LINK.finditer(prose(page))]


def steady(line: str) -> str:
    """Return the line with everything that differs between runs replaced by a word."""
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return line.strip()


def missing_lines(expected: str, found: str) -> list[str]:
    """Return the lines of `expected` that are not in `found` in the same order."""
    rest = iter([steady(line) for line in found.splitlines()])
    missing = []
    for line in filter(None, map(steady, expected.splitlines())):
        if line not in rest:
            missing.append(line)
            rest = iter([])
    return missing
