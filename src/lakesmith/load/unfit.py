"""What a rule says of a text that does not fit it; whoever knows the place makes the error of it."""

from __future__ import annotations


class Unfit(Exception):
    """A text does not fit, why, and what to do."""

    def __init__(self, code: str, what: str, hint: str) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.hint = hint
