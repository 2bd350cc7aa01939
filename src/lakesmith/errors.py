"""The error tree. Each error says what went wrong, where, and what to do next.

    LakesmithError
    ├── DeclarationError      exit 2: a declaration is invalid
    ├── UsageError            exit 2: a command was called with invalid arguments
    ├── DataError             exit 1: the data broke a rule (contract, gate, changed file)
    ├── InfrastructureError   exit 4: Java, Spark, storage or another process failed
    └── Problems              several errors at once, with the exit code of the worst

Every error has a short, stable code, which `docs/reference/errors.md` explains.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST = 3_000


def legible(text: str) -> str:
    """The text for a terminal, with control characters and misleading characters escaped."""
    shown = _UNPRINTED.sub(lambda found: found[0].encode("unicode_escape").decode(), text[: _LONGEST + 1])
    return shown if len(text) <= _LONGEST else f"{shown[:_LONGEST]}…"


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the lake and a line in it."""

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class LakesmithError(Exception):
    """What went wrong, where, and the next step, as `hint`."""

    exit_code = 2

    def __init__(
        self,
        code: str,
        what: str,
        *,
        at: Place | None = None,
        table: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.at = at
        self.table = table
        self.hint = hint

    @property
    def errors(self) -> tuple[LakesmithError, ...]:
        """This error; for `Problems`, each of them."""
        return (self,)

    def __str__(self) -> str:
        where = f"{self.at}: " if self.at else f"{self.table}: " if self.table else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{legible(where)}{legible(self.what)} [{self.code}]{legible(hint)}"

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "what": self.what,
            "file": self.at.file if self.at else None,
            "line": self.at.line if self.at else None,
            "table": self.table,
            "hint": self.hint,
        }


class DeclarationError(LakesmithError):
    """A declaration is invalid."""


class UsageError(LakesmithError):
    """A command was called with invalid arguments."""


class DataError(LakesmithError):
    """The data broke a rule; the tables are unchanged."""

    exit_code = 1


class InfrastructureError(LakesmithError):
    """Java, Spark, storage or another process failed."""

    exit_code = 4


def missing_library(library: str, purpose: str, extra: str) -> InfrastructureError:
    """Return the error for an optional library that is not installed."""
    what = f"{purpose} needs the library {library}, which is not installed"
    return InfrastructureError("missing-library", what, hint=f"pip install 'lakesmith[{extra}]'")


class Problems(LakesmithError):
    """Several errors at once."""

    SHOWN = 20

    def __init__(self, errors: Sequence[LakesmithError]) -> None:
        super().__init__("several", f"{len(errors)} problems")
        self.exit_code = max(e.exit_code for e in errors)
        self._errors = tuple(errors)

    @property
    def errors(self) -> tuple[LakesmithError, ...]:
        return self._errors

    def __str__(self) -> str:
        shown = [str(e) for e in self.errors[: self.SHOWN]]
        if len(self.errors) > self.SHOWN:
            shown.append(f"… and {len(self.errors) - self.SHOWN} more")
        return "\n".join(shown)


def raise_all(errors: Sequence[LakesmithError]) -> None:
    """Raise a single error as it is, and several errors as `Problems`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Problems(errors)


def uncoloured(text: str) -> str:
    """A library's message without terminal colours."""
    return _COLOUR.sub("", text)


def did_you_mean(name: str, valid: Iterable[str], *, label: str) -> str:
    """A hint with the most similar valid name, and then the valid names."""
    names = sorted(valid)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    guess = f"did you mean '{near[0]}'?  " if near else ""
    return f"{guess}{label}: {listed}" if names else f"{guess}there are no {label} yet"
