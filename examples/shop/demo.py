"""`make demo`: the shop's first two days, from landing files to an answer."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from data import write_day

from lakesmith.cli import app

SHOP = Path(__file__).parent
QUESTION = """
SELECT day, currency, orders, sales FROM gold.daily_sales ORDER BY day, currency
""".strip()


def demo(folder: Path) -> None:
    """Build the shop's lake in `folder` from scratch."""
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("__pycache__", ".lakesmith", "landing", "*.pyc"))

    _say("Day 1: the till and the CRM drop their first files")
    write_day(folder / "landing", 1)
    _lakesmith(folder, "plan")
    _lakesmith(folder, "run")

    _say("Day 2: late rows, duplicates, a corrected order, a customer who moved, a new column, broken rows")
    write_day(folder / "landing", 2)
    _lakesmith(folder, "run")

    _say("The lake now; what was quarantined, and why")
    _lakesmith(folder, "status", "--quarantine")
    _say("What did we sell each day?")
    _lakesmith(folder, "query", QUESTION)
    _say(f"Done in {time.monotonic() - started:.0f} seconds. Try next, in {folder}:")
    print(
        f'  export PATH="{Path(sys.executable).parent}:$PATH"\n'
        "  lakesmith run                                     nothing is new: no Spark, no commit\n"
        "  lakesmith plan --full-refresh                     what a rebuild would do\n"
        "  lakesmith history silver.orders                   every version, and its run\n"
        '  lakesmith query "SELECT * FROM gold.daily_sales" --at gold.daily_sales=0\n'
        "  lakesmith lineage gold.daily_sales --columns      where its columns come from"
    )


def _say(text: str) -> None:
    print(f"\n== {text}\n", flush=True)


def _lakesmith(folder: Path, *words: str) -> None:
    print("$ lakesmith", *(f'"{word}"' if " " in word else word for word in words), flush=True)
    try:
        app.main(["--lake", str(folder), *words], prog_name="lakesmith")
    except SystemExit as ended:
        if ended.code:
            raise


if __name__ == "__main__":
    demo(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo/shop"))
