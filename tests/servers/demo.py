"""`make demo-connect` and `make demo-cluster`: the shop on another Spark, compared with the shop on a local one."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml
from tests.servers.cluster import standalone
from tests.servers.connect import start_connect
from tests.servers.maven import stop

from lakesmith.lake import Lake

SHOP = Path(__file__).parents[2] / "examples" / "shop"
DAYS = (1, 2)
_AUDIT = "* EXCLUDE (_ingested_at, _run_id, _source_file, _source_modified)"


def copy_shop(folder: Path, spark: Mapping[str, str]) -> Path:
    """The shop's declarations, with these settings of Spark."""
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("__pycache__", ".lakesmith", "landing", "*.pyc"))
    environment = {"warehouse": ".lakesmith/warehouse", "spark": dict(spark)}
    declared = yaml.safe_load((folder / "lakesmith.yml").read_text())
    (folder / "lakesmith.yml").write_text(yaml.safe_dump({**declared, "environments": {"dev": environment}}))
    return folder


def run_days(folder: Path) -> None:
    """Land and ingest both days, each with a process of its own, as a schedule does."""
    write_day = runpy.run_path(str(SHOP / "data.py"))["write_day"]
    for day in DAYS:
        write_day(folder / "landing", day)
        began = time.monotonic()
        command = [sys.executable, "-m", "lakesmith", "--lake", str(folder), "run"]
        ended = subprocess.run(command, stdout=sys.stderr, check=False)
        if ended.returncode:
            raise RuntimeError(f"day {day} failed in {folder}")
        print(f"day {day} in {folder.name}: {time.monotonic() - began:.1f} s", flush=True)


def differences(one: Path, other: Path) -> list[str]:
    """The tables whose rows differ, or that were built in another way."""
    lakes = [Lake.open(one), Lake.open(other)]
    found = []
    for name in map(str, lakes[0].tables):
        columns = _AUDIT if name.startswith("bronze") else "*"
        rows = [sorted(map(str, lake.query(f"SELECT {columns} FROM {name}").rows)) for lake in lakes]
        steps = [
            lake.query(
                f"SELECT mode, rows_in, rows_written FROM system.steps WHERE \"table\" = '{name}' ORDER BY started_at"
            )
            for lake in lakes
        ]
        if rows[0] != rows[1] or steps[0].rows != steps[1].rows:
            found.append(name)
    return found


def main(place: str) -> None:
    with tempfile.TemporaryDirectory(prefix="lakesmith-demo-") as temporary:
        folder = Path(temporary)
        if place == "connect":
            (folder / "spark").mkdir()
            server, process = start_connect(folder / "spark")
            try:
                run_days(copy_shop(folder / place, {"remote": server.remote}))
            finally:
                stop(process)
        else:
            with standalone(folder / "spark") as cluster:
                run_days(copy_shop(folder / place, cluster.settings()))
        run_days(copy_shop(folder / "local", {}))
        differing = differences(folder / "local", folder / place)
        print(f"The shop on {place} and the local one are {'not ' if differing else ''}equal", *differing)
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main(sys.argv[1])
