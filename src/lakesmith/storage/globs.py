"""Globs over paths with slashes: `*`, `?` and `[..]` within a name, `**` over any number of folders.

No wildcard matches a name that starts with `_` or `.`: such files are somebody's notes, and half of them are gone soon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from lakesmith.storage.skipped import Skip, hidden, ignore, is_temporary, is_utf8, not_utf8

_WILD = re.compile(r"[*?\[]")
_SHOWN = r"(?![_.])"
_HIDING = ("_", ".")

Entry = TypeVar("Entry")
Children = Callable[[str, bool], Iterable[tuple[str, bool | None, Entry]]]
"""For a folder, which ends with a slash or is empty: name, whether it is a folder, and the entry, for each name in it.
None is a folder, or perhaps one, that cannot be entered. The flag says that folders are entered because of `**`: a link
to a folder may lead in circles then."""


@dataclass(frozen=True)
class Glob:
    """A pattern, cut into what is fixed and what is not."""

    text: str

    @cached_property
    def folder(self) -> str:
        """The folder that everything lies in which matches; ends with a slash unless it is empty."""
        return self.prefix[: self.prefix.rfind("/") + 1]

    @cached_property
    def prefix(self) -> str:
        """The text before the first wildcard."""
        wild = _WILD.search(self.text)
        return self.text[: wild.start()] if wild else self.text

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The names below the folder, as they are written."""
        return tuple(self.text[len(self.folder) :].split("/"))

    @property
    def is_path(self) -> bool:
        """There is no wildcard in it."""
        return self.prefix == self.text

    @property
    def is_flat(self) -> bool:
        """All that matches lies directly in the folder."""
        return len(self.segments) == 1 and self.segments[0] != "**"

    def matches(self, path: str) -> bool:
        return self._whole(path) is not None

    def hidden_in(self, path: str) -> str | None:
        """The hidden file or folder that keeps a path from matching; None when nothing hidden does."""
        if self.matches(path) or self._unhidden(path) is None:
            return None
        below = path[len(self.folder) :].split("/")
        at = next(place for place, name in enumerate(below) if name.startswith(_HIDING))
        return None if is_temporary(below[-1]) else self.folder + "/".join(below[: at + 1])

    @cached_property
    def _whole(self) -> Callable[[str], re.Match[str] | None]:
        return self._matching(_SHOWN)

    @cached_property
    def _unhidden(self) -> Callable[[str], re.Match[str] | None]:
        return self._matching("")

    def _matching(self, shown: str) -> Callable[[str], re.Match[str] | None]:
        expression = re.escape(self.folder)
        for segment in self.segments[:-1]:
            expression += f"(?:{shown}[^/]+/)*" if segment == "**" else f"{_expression(segment, shown)}/"
        last = self.segments[-1]
        expression += f"(?:{shown}[^/]+/)*{shown}[^/]+" if last == "**" else _expression(last, shown)
        return re.compile(expression).fullmatch


def lies_before(folder: str, after: str) -> bool:
    """Whether no path in a folder, which ends with a slash or is empty, sorts after that one."""
    return folder < after and not after.startswith(folder)


def walk(
    glob: Glob, children: Children[Entry], after: str | None = None, skip: Skip = ignore
) -> Iterator[tuple[str, Entry]]:
    """The path and entry of each file that matches and sorts after `after`; each folder is listed once, and only where
    it can matter. Folders that match as files, and those that cannot be entered, come too: they have to be reported.
    """
    segments = glob.segments
    last = len(segments) - 1

    def reached(positions: Iterable[int]) -> frozenset[int]:
        """With the positions behind `**`, which may stand for no folder at all."""
        found = set()
        for position in positions:
            found.add(position)
            while segments[position] == "**" and position < last:
                position += 1
                found.add(position)
        return frozenset(found)

    def onward(name: str, positions: frozenset[int], matcher: _Matcher) -> list[int]:
        """The positions that a folder of this name leads to."""
        return [
            position if segments[position] == "**" else position + 1
            for position in positions
            if (segments[position] == "**" or position < last) and matcher(segments[position])(name)
        ]

    # Not recursive: a folder may lie deeper than calls may nest, and one folder is open at a time.
    pending = [(glob.folder, reached([0]))]
    while pending:
        folder, positions = pending.pop()
        if after is not None and lies_before(folder, after):
            continue
        if len(positions) == 1 and min(positions) < last and not _WILD.search(segments[min(positions)]):
            (position,) = positions
            pending.append((f"{folder}{segments[position]}/", reached([position + 1])))
            continue
        is_file_wanted = _matcher(segments[last]) if last in positions else _never
        is_file_hidden = _hidden_matcher(segments[last]) if last in positions else _never
        deep = any(segments[position] == "**" for position in positions)
        for name, is_folder, entry in children(folder, deep):
            path = folder + name
            entered = onward(name, positions, _matcher) if is_folder is not False else []
            if entered or is_file_wanted(name):
                if not is_utf8(name):
                    skip(not_utf8(path))
                elif entered and is_folder:
                    pending.append((f"{path}/", reached(entered)))
                elif after is None or path > after:
                    yield path, entry
            elif name.startswith(_HIDING) and (after is None or path > after):
                enters = is_folder is not False and onward(name, positions, _hidden_matcher)
                if (enters or is_file_hidden(name)) and not is_temporary(name):
                    skip(hidden(path))


def _never(name: str) -> None:
    """No file of this folder is wanted, whatever its name is."""


_Matcher = Callable[[str], Callable[[str], re.Match[str] | None]]


@lru_cache(maxsize=1024)
def _matcher(segment: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(f"{_SHOWN}[^/]+" if segment == "**" else _expression(segment)).fullmatch


@lru_cache(maxsize=1024)
def _hidden_matcher(segment: str) -> Callable[[str], re.Match[str] | None]:
    """Matches what the segment would match if a leading `_` or `.` meant nothing."""
    return re.compile("[^/]+" if segment == "**" else _expression(segment, shown="")).fullmatch


def _expression(segment: str, shown: str = _SHOWN) -> str:
    """A segment as a regular expression over names, which have to fit `shown` where it has a wildcard."""
    if not _WILD.search(segment):
        return re.escape(segment)
    expression, at = shown, 0
    while at < len(segment):
        letter = segment[at]
        at += 1
        if letter == "*":
            expression += "[^/]*"
        elif letter == "?":
            expression += "[^/]"
        elif letter == "[" and (end := _closing(segment, at)):
            inside = segment[at:end].replace("\\", r"\\").replace("[", r"\[")
            expression += f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{_not_negated(inside)}]"
            at = end + 1
        else:
            expression += re.escape(letter)
    return expression


def _closing(segment: str, at: int) -> int | None:
    """Where the brackets end that were opened just before; a `]` that comes first stands for itself."""
    first = at + 1 if segment[at : at + 1] == "!" else at
    end = segment.find("]", first + 1)
    return end if end > 0 else None


def _not_negated(inside: str) -> str:
    return "\\" + inside if inside[0] in "^]" else inside
