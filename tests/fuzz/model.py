"""What a reader of Lakesmith is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing to read."""

    kind: str
    """Which reader."""
    target: str
    """The file that was mutated."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """All files, the mutated one among them."""
    options: Mapping[str, Any] = field(default_factory=dict)
