"""Versions of a contract: major for breaking changes, minor for others, patch for documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Size = Literal["major", "minor", "patch"]


@dataclass(frozen=True, slots=True, order=True)
class ContractVersion:
    """`major.minor.patch`."""

    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @staticmethod
    def parse(text: str) -> ContractVersion:
        """Parse a version; missing parts are 0."""
        return ContractVersion(*parts(text))

    def starts_with(self, written: str) -> bool:
        """Whether the version matches a shorter form, such as `2`."""
        prefix = parts(written)
        return (self.major, self.minor, self.patch)[: len(prefix)] == prefix

    def bumped(self, size: Size | None) -> ContractVersion:
        """Return the next version after a change of this size."""
        match size:
            case "major":
                return ContractVersion(self.major + 1)
            case "minor":
                return ContractVersion(self.major, self.minor + 1)
            case "patch":
                return ContractVersion(self.major, self.minor, self.patch + 1)
            case None:
                return self


FIRST = ContractVersion(1)


def parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
