"""Versions of a contract: major for breaking changes, minor for others, patch for documentation."""

from __future__ import annotations

from typing import Literal, NamedTuple

Size = Literal["major", "minor", "patch"]


class ContractVersion(NamedTuple):
    """`major.minor.patch`."""

    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @staticmethod
    def parse(text: str) -> ContractVersion:
        """Parse a version; missing parts are 0."""
        return ContractVersion(*_parts(text))

    def starts_with(self, written: str) -> bool:
        """Whether the version matches a shorter form, such as `2`."""
        prefix = _parts(written)
        return self[: len(prefix)] == prefix

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


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
