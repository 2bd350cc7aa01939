"""The forms that texts are known by. One regular expression means the same to Java, to RE2 and to Python."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What texts of one kind look like."""

    name: str
    matches: str
    """From `^` to `$`."""
    length: int | None = None
    """Of every text of this form, where all have the same."""

    def fits(self, text: str) -> bool:
        return re.fullmatch(self.matches[1:-1], text) is not None


FORMS = (
    Form(
        name="uuid",
        matches="^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        length=36,
    ),
    Form(name="date", matches="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$", length=10),
    Form(
        name="timestamp",
        matches="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[T ]([01][0-9]|2[0-3]):[0-5][0-9]"
        "(:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$",
    ),
    Form(name="email", matches="^[^@ ]+@[^@ .]+([.][^@ .]+)+$"),
    Form(name="url", matches="^[a-zA-Z][a-zA-Z0-9+.-]*://[^ ]+$"),
    Form(
        name="ipv4",
        matches="^(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])([.](25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}$",
    ),
    Form(name="phone", matches="^[+][1-9][0-9]{6,14}$"),
    Form(name="digits", matches="^[0-9]+$"),
    Form(name="decimal", matches="^[+-]?[0-9]+[.][0-9]+$"),
    Form(name="md5", matches="^[0-9a-f]{32}$", length=32),
    Form(name="sha1", matches="^[0-9a-f]{40}$", length=40),
    Form(name="sha256", matches="^[0-9a-f]{64}$", length=64),
    Form(name="upper case", matches="^[A-Z]+$"),
    Form(name="code", matches="^[A-Z0-9]+([_-][A-Z0-9]+)*$"),
)
"""The narrower before the wider: the first that all values have is the one that is told."""
