"""The example shop in its own folder, with the files of its two days, for measurements."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from bench.measure import ROOT

SHOP = ROOT / "examples" / "shop"
ORDERS = 400
"""A day's orders in the demo."""


def make_shop(folder: Path, orders: int = ORDERS) -> None:
    """Write the declarations and the files of the first day; keep the files of the second day beside them."""
    ignored = shutil.ignore_patterns("__pycache__", ".lakesmith", "landing", "*.pyc")
    shutil.copytree(SHOP, folder, ignore=ignored)
    write_day = runpy.run_path(str(SHOP / "data.py"))["write_day"]
    write_day(folder / "landing", 1, orders)
    write_day(folder / "tomorrow", 2, orders)


def next_day(folder: Path) -> None:
    """Land the files of the second day."""
    shutil.copytree(folder / "tomorrow", folder / "landing", dirs_exist_ok=True)
