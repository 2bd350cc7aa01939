"""Caches JSON between calls. A cache may be lost or unreadable: then callers recompute the values."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read_cache(file: Path) -> dict[str, Any]:
    """The cached values; empty where there are none."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_cache(file: Path, values: dict[str, Any], default: Callable[[Any], object] | None = None) -> None:
    """Replace the cached values; does nothing where the folder is not writable."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as temporary:
            json.dump(values, temporary, default=default)
        os.replace(temporary.name, file)
    except OSError:
        return
