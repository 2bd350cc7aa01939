"""Writes a batch to Parquet files before it is judged: good, rejected and other rows in separate folders.

The files lie in the table's folder, and no version names them. Their footers provide the row counts. When the gate
passes, the files of good rows are committed as they are, and the others are deleted.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakesmith.columns import (
    ALREADY_INGESTED,
    CORRUPT,
    DISCARDED,
    ERROR_CODE,
    FAILED_RULES,
    FILE_END,
    FILE_NUMBER,
    HIDDEN,
    RESCUED,
)
from lakesmith.ledger.staged import SUCCESS_MARKER
from lakesmith.ports import DataFile, ObjectFact, TableFolder
from lakesmith.spark.batch_counts import Counts, compute_measures, count_by_rule
from lakesmith.spark.build import BEFORE
from lakesmith.spark.incoming import FileRead, IncomingBatch, by_file
from lakesmith.spark.row_checks import is_file_end, is_good, rejected_rows
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READERS = 16
"""How many footers are read at a time."""
_EXTRA = f"{HIDDEN}aside"
_MAX_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
_MARK_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
"""Whether Spark writes `_SUCCESS` to a complete folder. A user may have turned it off for other writes."""
_EXTRA_COLUMNS = (CORRUPT, ERROR_CODE, FILE_END, FILE_NUMBER)
"""Hidden columns that only rows which are not good need, besides values before casts."""


@dataclass(frozen=True, kw_only=True)
class StagedFiles:
    """The files of one attempt at a batch, written and not yet committed.

    No other attempt writes to the folder. A vacuum deletes the files of attempts that were killed.
    """

    table: TableFolder
    incoming: IncomingBatch
    name: str
    """The folder in the table's, from `new_batch_folder`."""

    @property
    def folder(self) -> TableFolder:
        return self.table.below(self.name)

    def write(self, rows: DataFrame) -> None:
        """Write the checked rows in one pass, each kind to its own folder."""
        if self.table.disk is not None:
            self.table.disk.make_folder(self.table.path)
        rules, columns = self.incoming.rules, rows.columns
        kinds = {
            "end": is_file_end(columns),
            "again": ALREADY_INGESTED if ALREADY_INGESTED in columns else "false",
            "rejected": rules.quarantined(),
            "discarded": f"({rules.discarded()}){f' OR {DISCARDED}' if DISCARDED in columns else ''}",
        }
        # Skip kinds that cannot occur: Spark compiles the pass as a whole, and it must not grow too large for that.
        cases = [f"WHEN {sql} THEN '{kind}'" for kind, sql in kinds.items() if sql not in ("false", "(false)")]
        extra = _extra_columns(columns)
        selected = ", ".join(map(quoted, extra))
        good = is_good(rules, columns)
        staged = rows.selectExpr(
            *map(quoted, self.incoming.payload),
            *(name for name in columns if name.startswith(FAILED_RULES)),
            *([f"CASE WHEN NOT ({good}) THEN struct({selected}) END AS {_EXTRA}"] if extra else []),
            f"CASE {' '.join(cases)} ELSE 'good' END AS {self._kind}" if cases else f"'good' AS {self._kind}",
        )
        target = self.folder.engine_url("spark")
        with _without_sort(rows.sparkSession):
            staged.write.option(_MARK_SUCCESS, "true").partitionBy(self._kind).parquet(target)

    def counts(self) -> Counts:
        """Return the row counts from the file footers, and compute the metrics of batch checks over the good rows."""
        rules, incoming = self.incoming.rules, self.incoming
        already_ingested, rejected, discarded = (self._rows(kind) for kind in ("again", "rejected", "discarded"))
        broken = count_by_rule(rules, self._count_failed() if self._any_failed() else {})
        counts = Counts(
            rows_in=self._rows("good") + already_ingested + rejected + discarded,
            rejected=rejected,
            discarded=discarded,
            broken=broken,
            measured=compute_measures(rules.batch, self.good(), self._rows("good")) if rules.batch else {},
            filled={name: self._non_null(name) for name in incoming.payload} if incoming.rules_if_missing else {},
            already_ingested=already_ingested,
            rescued=self._non_null(RESCUED) if RESCUED in incoming.payload else 0,
            file_reads=self._file_reads(),
        )
        # Spark writes the mark after the last file. A vacuum deletes the mark before the files.
        if self.folder.stat(SUCCESS_MARKER) is None:
            raise FileNotFoundError(errno.ENOENT, "the files of the batch are gone", self.folder.url)
        return counts

    def good(self) -> DataFrame:
        """Return the good rows with the stored columns."""
        return self._read("good").select(*map(quoted, self.incoming.payload))

    def rejected(self) -> DataFrame:
        """Return the rows for the quarantine."""
        return rejected_rows(self._read("rejected"), self.incoming)

    def all(self) -> DataFrame:
        """Return all rows, with the rules that they failed."""
        rows = self._read("good")
        for kind in ("rejected", "discarded"):
            rows = rows.unionByName(self._read(kind))
        return rows

    def good_files(self) -> tuple[DataFile, ...]:
        """Return the files to commit. Delete Hadoop's checksums beside them: nobody syncs these."""
        good = self._folder("good")
        good.delete([file.key for file in good.list() if not file.key.endswith(".parquet")])
        return self._files["good"]

    def remove(self) -> None:
        """Delete all files. Only before the commit: later, the table may name the good ones."""
        self.folder.delete([file.key for file in self.folder.list()])

    def remove_others(self) -> None:
        """Delete all files but those of good rows."""
        good = {file.path for file in self._files["good"]}
        self.table.delete([file.key for file in self.table.list(f"{self.name}/") if file.key not in good])

    def _folder(self, kind: str) -> TableFolder:
        return self.folder.below(f"{self._kind}={kind}")

    @cached_property
    def _kind(self) -> str:
        """The partition column that separates the kinds. It is not hidden: a vacuum ignores hidden folders."""
        name, columns = "lakesmith_kind", {column.lower() for column in self.incoming.payload}
        while name in columns:
            name += "_"
        return name

    @cached_property
    def _files(self) -> dict[str, tuple[DataFile, ...]]:
        """The files with rows, by kind."""
        import pyarrow.parquet as pq

        store, prefix = self.table.store, f"{self.name}/{self._kind}="

        def read(file: ObjectFact) -> DataFile:
            footer = pq.read_metadata(self.table.key(file.key), filesystem=store.arrow())
            return DataFile(file.key, file.size, footer.num_rows, footer=footer)

        found: dict[str, list[DataFile]] = {kind: [] for kind in ("good", "rejected", "discarded", "again", "end")}
        names = [file for file in self.table.list(prefix) if file.key.endswith(".parquet")]
        with ThreadPoolExecutor(_READERS) as pool:  # on an object store, each footer is a round trip
            for file in pool.map(read, names):
                if file.rows:
                    found[file.path[len(prefix) :].partition("/")[0]].append(file)
        return {kind: tuple(files) for kind, files in found.items()}

    def _rows(self, kind: str) -> int:
        return sum(file.rows for file in self._files[kind])

    def _non_null(self, name: str) -> int:
        """Return the number of rows where a column is not NULL."""
        rows = nulls = 0
        for chunk in self._chunks(name):
            rows += chunk.num_values
            nulls += chunk.statistics.null_count if chunk.statistics is not None else 0
        return rows - nulls

    def _any_failed(self) -> bool:
        """Whether any row failed a rule."""
        for name in self.incoming.rules.failed():
            for chunk in self._chunks(name):
                statistics = chunk.statistics
                if statistics is None or not statistics.has_min_max or (statistics.min, statistics.max) != (0, 0):
                    return True
        return False

    def _chunks(self, name: str) -> Iterator[Any]:
        """Yield the column chunks of a column in the files with rows; for a struct, those of its first field."""
        for file in (*self._files["good"], *self._files["rejected"], *self._files["discarded"]):
            footer: Any = file.footer
            at = _column_index(footer, name)
            for group in range(footer.num_row_groups) if at is not None else ():
                yield footer.row_group(group).column(at)

    def _count_failed(self) -> dict[tuple[int, ...], int]:
        """Return row counts by bit masks of failed rules. The masks are mostly zeros, so reading them is cheap."""
        numbers = list(self.incoming.rules.failed())
        some = " OR ".join(f"{name} <> 0" for name in numbers)
        counted = self.all().where(some).groupBy(*numbers).count().collect()
        return {tuple(row[name] for name in numbers): row["count"] for row in counted}

    def _file_reads(self) -> tuple[FileRead, ...]:
        if FILE_END not in self.incoming.rows.columns:
            return ()
        # For a file that was rejected as a whole, its one rejected row is also the end marker.
        rows = self._read("end").unionByName(self._read("rejected")).where(f"{FILE_END} IS NOT NULL")
        return by_file(FileRead.from_row(row) for row in rows.select(FILE_NUMBER, FILE_END).collect())

    def _read(self, kind: str) -> DataFrame:
        rows, folder = self.incoming.rows, self._folder(kind)
        if self._files[kind]:
            found = rows.sparkSession.read.parquet(folder.engine_url("spark"))
        else:
            failed = [f"CAST(0 AS bigint) AS {name}" for name in self.incoming.rules.failed()]
            selected = [*map(quoted, self.incoming.payload), *failed, *map(quoted, _extra_columns(rows.columns))]
            found = rows.limit(0).selectExpr(*selected)
        if _EXTRA not in found.columns:
            return found
        selected = [name for name in found.columns if name != _EXTRA]
        return found.selectExpr(*map(quoted, selected), f"{_EXTRA}.*")


def _extra_columns(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name in _EXTRA_COLUMNS or name.startswith(BEFORE)]


def _column_index(file: Any, name: str) -> int | None:
    paths: Sequence[str] = [file.schema.column(number).path for number in range(file.num_columns)]
    return next((at for at, path in enumerate(paths) if path == name or path.startswith(f"{name}.")), None)


@contextmanager
def _without_sort(spark: SparkSession) -> Iterator[None]:
    """Let each task keep one open file per kind, so that Spark does not sort the rows by kind."""
    before = spark.conf.get(_MAX_WRITERS, None)
    spark.conf.set(_MAX_WRITERS, "8")
    try:
        yield
    finally:
        spark.conf.unset(_MAX_WRITERS) if before is None else spark.conf.set(_MAX_WRITERS, before)
