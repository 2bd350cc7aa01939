"""`make demo-s3`, `demo-cluster` and `demo-connect`: the shop elsewhere, compared with the shop on one machine."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from tests.servers.cluster import standalone
from tests.servers.connect import start_connect
from tests.servers.maven import stop
from tests.servers.s3 import S3Server, start_s3

from lakesmith.lake import Lake

SHOP = Path(__file__).parents[2] / "examples" / "shop"
DAYS = (1, 2)
_AUDIT = "* EXCLUDE (_ingested_at, _run_id, _source_file, _source_modified)"
_SECRET = "LAKESMITH_DEMO_SECRET"
"""The environment variable with the secret key of the demo's S3 server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A copy of the shop, and the folder that its files arrive in."""

    folder: Path
    landing: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a shop runs and keeps its tables."""

    spark: Mapping[str, str] = field(default_factory=dict)
    server: S3Server | None = None
    """Where the warehouse and the landing files are; None for folders of this machine."""

    def shop(self, folder: Path) -> Shop:
        """Copy the shop's declarations, with an environment for this place."""
        shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("__pycache__", ".lakesmith", "landing", "*.pyc"))
        environment: dict[str, object] = {"warehouse": ".lakesmith/warehouse", "spark": dict(self.spark)}
        landing = folder / "landing"
        if self.server is not None:
            bucket = self.server.bucket()
            landing = self.server.folder / bucket / "landing"
            environment |= {
                "warehouse": f"s3://{bucket}/shop",
                "landing": f"s3://{bucket}",
                "storage": {f"s3://{bucket}": {**self.server.settings(), "secret": f"env:{_SECRET}"}},
            }
            os.environ[_SECRET] = self.server.secret
        declared = yaml.safe_load((folder / "lakesmith.yml").read_text())
        (folder / "lakesmith.yml").write_text(yaml.safe_dump({**declared, "environments": {"dev": environment}}))
        return Shop(folder=folder, landing=landing)


def run_days(shop: Shop) -> None:
    """Land and ingest both days, each with a process of its own, as a schedule does."""
    write_day = runpy.run_path(str(SHOP / "data.py"))["write_day"]
    for day in DAYS:
        write_day(shop.landing, day)
        began = time.monotonic()
        command = [sys.executable, "-m", "lakesmith", "--lake", str(shop.folder), "run"]
        ended = subprocess.run(command, stdout=sys.stderr, check=False)
        if ended.returncode:
            raise RuntimeError(f"day {day} failed in {shop.folder}")
        print(f"day {day} in {shop.folder.name}: {time.monotonic() - began:.1f} s", flush=True)


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


@contextmanager
def started_s3(folder: Path) -> Iterator[S3Server]:
    """An S3 server that lives as long as the block."""
    folder.mkdir()
    server, process = start_s3(folder)
    try:
        yield server
    finally:
        stop(process)


def run_elsewhere(place: str, folder: Path) -> list[str]:
    """Run the shop at a place and here; return the tables that differ."""
    lakes = folder / "lakes"
    lakes.mkdir()
    other, here = lakes / place, lakes / "local"
    if place == "connect":
        (folder / "spark").mkdir()
        connect, process = start_connect(folder / "spark")
        try:
            run_days(Place(spark={"remote": connect.remote}).shop(other))
        finally:
            stop(process)
        run_days(Place().shop(here))
        return differences(here, other)
    with started_s3(folder / "server") as server:
        if place == "s3":
            run_days(Place(server=server).shop(other))
        else:
            # The executors share no folder with the lakes or the server.
            with standalone(folder / "spark", hidden=[lakes, folder / "server"]) as cluster:
                run_days(Place(server=server, spark=cluster.settings()).shop(other))
        run_days(Place().shop(here))
        return differences(here, other)


def main(place: str) -> None:
    with tempfile.TemporaryDirectory(prefix="lakesmith-demo-") as temporary:
        differing = run_elsewhere(place, Path(temporary))
    print(f"The shop on {place} and the local one are {'not ' if differing else ''}equal", *differing)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main(sys.argv[1])
