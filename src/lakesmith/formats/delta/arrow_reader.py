"""Reads the rows of a version into Arrow, without a JVM."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakesmith.errors import DataError, UsageError
from lakesmith.formats.delta.actions import active_files, log_segment, read_actions
from lakesmith.formats.delta.facts import deletes_by_vector, is_widened
from lakesmith.formats.delta.integrity import log_failure
from lakesmith.formats.delta.log_files import commit_path, display_name
from lakesmith.formats.delta.snapshot import open_snapshot_at, open_snapshot_if_any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from deltalake import DeltaTable


def read_arrow(location: str, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
    """The rows of a version; raises where it is gone."""
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    try:
        table = open_snapshot_at(location, version)
    except (DeltaError, OSError) as error:
        newest = open_snapshot_if_any(location)
        if newest is not None and newest.version() == version:
            raise log_failure(location, str(error)) from error
        raise UsageError(
            "unknown-version",
            f"{display_name(location)} has no version {version}",
            hint="`lakesmith history TABLE` lists the versions that can be read",
        ) from error
    _refuse_vacuumed(location, table)
    if is_widened(table):
        return _widened_rows(location, table)
    if deletes_by_vector(table):
        import pyarrow as pa

        # A pyarrow dataset would show the deleted rows; DataFusion, inside delta-rs, omits them.
        stream = QueryBuilder().register("rows", table).execute("SELECT * FROM rows")
        return pa.RecordBatchReader.from_stream(stream)
    return _dataset(location, table)


def is_readable(location: str, version: int) -> bool:
    """Whether the log and the data files of a version are there."""
    return log_segment(location, version) is not None and _missing_file(location, version) is None


def rows_added_by(location: str, version: int, column: str) -> Mapping[str, int] | None:
    """How many rows the commit of a version added, by value of a text column; None where the commit or its files are
    gone."""
    import pyarrow.parquet as pq

    found: Counter[str] = Counter()
    try:
        for path in _files_added_by(location, version):
            for batch in pq.ParquetFile(path, read_dictionary=[column]).iter_batches(columns=[column]):
                for counted in batch.column(0).value_counts().to_pylist():
                    found[counted["values"]] += counted["counts"]
    except FileNotFoundError:  # another writer compacted and vacuumed the table, or cleaned up its log
        return None
    return found


def _files_added_by(location: str, version: int) -> Iterator[str]:
    """The data files that a version added, read from its commit."""
    for action in read_actions(location, version):
        if added := action.get("add"):
            yield os.path.join(location, unquote(added["path"]))


def _refuse_vacuumed(location: str, table: DeltaTable) -> None:
    """Raise where files of an earlier version are gone: a version is read completely or not at all."""
    version = table.version()
    newest = not os.path.exists(commit_path(location, version + 1))
    if newest or log_segment(location, version) is None:
        return
    missing = _missing_file(location, version)
    if missing is not None:
        raise UsageError(
            "unknown-version",
            f"version {version} of {display_name(location)} is no longer readable: {os.path.basename(missing)} was "
            "vacuumed or deleted",
            hint="read a later version; `lakesmith history TABLE` lists them",
        )


def _missing_file(location: str, version: int) -> str | None:
    """A data file of a version that is gone, if there is one."""
    files = active_files(location, version, lambda _: True)
    return next((path for path in files if not os.path.exists(path)), None)


def _widened_rows(location: str, table: DeltaTable) -> pa.dataset.Dataset:
    """The rows of all files. Arrow casts them to the current column types as it reads."""
    from deltalake import DeltaTable

    if deletes_by_vector(table):
        raise DataError(
            "vectors-and-wider-types",
            f"{display_name(location)} has deletion vectors and widened columns: only Spark can read both together",
            hint=f"in Spark: ALTER TABLE delta.`{location}` DROP FEATURE deletionVectors",
        )

    class WithoutWidening(DeltaTable):
        """The table without the feature that delta-rs does not support: Arrow does the casts."""

        def protocol(self) -> Any:
            found = super().protocol()
            return found._replace(reader_features=[f for f in found.reader_features or () if f != "typeWidening"])

    return _dataset(location, WithoutWidening(location, version=table.version()))


def _dataset(location: str, table: DeltaTable) -> pa.dataset.Dataset:
    """Return the rows of a version as a dataset that verifies the checksum of each Parquet page that has one."""
    from pyarrow.dataset import ParquetFragmentScanOptions
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    # Arrow creates a reader while it holds Python's lock, then waits for its own threads. Through the file system of
    # delta-rs those threads call Python: a query beside other threads could hang forever.
    files = SubTreeFileSystem(os.path.abspath(location), LocalFileSystem())
    try:
        rows = table.to_pyarrow_dataset(filesystem=files)
        misread = any(_has_null_bound(file) for file in rows.get_fragments())
    except ValueError:
        misread = True
    if misread:
        rows = _dataset_without_statistics(table, files)
    # Without this, Arrow takes a flipped bit for a value.
    rows.format.default_fragment_scan_options = ParquetFragmentScanOptions(
        pre_buffer=True, page_checksum_verification=True
    )
    return rows


def _has_null_bound(file: pa.dataset.Fragment) -> bool:
    """Whether the statistics of a file compare a column with NULL: each filter on the column would omit the file."""
    return "null[" in str(file.partition_expression)


def _dataset_without_statistics(table: DeltaTable, files: pa.fs.FileSystem) -> pa.dataset.FileSystemDataset:
    """Return the rows of a version as a dataset that knows the partition values of its files, but no statistics.

    delta-rs cannot parse years outside of 1 to 9999: it raises for dates and partition values, and takes the bounds of
    timestamps for NULL.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    format = ParquetFileFormat()
    partitions = table.metadata().partition_columns
    fragments = []
    for batch in pa.table(table.get_add_actions(flatten=True)).to_batches():
        for row, path in enumerate(batch["path"].to_pylist()):
            expression = pc.scalar(True)
            for name in partitions:
                value = batch[f"partition.{name}"][row]
                expression &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
            fragments.append(format.make_fragment(unquote(path), files, expression))
    return FileSystemDataset(fragments, pa.schema(table.schema().to_arrow()), format, files)
