"""The exception of a validation rule; the caller, which knows the place, turns it into an error."""

from __future__ import annotations


class InvalidText(Exception):
    """A text violates a rule: code, reason and hint."""

    def __init__(self, code: str, what: str, hint: str) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.hint = hint
