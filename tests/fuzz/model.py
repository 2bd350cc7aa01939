"""The input of a reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case to read."""

    kind: str
    """The kind of reader."""
    target: str
    """The mutated file."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """All files, including the mutated one."""
    options: Mapping[str, Any] = field(default_factory=dict)
