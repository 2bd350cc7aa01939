"""Secrets by reference: a declaration names where a secret is stored, and never contains its value."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lakesmith.errors import DeclarationError, Place

_SHORTEST = 4
"""Shorter values are not masked: they would match inside of other words."""


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is stored: an environment variable or a file."""

    kind: Literal["env", "file"]
    name: str
    """As written; safe to show."""
    path: str = field(default="", repr=False)
    """For a file, its absolute path."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def reveal(self) -> str | None:
        """Return the value, or None when there is none."""
        if self.kind == "env":
            return os.environ.get(self.name)
        try:
            return Path(self.path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            return None


@dataclass(frozen=True, slots=True)
class Secret:
    """Text with at least one reference. Its `str` shows the references, never their values."""

    parts: tuple[str | SecretReference, ...]

    def __str__(self) -> str:
        return "".join(f"<{part}>" if isinstance(part, SecretReference) else part for part in self.parts)

    def __repr__(self) -> str:
        return f"Secret({self})"

    @property
    def references(self) -> tuple[SecretReference, ...]:
        return tuple(part for part in self.parts if isinstance(part, SecretReference))

    def reveal(self) -> str:
        """Return the value. Call it only where the value is used."""
        return "".join(_revealed(part) for part in self.parts)


class Settings(Mapping[str, str]):
    """Settings of which some are secrets: looking one up reveals it, showing them all does not."""

    __slots__ = ("_written",)

    def __init__(self, written: Mapping[str, str | Secret] | None = None) -> None:
        self._written = dict(written or {})

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Settings:
        """Return settings unchanged, or plain ones as settings without secrets."""
        return settings if isinstance(settings, Settings) else cls(settings)

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """The settings that contain a secret."""
        return {key: value for key, value in self._written.items() if isinstance(value, Secret)}

    def over(self, defaults: Mapping[str, str], *, without: Collection[str] = ()) -> Settings:
        """Return these settings merged over defaults. Secrets stay secrets."""
        return Settings({**defaults, **{key: value for key, value in self._written.items() if key not in without}})

    def masked(self, text: str) -> str:
        """Return the text with each secret value replaced by its reference."""
        for reference in dict.fromkeys(ref for secret in self.secrets.values() for ref in secret.references):
            text = _masked(text, reference)
        return text

    def __getitem__(self, key: str) -> str:
        value = self._written[key]
        return value.reveal() if isinstance(value, Secret) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Settings):
            return self._written == other._written
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._written.items()))

    def __repr__(self) -> str:
        return repr({key: str(value) for key, value in self._written.items()})


def _masked(text: str, reference: SecretReference) -> str:
    value = reference.reveal() or ""
    # Messages are shortened to some lines of a text, and then to some letters.
    for each in (value, *(line.strip() for line in value.splitlines())):
        if len(each) < _SHORTEST:
            continue
        text = text.replace(each, f"<{reference}>")
        cut = next((size for size in range(len(each) - 1, _SHORTEST - 1, -1) if text.endswith(each[:size])), 0)
        text = text[: len(text) - cut] + f"<{reference}>" if cut else text
    return text


def _revealed(part: str | SecretReference) -> str:
    if isinstance(part, str):
        return part
    value = part.reveal()
    if value is None:
        raise missing_secret(part, None)
    return value


def missing_secret(reference: SecretReference, at: Place | None) -> DeclarationError:
    """Return the error for a reference without a value."""
    if reference.kind == "env":
        return DeclarationError(
            "missing-secret",
            f"the environment variable {reference.name} is not set",
            at=at,
            hint=f"set it before running lakesmith: export {reference.name}=…",
        )
    return DeclarationError(
        "missing-secret",
        f"the file {reference.name} cannot be read",
        at=at,
        hint="a relative path starts at the lake's folder; the file must be readable and UTF-8",
    )
