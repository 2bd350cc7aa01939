"""A batch is written once, good rows and refused ones apart, before it is known whether it may be committed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.columns import FAILED, HIDDEN
from lakesmith.spark.arrival import Arrival
from lakesmith.spark.checked import is_good, refused_columns
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KIND = f"{HIDDEN}kind"
_REFUSED = f"{HIDDEN}refused"
_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The folder of one batch that is written and not committed."""

    folder: str
    arrival: Arrival

    def write(self, rows: DataFrame) -> None:
        """Write the rows, which are checked, in one pass: what is set aside beside the good ones."""
        shutil.rmtree(self.folder, ignore_errors=True)
        rules, columns = self.arrival.rules, rows.columns
        kept = ", ".join(refused_columns(columns, self.arrival))
        failed = [name for name in columns if name.startswith(FAILED)]
        staged = rows.selectExpr(
            *map(quoted, self.arrival.payload),
            *failed,
            f"CASE WHEN {rules.refused()} THEN struct({kept}) END AS {_REFUSED}",
            f"CASE WHEN {rules.refused()} THEN 'refused' WHEN {is_good(rules, columns)} THEN 'good' "
            f"WHEN {rules.discarded()} THEN 'discarded' END AS {_KIND}",
        ).where(f"{_KIND} IS NOT NULL")
        with _without_sorting(rows.sparkSession):
            staged.write.partitionBy(_KIND).parquet(self.folder)

    def good(self) -> DataFrame:
        """The good rows, as they are to be stored."""
        return self._read("good").select(*map(quoted, self.arrival.payload))

    def refused(self) -> DataFrame:
        """The rows for the quarantine."""
        return self._read("refused").select(f"{_REFUSED}.*")

    def all(self) -> DataFrame:
        """All rows, with the rules that they broke."""
        return self._read("good").unionByName(self._read("refused")).unionByName(self._read("discarded"))

    def broken(self) -> dict[tuple[int, ...], int]:
        """How many rows have which numbers, whose bits are broken rules. They are zeros nearly everywhere, so that
        reading them is next to nothing."""
        numbers = list(self.arrival.rules.failed())
        some = " OR ".join(f"{name} <> 0" for name in numbers)
        counted = self.all().where(some).groupBy(*numbers).count().collect()
        return {tuple(row[name] for name in numbers): row["count"] for row in counted}

    @property
    def good_folder(self) -> str:
        return os.path.join(self.folder, f"{_KIND}=good")

    @property
    def has_good(self) -> bool:
        return os.path.isdir(self.good_folder)

    def _read(self, kind: str) -> DataFrame:
        rows, spark = self.arrival.rows, self.arrival.rows.sparkSession
        path = os.path.join(self.folder, f"{_KIND}={kind}")
        if os.path.isdir(path):
            return spark.read.parquet(path)
        rules = self.arrival.rules
        failed = [f"CAST(0 AS bigint) AS {name}" for name in rules.failed()]
        kept = ", ".join(refused_columns([*rows.columns, *rules.failed()], self.arrival))
        return (
            rows.selectExpr("*", *failed)
            .limit(0)
            .selectExpr(*map(quoted, self.arrival.payload), *rules.failed(), f"struct({kept}) AS {_REFUSED}")
        )

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def _without_sorting(spark: SparkSession) -> Iterator[None]:
    """Each task keeps the files of all kinds open, in place of sorting its rows by kind."""
    before = spark.conf.get(_WRITERS, None)
    spark.conf.set(_WRITERS, "8")
    try:
        yield
    finally:
        spark.conf.unset(_WRITERS) if before is None else spark.conf.set(_WRITERS, before)
