"""Common text patterns, such as email and uuid. Each regular expression means the same in Java, RE2 and Python."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPattern:
    """A regular expression for one kind of text."""

    name: str
    matches: str
    """From `^` to `$`."""
    length: int | None = None
    """The length of every such text, when it is fixed."""

    def fits(self, text: str) -> bool:
        return re.fullmatch(self.matches[1:-1], text) is not None


TEXT_PATTERNS = (
    TextPattern(
        name="uuid",
        matches="^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        length=36,
    ),
    TextPattern(name="date", matches="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$", length=10),
    TextPattern(
        name="timestamp",
        matches="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[T ]([01][0-9]|2[0-3]):[0-5][0-9]"
        "(:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$",
    ),
    TextPattern(name="email", matches="^[^@ ]+@[^@ .]+([.][^@ .]+)+$"),
    TextPattern(name="url", matches="^[a-zA-Z][a-zA-Z0-9+.-]*://[^ ]+$"),
    TextPattern(
        name="ipv4",
        matches="^(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])([.](25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}$",
    ),
    TextPattern(name="phone", matches="^[+][1-9][0-9]{6,14}$"),
    TextPattern(name="digits", matches="^[0-9]+$"),
    TextPattern(name="decimal", matches="^[+-]?[0-9]+[.][0-9]+$"),
    TextPattern(name="md5", matches="^[0-9a-f]{32}$", length=32),
    TextPattern(name="sha1", matches="^[0-9a-f]{40}$", length=40),
    TextPattern(name="sha256", matches="^[0-9a-f]{64}$", length=64),
    TextPattern(name="upper case", matches="^[A-Z]+$"),
    TextPattern(name="code", matches="^[A-Z0-9]+([_-][A-Z0-9]+)*$"),
)
"""Narrow patterns before wide ones: a profile reports the first that fits all values."""
