"""Commits of other writers, for the oracle. Imports nothing of Lakesmith."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Foreign:
    """A version that another writer committed, with the digest of its content."""

    table: str
    version: int
    digest: str
    between: bool = False
    """Whether the table may have rows of another writer at this version, which the next versions delete."""


def log_folder(warehouse: Path, table: str) -> Path:
    return warehouse / table.replace(".", "/") / "_delta_log"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def lost(warehouse: Path, commits: Iterable[Foreign]) -> Iterator[str]:
    """Yield the commits of other writers that Lakesmith has overwritten or deleted."""
    for commit in commits:
        file = log_folder(warehouse, commit.table) / f"{commit.version:020}.json"
        if not file.is_file():
            yield f"A version {commit.version} of {commit.table} is another writer's, and is gone"
        elif digest(file) != commit.digest:
            yield f"A version {commit.version} of {commit.table} is another writer's, and was overwritten"
