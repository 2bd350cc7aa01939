"""Files of a batch: row counts per file, and the archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lakesmith.columns import SOURCE_FILE
from lakesmith.declare import Files, Table
from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.ports import FileFact, Store, TableFolder, TableFormat, find_commit
from lakesmith.records import FileRecord
from lakesmith.spark.incoming import BatchResult
from lakesmith.store import Warehouse, archive_path

_CHUNK = 1 << 20


def file_records(
    run_id: str,
    table: Table,
    batch: Batch,
    result: BatchResult,
    format: TableFormat,
    warehouse: Warehouse,
    landing: Store,
) -> tuple[FileRecord, ...]:
    """Reconcile each file: the rows that its reader counted against its rows in the table and in quarantine.

    Where another writer has cleaned up the commit of one of the two, or vacuumed its files, the remaining rows count as
    its share. Where both are gone, or rows were discarded too, return no records.
    """
    written = _added(format, warehouse.table(table.name), table, batch, SOURCE_FILE)
    rejected: Counter[str] | None = Counter()
    if result.done.rows_quarantined:
        rejected = _by_file(_added(format, warehouse.quarantine(table.name), table, batch, "position"))
    now = datetime.now(UTC)
    records = []
    for read in result.file_reads:
        file = batch.files[read.number]
        place = landing.location(file.path)
        match written, rejected:
            case Counter(), Counter():
                added, quarantined = written[place], rejected[place]
            case None, Counter() if not result.done.rows_discarded:
                added, quarantined = read.rows - rejected[place], rejected[place]
            case Counter(), None if not result.done.rows_discarded:
                added, quarantined = written[place], read.rows - written[place]
            case _:
                return ()
        record = FileRecord(
            run_id=run_id,
            table=str(table.name),
            sequence=batch.sequence,
            file=file.path,
            bytes=read.bytes,
            rows_in=read.rows,
            rows_written=added,
            rows_quarantined=quarantined,
            rows_discarded=read.rows - added - quarantined if result.done.rows_discarded else 0,
            code=read.code,
            ingested_at=now,
        )
        accounted = record.rows_written + record.rows_quarantined + record.rows_discarded
        if record.rows_in != accounted or record.rows_discarded < 0:
            raise InfrastructureError(
                "row-count-mismatch",
                f"row counts of {file.path} differ: {record.rows_in} rows were read, {record.rows_written} are in the "
                f"table and {record.rows_quarantined} in quarantine",
                table=str(table.name),
                hint="compare the file with the rows of the table that have it as _source_file",
            )
        records.append(record)
    discarded = sum(record.rows_discarded for record in records)
    if discarded != result.done.rows_discarded:
        raise InfrastructureError(
            "row-count-mismatch",
            f"row counts of batch {batch.sequence} differ: {result.done.rows_discarded} rows were discarded, "
            f"but {discarded} rows of its files are neither in the table nor in quarantine",
            table=str(table.name),
            hint="compare the files with the rows of the table that have them as _source_file",
        )
    return tuple(records)


def _added(format: TableFormat, folder: TableFolder, table: Table, batch: Batch, column: str) -> Counter[str] | None:
    """Return how many rows a batch added to a table, by a column; None when its commit or files are gone."""
    commit = find_commit(format.commits(folder), flow(table.name), batch.sequence, batch.note)
    if commit is not None:
        found = format.rows_added_by(folder, commit.version, column)
        return None if found is None else Counter(found)
    facts = format.facts(folder, flow(table.name))
    # A complete log without the commit shows that nothing was added.
    return Counter() if facts is None or facts.oldest == 0 else None


def _by_file(positions: Counter[str] | None) -> Counter[str] | None:
    """Return row counts by file, from row counts by position in a file."""
    if positions is None:
        return None
    found: Counter[str] = Counter()
    for position, count in positions.items():
        found[position.rpartition(":")[0]] += count
    return found


def missing_files(source: Files, landing: Store, glob: str, files: Sequence[str]) -> list[str]:
    """Return which of the files are neither in the landing folder nor in the archive."""
    there = {file.path for file in landing.find(glob)} if files else set()
    missing = [path for path in files if path not in there]
    if source.archive is None or not missing:
        return missing
    in_archive = {file.path for file in landing.find(archive_path(glob, source.archive, glob))}
    return [path for path in missing if archive_path(glob, source.archive, path) not in in_archive]


def blocked_files(source: Files, landing: Store, glob: str, files: Sequence[str]) -> list[str]:
    """Return which files cannot leave the archive, because the landing folder has another file of the same name."""
    if source.archive is None or not files:
        return []
    there = {file.path: file for file in landing.find(glob)}
    in_archive = {file.path: file for file in landing.find(archive_path(glob, source.archive, glob))}
    pairs = ((there.get(path), in_archive.get(archive_path(glob, source.archive, path))) for path in files)
    return [new.path for new, old in pairs if new and old and not _have_same_content(landing, new, old)]


def _have_same_content(landing: Store, one: FileFact, other: FileFact) -> bool:
    if one.size != other.size:
        return False
    with landing.open(one.path) as left, landing.open(other.path) as right:
        while (chunk := left.read(_CHUNK)) == right.read(_CHUNK):
            if not chunk:
                return True
    return False


def return_from_archive(source: Files, landing: Store, glob: str, files: Sequence[str]) -> None:
    """Move files from the archive back to the landing folder. Repeating it does no harm."""
    if source.archive is None:
        return
    for path in files:
        landing.move(archive_path(glob, source.archive, path), path)


def archive_ingested(
    source: Files, landing: Store, glob: str, ingested: Sequence[Mapping[str, FileFact]]
) -> list[LakesmithError]:
    """Move ingested files from the landing folder to the archive, also those that an interrupted run left. A file that
    was rewritten stays: its new content is not ingested."""
    if source.archive is None:
        return []
    errors: list[LakesmithError] = []
    for file in landing.find(glob):
        if any(files.get(file.path) == file for files in ingested):
            try:
                landing.move(file.path, archive_path(glob, source.archive, file.path))
            except LakesmithError as error:
                errors.append(error)
    return errors
