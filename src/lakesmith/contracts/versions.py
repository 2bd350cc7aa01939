"""Counts versions of a contract: major for what breaks, minor for what does not, patch for words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Size = Literal["major", "minor", "patch"]


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """`major.minor.patch`."""

    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @staticmethod
    def parse(text: str) -> Version:
        """The version that is written; parts that are left out are 0."""
        return Version(*parts(text))

    def starts_with(self, written: str) -> bool:
        """Whether it is one of those that a shorter spelling, such as `2`, stands for."""
        wanted = parts(written)
        return (self.major, self.minor, self.patch)[: len(wanted)] == wanted

    def grown(self, size: Size | None) -> Version:
        match size:
            case "major":
                return Version(self.major + 1)
            case "minor":
                return Version(self.major, self.minor + 1)
            case "patch":
                return Version(self.major, self.minor, self.patch + 1)
            case None:
                return self


FIRST = Version(1)


def parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
