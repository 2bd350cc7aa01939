"""Globs over paths with slashes: `*`, `?` and `[..]` within a name, `**` over any number of folders.

No wildcard matches a name that starts with `_` or `.`: such files are metadata or temporary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

from lakesmith.file_names import is_utf8
from lakesmith.store.skipped import Skip, hidden, ignore, is_temporary, not_utf8

_WILD = re.compile(r"[*?\[]")
_NOT_HIDDEN = r"(?![_.])"
_HIDDEN_PREFIXES = ("_", ".")

Entry = TypeVar("Entry")
Children = Callable[[str, bool], Iterable[tuple[str, bool | None, Entry]]]
"""Lists a folder, which ends with a slash or is empty: the name of each entry, whether it is a folder, and the entry.
None stands for a folder, or a possible one, that cannot be entered. The flag is true where `**` enters folders: then
a link to a folder may lead in circles."""


@dataclass(frozen=True)
class Glob:
    """A parsed pattern."""

    text: str

    @cached_property
    def folder(self) -> str:
        """The folder of all matches; ends with a slash unless it is empty."""
        return self.prefix[: self.prefix.rfind("/") + 1]

    @cached_property
    def prefix(self) -> str:
        """The text before the first wildcard."""
        wild = _WILD.search(self.text)
        return self.text[: wild.start()] if wild else self.text

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The names below the folder, as in the pattern."""
        return tuple(self.text[len(self.folder) :].split("/"))

    @property
    def is_path(self) -> bool:
        """Whether the pattern has no wildcard."""
        return self.prefix == self.text

    @property
    def is_flat(self) -> bool:
        """Whether all matches lie directly in the folder."""
        return len(self.segments) == 1 and self.segments[0] != "**"

    def matches(self, path: str) -> bool:
        return self._visible(path) is not None

    def hidden_in(self, path: str) -> str | None:
        """The hidden file or folder because of which a path does not match; None when there is none."""
        if self.matches(path) or self._unhidden(path) is None:
            return None
        below = path[len(self.folder) :].split("/")
        at = next(place for place, name in enumerate(below) if name.startswith(_HIDDEN_PREFIXES))
        return None if is_temporary(below[-1]) else self.folder + "/".join(below[: at + 1])

    @cached_property
    def _visible(self) -> Callable[[str], re.Match[str] | None]:
        return self._matching(_NOT_HIDDEN)

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


def sorts_before(folder: str, after: str) -> bool:
    """Whether all paths in a folder, which ends with a slash or is empty, sort before `after`."""
    return folder < after and not after.startswith(folder)


def walk(
    glob: Glob, children: Children[Entry], after: str | None = None, skip: Skip = ignore
) -> Iterator[tuple[str, Entry]]:
    """The path and entry of each match that sorts after `after`. Each folder is listed at most once, and only where it
    can have matches. Folders that match as files, and those that cannot be entered, come too: the caller reports them.
    """
    segments = glob.segments
    last = len(segments) - 1

    def reached(positions: Iterable[int]) -> frozenset[int]:
        """Add the positions after `**`, which may match no folder at all."""
        found = set()
        for position in positions:
            found.add(position)
            while segments[position] == "**" and position < last:
                position += 1
                found.add(position)
        return frozenset(found)

    def onward(name: str, positions: frozenset[int], matcher: _Matcher) -> list[int]:
        """The positions in the pattern after a folder of this name."""
        return [
            position if segments[position] == "**" else position + 1
            for position in positions
            if (segments[position] == "**" or position < last) and matcher(segments[position])(name)
        ]

    # Not recursive: folders may nest deeper than calls, and only one folder is open at a time.
    pending = [(glob.folder, reached([0]))]
    while pending:
        folder, positions = pending.pop()
        if after is not None and sorts_before(folder, after):
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
            elif name.startswith(_HIDDEN_PREFIXES) and (after is None or path > after):
                enters = is_folder is not False and onward(name, positions, _hidden_matcher)
                if (enters or is_file_hidden(name)) and not is_temporary(name):
                    skip(hidden(path))


def _never(name: str) -> None:
    """Match no file name."""


_Matcher = Callable[[str], Callable[[str], re.Match[str] | None]]


@lru_cache(maxsize=1024)
def _matcher(segment: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(f"{_NOT_HIDDEN}[^/]+" if segment == "**" else _expression(segment)).fullmatch


@lru_cache(maxsize=1024)
def _hidden_matcher(segment: str) -> Callable[[str], re.Match[str] | None]:
    """Match names with a leading `_` or `.` too."""
    return re.compile("[^/]+" if segment == "**" else _expression(segment, shown="")).fullmatch


def _expression(segment: str, shown: str = _NOT_HIDDEN) -> str:
    """A segment as a regular expression over names; `shown` is checked where the segment starts with a wildcard."""
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
    """The position of the closing bracket; a `]` in first place is literal."""
    first = at + 1 if segment[at : at + 1] == "!" else at
    end = segment.find("]", first + 1)
    return end if end > 0 else None


def _not_negated(inside: str) -> str:
    return "\\" + inside if inside[0] in "^]" else inside
