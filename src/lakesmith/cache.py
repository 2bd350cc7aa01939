"""JSON that is kept between calls to save time. It may be lost or unreadable: whoever keeps it can do without."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read_kept(file: Path) -> dict[str, Any]:
    """What was kept, or nothing."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(file: Path, values: dict[str, Any], default: Callable[[Any], object] | None = None) -> None:
    """Keep the values in place of what was kept; a folder that cannot be written to is left alone."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as temporary:
            json.dump(values, temporary, default=default)
        os.replace(temporary.name, file)
    except OSError:
        return
