"""Prints values as tables, JSON, Markdown or CSV. All output formats are defined here."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO, TypeVar

from lakesmith.declare import TableName
from lakesmith.errors import LakesmithError
from lakesmith.ports import FileFact, SkippedEntry

if TYPE_CHECKING:
    import rich.console
    import rich.table
    import rich.text

Style = Literal["", "good", "bad", "warn", "quiet", "strong"]
Format = Literal["table", "json", "markdown", "csv"]


class Styled(NamedTuple):
    """A text with a meaning, which a terminal shows as a colour."""

    text: str
    style: Style = ""


Cell = str | Styled
T = TypeVar("T")
Columns = Mapping[str, Callable[[T], Cell]]
"""The cell of an item, by title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows under titles. `right` names the titles whose cells are numbers."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[str] = frozenset()
    breaks: frozenset[int] = frozenset()
    """A new group begins at these rows."""

    @classmethod
    def of(cls, items: Iterable[T], columns: Columns[T], right: Iterable[str] = ()) -> Grid:
        """One row for each item."""
        rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return cls(titles=tuple(columns), rows=rows, right=frozenset(right))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A text with texts below it."""

    label: tuple[Cell, ...]
    branches: tuple[Tree, ...] = ()


def page(shape: Literal["table", "markdown"] = "table") -> Page:
    """Where people read: a terminal with colour and lines, else plain aligned text."""
    if shape == "markdown":
        return MarkdownPage(sys.stdout)
    return TerminalPage(terminal_console()) if is_terminal() else PlainPage(sys.stdout)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether the stream is a terminal. FORCE_COLOR overrides this."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def terminal_console(stream: TextIO | None = None) -> rich.console.Console:
    # rich takes 0.08 s to import: pipes and scripts do not pay for it.
    from rich.console import Console

    forced = bool(os.environ.get("FORCE_COLOR"))
    return Console(
        file=stream or sys.stdout,
        no_color=bool(os.environ.get("NO_COLOR")),
        force_terminal=True if forced else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def clean(text: str) -> str:
    """The text on one line and without control characters: data must not drive the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\u00a0" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _parts(cell: Cell) -> Styled:
    return Styled(clean(cell)) if isinstance(cell, str) else Styled(clean(cell.text), cell.style)


class PlainPage:
    """Aligned text without colour or lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, *cells: Cell) -> None:
        self._write("".join(_parts(cell).text for cell in cells))

    def grid(self, grid: Grid) -> None:
        rows = [[_parts(cell).text for cell in row] for row in grid.rows]
        titles = [clean(title) for title in grid.titles]
        columns = list(zip(titles, *rows, strict=True))
        widths = [max(map(_width, column)) for column in columns]
        right = [title in grid.right for title in grid.titles]
        for number, row in enumerate([titles, *rows], start=-1):
            if number > 0 and number in grid.breaks:
                self._write("")
            cells = zip(row, widths, right, strict=True)
            self._write("  ".join(_pad(*cell) for cell in cells).rstrip())

    def tree(self, tree: Tree) -> None:
        self._branch(tree, 0)

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")

    def _branch(self, tree: Tree, depth: int) -> None:
        self.line("  " * depth, *tree.label)
        for branch in tree.branches:
            self._branch(branch, depth + 1)


class MarkdownPage(PlainPage):
    """Markdown: grids become tables, trees become lists."""

    def line(self, *cells: Cell) -> None:
        super().line(*cells)
        super().line()

    def grid(self, grid: Grid) -> None:
        def row(cells: Iterable[str]) -> None:
            self._write("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")

        row(map(clean, grid.titles))
        row("---:" if title in grid.right else "---" for title in grid.titles)
        for cells in grid.rows:
            row(_parts(cell).text for cell in cells)

    def _branch(self, tree: Tree, depth: int) -> None:
        PlainPage.line(self, "  " * depth, "- ", *tree.label)
        for branch in tree.branches:
            self._branch(branch, depth + 1)


class TerminalPage:
    """A terminal, through rich."""

    STYLES: Mapping[Style, str] = {
        "": "",
        "good": "green",
        "bad": "bold red",
        "warn": "yellow",
        "quiet": "dim",
        "strong": "bold",
    }

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console

    def line(self, *cells: Cell) -> None:
        self._console.print(self.text(*cells), soft_wrap=True)

    def grid(self, grid: Grid) -> None:
        self._console.print(self.table(grid))

    def tree(self, tree: Tree) -> None:
        from rich.tree import Tree as RichTree

        root = RichTree(self.text(*tree.label), guide_style="dim")

        def grow(parent: RichTree, branches: Sequence[Tree]) -> None:
            for branch in branches:
                grow(parent.add(self.text(*branch.label)), branch.branches)

        grow(root, tree.branches)
        self._console.print(root)

    @classmethod
    def text(cls, *cells: Cell) -> rich.text.Text:
        from rich.text import Text

        parts = [_parts(cell) for cell in cells]
        return Text.assemble(*((part.text, cls.STYLES[part.style]) for part in parts))

    @classmethod
    def table(cls, grid: Grid) -> rich.table.Table:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for title in grid.titles:
            table.add_column(cls.text(title), justify="right" if title in grid.right else "left", overflow="fold")
        for number, row in enumerate(grid.rows):
            table.add_row(*(cls.text(cell) for cell in row), end_section=number + 1 in grid.breaks)
        return table


Page = PlainPage | TerminalPage
"""Shows lines, grids and trees."""


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def as_json(value: object) -> object:
    """The value in JSON types: stable keys, times in UTC, exact numbers as text, nothing truncated."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            utc = value.astimezone(UTC) if value.tzinfo else value
            return utc.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case Decimal() | TableName():
            return str(value)
        case LakesmithError():
            return as_json(value.as_dict())
        case Mapping():
            return {value_text(key): as_json(item) for key, item in value.items()}
        case FileFact() | SkippedEntry():
            return value._asdict()
        case list() | tuple() | set() | frozenset():
            return [as_json(item) for item in value]
        case _ if dataclasses.is_dataclass(value):
            return {item.name: as_json(getattr(value, item.name)) for item in dataclasses.fields(value)}
        case _:
            return str(value)


def print_json(value: object) -> None:
    narrow = "utf" not in (sys.stdout.encoding or "").lower()
    sys.stdout.write(json.dumps(as_json(value), indent=2, ensure_ascii=narrow) + "\n")


def print_csv(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print one line for each row, with nothing for NULL and JSON for nested values."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(titles)
    for row in rows:
        writer.writerow(["" if value is None else value_text(value) for value in row])


def value_text(value: object) -> str:
    """One value as text. Numbers get no separators, because an order number is not an amount."""
    if value is None:
        return "NULL"
    plain = as_json(value)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False)
