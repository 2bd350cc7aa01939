"""Reads the rows of a version into Arrow, without a JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakesmith.errors import UsageError
from lakesmith.formats.delta.actions import active_files, log_segment, read_actions
from lakesmith.formats.delta.deletion_vectors import read_vector
from lakesmith.formats.delta.facts import deletes_by_vector, is_widened
from lakesmith.formats.delta.integrity import log_failure
from lakesmith.formats.delta.log_files import (
    commit_name,
    data_file_key,
    display_name,
    missing_file,
    open_parquet,
    storage_options,
)
from lakesmith.formats.delta.snapshot import open_snapshot_at, open_snapshot_if_any
from lakesmith.ports import TableFolder

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from deltalake import DeltaTable

_FEATURES = {"deletionVectors", "typeWidening"}
"""Table features for which delta-rs makes no dataset."""


def read_arrow(folder: TableFolder, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
    """The rows of a version; raises where it is gone."""
    from deltalake import exceptions

    try:
        table = open_snapshot_at(folder, version)
    except (exceptions.DeltaError, OSError) as error:
        newest = open_snapshot_if_any(folder)
        if newest is not None and newest.version() == version:
            raise log_failure(folder, str(error)) from error
        raise UsageError(
            "unknown-version",
            f"{display_name(folder)} has no version {version}",
            hint="`lakesmith history TABLE` lists the versions that can be read",
        ) from error
    _refuse_vacuumed(folder, table)
    deletes = deletes_by_vector(table)
    rows = _dataset(folder, _as_plain(folder, table) if deletes or is_widened(table) else table)
    return _without_deleted(folder, version, rows) if deletes else rows


def query(folder: TableFolder, name: str, sql: str) -> Any:
    """The result of a query over the newest version, which it calls `name`, as an Arrow table; None where there is no
    table."""
    table = open_snapshot_if_any(folder)
    if table is None:
        return None
    from deltalake import QueryBuilder

    return QueryBuilder().register(name, table).execute(sql).read_all()


def is_readable(folder: TableFolder, version: int) -> bool:
    """Whether the log and the data files of a version are there."""
    return log_segment(folder, version) is not None and _missing_file(folder, version) is None


def rows_added_by(folder: TableFolder, version: int, column: str) -> Mapping[str, int] | None:
    """How many rows the commit of a version added, by value of a text column; None where the commit or its files are
    gone."""
    found: Counter[str] = Counter()
    try:
        for key in _files_added_by(folder, version):
            for batch in open_parquet(folder, key, read_dictionary=[column]).iter_batches(columns=[column]):
                for counted in batch.column(0).value_counts().to_pylist():
                    found[counted["values"]] += counted["counts"]
    except FileNotFoundError:  # another writer compacted and vacuumed the table, or cleaned up its log
        return None
    return found


def _files_added_by(folder: TableFolder, version: int) -> Iterator[str]:
    """The data files that a version added, read from its commit."""
    for action in read_actions(folder, version):
        if added := action.get("add"):
            yield data_file_key(folder, added["path"])


def _refuse_vacuumed(folder: TableFolder, table: DeltaTable) -> None:
    """Raise where files of an earlier version are gone: a version is read completely or not at all."""
    version = table.version()
    newest = folder.stat(commit_name(version + 1)) is None
    if newest or log_segment(folder, version) is None:
        return
    missing = _missing_file(folder, version)
    if missing is not None:
        raise UsageError(
            "unknown-version",
            f"version {version} of {display_name(folder)} is no longer readable: {missing.rpartition('/')[2]} was "
            "vacuumed or deleted",
            hint="read a later version; `lakesmith history TABLE` lists them",
        )


def _missing_file(folder: TableFolder, version: int) -> str | None:
    """A data file of a version that is gone, if there is one."""
    return missing_file(folder, active_files(folder, version, lambda _: True))


def _as_plain(folder: TableFolder, table: DeltaTable) -> DeltaTable:
    """The table without these features: Arrow casts rows to the current types as it reads them, and deleted rows are
    left out here."""
    from deltalake import DeltaTable

    class Plain(DeltaTable):
        def protocol(self) -> Any:
            found = super().protocol()
            return found._replace(reader_features=[f for f in found.reader_features or () if f not in _FEATURES])

    options = storage_options(folder)
    return Plain(folder.engine_url("delta-rs"), version=table.version(), storage_options=options)


def _without_deleted(
    folder: TableFolder, version: int, rows: pa.dataset.Dataset
) -> pa.dataset.Dataset | pa.RecordBatchReader:
    """The rows without those that deletion vectors mark."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files = active_files(folder, version, lambda add: bool(add.get("deletionVector")))
    if not files:
        return rows

    def batches() -> Iterator[pa.RecordBatch]:
        for fragment in rows.get_fragments():
            found = fragment.to_batches(
                schema=rows.schema, fragment_scan_options=rows.format.default_fragment_scan_options
            )
            add = files.get(folder.key(fragment.path))
            if add is None:
                yield from found
                continue
            deleted, first = pa.array(read_vector(folder, add["deletionVector"]), pa.int64()), 0
            for batch in found:
                numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
                first += batch.num_rows
                yield batch.filter(pc.invert(pc.is_in(numbers, deleted)))

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _dataset(folder: TableFolder, table: DeltaTable) -> pa.dataset.Dataset:
    """Return the rows of a version as a dataset that verifies the checksum of each Parquet page that has one."""
    from pyarrow.dataset import ParquetFragmentScanOptions
    from pyarrow.fs import SubTreeFileSystem

    # Arrow creates a reader while it holds Python's lock, then waits for its own threads. Through the file system of
    # delta-rs those threads call Python: a query beside other threads could hang forever.
    files = SubTreeFileSystem(folder.path, folder.store.arrow())
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
