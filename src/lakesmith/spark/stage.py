"""A batch is written once, good rows and others apart, before it is known whether it may be committed; how many rows
there are of each kind is told by the files themselves."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakesmith.columns import AGAIN, CODE, CORRUPT, END, FAILED, FILE, GIVEN_UP, HIDDEN, RESCUED
from lakesmith.ledger.staged import MARK, remove_staged, staged_folders, staged_name
from lakesmith.spark.build import BEFORE
from lakesmith.spark.checked import closes_file, is_good, refused_rows
from lakesmith.spark.count import Counts, by_rule, measured
from lakesmith.spark.incoming import FileEnd, IncomingBatch
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KIND = f"{HIDDEN}kind"
_ASIDE = f"{HIDDEN}aside"
_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
_MARKS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
"""Whether Spark marks a folder whose files are all in their place; a user may have turned it off for other writes."""
_ASIDE_COLUMNS = (CORRUPT, CODE, END, FILE)
"""Hidden columns that are of interest only in rows which are not good, besides values before they were cast."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The folder of one attempt at a batch that is written and not committed.

    Nobody else writes to it. Whoever commits the batch removes what other attempts at it have left: they cannot be
    committed any more, so that it does no harm to take the files away from one that still goes on.
    """

    beside: str
    """The folder of all attempts."""
    arrival: IncomingBatch

    @property
    def folder(self) -> str:
        batch = self.arrival.batch
        return os.path.join(self.beside, staged_name(batch.sequence, batch.attempt))

    def write(self, rows: DataFrame) -> None:
        """Write the rows, which are checked, in one pass: what is set aside beside the good ones."""
        shutil.rmtree(self.folder, ignore_errors=True)
        rules, columns = self.arrival.rules, rows.columns
        kinds = {
            "end": closes_file(columns),
            "again": AGAIN if AGAIN in columns else "false",
            "refused": rules.refused(),
            "discarded": f"({rules.discarded()}){f' OR {GIVEN_UP}' if GIVEN_UP in columns else ''}",
        }
        # Only what may be is asked: the pass is compiled as a whole, and must not grow too large to be.
        cases = [f"WHEN {sql} THEN '{kind}'" for kind, sql in kinds.items() if sql not in ("false", "(false)")]
        aside = _aside(columns)
        kept = ", ".join(map(quoted, aside))
        good = is_good(rules, columns)
        staged = rows.selectExpr(
            *map(quoted, self.arrival.payload),
            *(name for name in columns if name.startswith(FAILED)),
            *([f"CASE WHEN NOT ({good}) THEN struct({kept}) END AS {_ASIDE}"] if aside else []),
            f"CASE {' '.join(cases)} ELSE 'good' END AS {_KIND}" if cases else f"'good' AS {_KIND}",
        )
        with _without_sorting(rows.sparkSession):
            staged.write.option(_MARKS, "true").partitionBy(_KIND).parquet(self.folder)

    def counts(self) -> Counts:
        """How many rows came and what became of them, from what the files tell of themselves; and what is asked of the
        good rows all together, in one look at the columns that it names."""
        rules, arrival = self.arrival.rules, self.arrival
        again, refused, discarded = (self._rows(kind) for kind in ("again", "refused", "discarded"))
        broken = by_rule(rules, self._broken() if self._some_broke() else {})
        counts = Counts(
            came=self._rows("good") + again + refused + discarded,
            refused=refused,
            discarded=discarded,
            broken=broken,
            measured=measured(rules.batch, self.good(), self._rows("good")) if rules.batch else {},
            filled={name: self._filled(name) for name in arrival.payload} if arrival.again else {},
            again=again,
            rescued=self._filled(RESCUED) if RESCUED in arrival.payload else 0,
            ends=self._ends(),
        )
        # Spark makes the mark when the last file is in its place; it goes before any of them does.
        if not os.path.isfile(os.path.join(self.folder, MARK)):
            raise FileNotFoundError(errno.ENOENT, "the files of the batch are gone", self.folder)
        return counts

    def good(self) -> DataFrame:
        """The good rows, as they are to be stored."""
        return self._read("good").select(*map(quoted, self.arrival.payload))

    def refused(self) -> DataFrame:
        """The rows for the quarantine."""
        return refused_rows(self._read("refused"), self.arrival)

    def all(self) -> DataFrame:
        """All rows, with the rules that they broke."""
        rows = self._read("good")
        for kind in ("refused", "discarded"):
            rows = rows.unionByName(self._read(kind))
        return rows

    @property
    def good_folder(self) -> str:
        return self._folder("good")

    @property
    def has_good(self) -> bool:
        return os.path.isdir(self.good_folder)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_outdated(self) -> None:
        """Remove what attempts at this batch and at earlier ones have left: the batch is committed."""
        remove_staged(staged_folders(self.beside), self.arrival.batch.sequence)

    def _folder(self, kind: str) -> str:
        return os.path.join(self.folder, f"{_KIND}={kind}")

    @cached_property
    def _files(self) -> dict[str, list[Any]]:
        """By kind, what the files tell of themselves."""
        import pyarrow.parquet as pq

        found: dict[str, list[Any]] = {}
        for kind in ("good", "refused", "discarded", "again", "end"):
            folder = self._folder(kind)
            names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            paths = [os.path.join(folder, name) for name in names if name.endswith(".parquet")]
            found[kind] = [pq.ParquetFile(path).metadata for path in paths]
        return found

    def _rows(self, kind: str) -> int:
        return sum(file.num_rows for file in self._files[kind])

    def _filled(self, name: str) -> int:
        """In how many rows a column has a value."""
        rows = nulls = 0
        for file in (*self._files["good"], *self._files["refused"], *self._files["discarded"]):
            for _, chunk in _chunks(file, name):
                rows += chunk.num_values
                nulls += chunk.statistics.null_count if chunk.statistics is not None else 0
        return rows - nulls

    def _some_broke(self) -> bool:
        """Whether a row broke any rule."""
        for file in (*self._files["good"], *self._files["refused"], *self._files["discarded"]):
            for name in self.arrival.rules.failed():
                for _, chunk in _chunks(file, name):
                    told = chunk.statistics
                    if told is None or not told.has_min_max or (told.min, told.max) != (0, 0):
                        return True
        return False

    def _broken(self) -> dict[tuple[int, ...], int]:
        """How many rows have which numbers, whose bits are broken rules. They are zeros nearly everywhere, so that
        reading them is next to nothing."""
        numbers = list(self.arrival.rules.failed())
        some = " OR ".join(f"{name} <> 0" for name in numbers)
        counted = self.all().where(some).groupBy(*numbers).count().collect()
        return {tuple(row[name] for name in numbers): row["count"] for row in counted}

    def _ends(self) -> tuple[FileEnd, ...]:
        if END not in self.arrival.rows.columns:
            return ()
        # A file that was refused as a whole ends with the one row that stands for it.
        rows = self._read("end").unionByName(self._read("refused")).where(f"{END} IS NOT NULL")
        told = rows.select(FILE, END).collect()
        return tuple(FileEnd(number=row[FILE], **row[END].asDict()) for row in told)

    def _read(self, kind: str) -> DataFrame:
        rows, folder = self.arrival.rows, self._folder(kind)
        if os.path.isdir(folder):
            found = rows.sparkSession.read.parquet(folder)
        else:
            failed = [f"CAST(0 AS bigint) AS {name}" for name in self.arrival.rules.failed()]
            kept = [*map(quoted, self.arrival.payload), *failed, *map(quoted, _aside(rows.columns))]
            found = rows.limit(0).selectExpr(*kept)
        if _ASIDE not in found.columns:
            return found
        kept = [name for name in found.columns if name != _ASIDE]
        return found.selectExpr(*map(quoted, kept), f"{_ASIDE}.*")


def _aside(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name in _ASIDE_COLUMNS or name.startswith(BEFORE)]


def _chunks(file: Any, name: str) -> Iterator[tuple[int, Any]]:
    """The parts of a file that hold a column; of one with fields, those of its first."""
    at = _place(file, name)
    for group in range(file.num_row_groups) if at is not None else ():
        yield group, file.row_group(group).column(at)


def _place(file: Any, name: str) -> int | None:
    paths: Sequence[str] = [file.schema.column(number).path for number in range(file.num_columns)]
    return next((at for at, path in enumerate(paths) if path == name or path.startswith(f"{name}.")), None)


@contextmanager
def _without_sorting(spark: SparkSession) -> Iterator[None]:
    """Each task keeps the files of all kinds open, in place of sorting its rows by kind."""
    before = spark.conf.get(_WRITERS, None)
    spark.conf.set(_WRITERS, "8")
    try:
        yield
    finally:
        spark.conf.unset(_WRITERS) if before is None else spark.conf.set(_WRITERS, before)
