"""A lake of a test, and helpers for tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tests.servers.s3 import S3Server

from lakesmith import failpoints
from lakesmith.lake import Lake
from lakesmith.records import StepRecord
from lakesmith.reports import RunReport
from lakesmith.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Cut(BaseException):
    """Simulates a killed process: Lakesmith never catches it."""


@contextmanager
def watched(watcher: Callable[[str, str], None]) -> Iterator[None]:
    """Watch each reached failpoint."""
    failpoints.watch(watcher)
    try:
        yield
    finally:
        failpoints.watch(None)


@contextmanager
def cut_at(place: str, about: str | None = None) -> Iterator[None]:
    """End a run at the failpoint, for one table or any, as if it were killed."""

    def watcher(reached: str, name: str) -> None:
        if reached == place and about in (None, name):
            raise Cut

    with watched(watcher):
        yield


@dataclass
class Written:
    """A lake folder, and helpers for tests."""

    folder: Path
    spark: SparkSession
    reports: list[RunReport] = field(default_factory=list)

    def declare(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def land(self, name: str, *rows: dict[str, object] | str) -> Path:
        """Write a landing file: JSON lines from dicts, or unchanged lines."""
        path = self.folder / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    def lake(self) -> Lake:
        if place.server is not None:
            move_to_bucket(self, place.server)
        return Lake.open(self.folder)

    def run(
        self,
        *select: str,
        full_refresh: bool = False,
        days: tuple[date, date] | None = None,
        chunk: int = 7,
        ok: bool = True,
    ) -> dict[str, StepRecord]:
        """Run, and return the last step of each table."""
        report = self.lake().run(select, full_refresh=full_refresh, days=days, chunk=chunk, session=self.spark)
        self.reports.append(report)
        if ok:
            assert not report.errors, report.errors
        return {step.table: step for step in report.steps}

    def rows(self, sql: str, *at: str) -> list[tuple[object, ...]]:
        return list(self.lake().query(sql, at=at).rows)

    def version(self, table: str) -> int | None:
        return next(status.version for status in self.lake().status() if status.table == table)


@dataclass
class Place:
    """Where the warehouses of the current test are: in buckets of a server, or in the folders of the lakes."""

    server: S3Server | None = None


place = Place()


def move_to_bucket(lake: Written, server: S3Server) -> None:
    """Move the lake's warehouse into a bucket. Its folder stays as a link, by which a test sees and changes files."""
    folder = lake.folder / ".lakesmith" / "warehouse"
    declared = lake.folder / "lakesmith.yml"
    environment = yaml.safe_load(declared.read_text())
    if not folder.is_symlink():
        bucket = server.bucket()
        if folder.exists():
            shutil.move(folder, server.folder / bucket / "warehouse")
        else:
            (server.folder / bucket / "warehouse").mkdir()
            folder.parent.mkdir(exist_ok=True)
        folder.symlink_to(server.folder / bucket / "warehouse")
    bucket = folder.resolve().parent.name
    url = f"s3://{bucket}"
    here = environment.setdefault("environments", {}).setdefault("dev", {})
    if "warehouse" not in here:
        here |= {"warehouse": f"{url}/warehouse", "storage": {url: server.settings()}}
        declared.write_text(yaml.safe_dump(environment))
        hadoop: Any = lake.spark.sparkContext._jsc
        for name, value in open_store(url, {url: server.settings()}).engine("spark").settings.items():
            hadoop.hadoopConfiguration().set(name.removeprefix("spark.hadoop."), value)


ORDERS = {
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/orders.sql": (
        "/* lakesmith\n"
        "load: {merge: {key: id, order_by: at}}\n"
        "columns:\n"
        "  id: {type: bigint, required: true}\n"
        "  amount: {type: int, check: amount >= 0}\n"
        "*/\n"
        "SELECT id, amount, day, at FROM bronze.orders\n"
    ),
    "gold/sales.sql": (
        "/* lakesmith\nload: {replace_partitions: day}\n*/\n"
        "SELECT day, count(*) AS orders, sum(amount) AS amount FROM silver.orders GROUP BY day\n"
    ),
}
