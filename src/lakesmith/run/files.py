"""What is done about files around a batch: each one's books, and the archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lakesmith.columns import SOURCE_FILE
from lakesmith.declare import Files, Table
from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.ports import FileFact, Storage, TableFormat, find_commit
from lakesmith.records import FileRecord
from lakesmith.spark.incoming import BatchResult
from lakesmith.storage import Warehouse, archived

_CHUNK = 1 << 20


def file_records(
    run_id: str,
    table: Table,
    batch: Batch,
    settled: BatchResult,
    format: TableFormat,
    warehouse: Warehouse,
    landing: Storage,
) -> tuple[FileRecord, ...]:
    """The books of each file: what its reader counted against what the table and the quarantine hold of it.

    Where another writer has cleaned up the commit of one of the two, or vacuumed its files, the rest counts as its
    share. Where both are gone, or rows were discarded too, there are no records.
    """
    written = _added(format, warehouse.table(table.name), table, batch, SOURCE_FILE)
    refused: Counter[str] | None = Counter()
    if settled.done.rows_quarantined:
        refused = _by_file(_added(format, warehouse.quarantine(table.name), table, batch, "position"))
    now = datetime.now(UTC)
    records = []
    for read in settled.file_reads:
        file = batch.files[read.number]
        place = landing.location(file.path)
        match written, refused:
            case Counter(), Counter():
                added, kept = written[place], refused[place]
            case None, Counter() if not settled.done.rows_discarded:
                added, kept = read.rows - refused[place], refused[place]
            case Counter(), None if not settled.done.rows_discarded:
                added, kept = written[place], read.rows - written[place]
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
            rows_quarantined=kept,
            rows_discarded=read.rows - added - kept if settled.done.rows_discarded else 0,
            code=read.code,
            taken_at=now,
        )
        accounted = record.rows_written + record.rows_quarantined + record.rows_discarded
        if record.rows_in != accounted or record.rows_discarded < 0:
            raise InfrastructureError(
                "row-count-mismatch",
                f"{file.path} does not add up: {record.rows_in} rows were read, {record.rows_written} are in the "
                f"table and {record.rows_quarantined} in quarantine",
                table=str(table.name),
                hint="compare the file with the rows of the table that have it as _source_file",
            )
        records.append(record)
    given_up = sum(record.rows_discarded for record in records)
    if given_up != settled.done.rows_discarded:
        raise InfrastructureError(
            "row-count-mismatch",
            f"the files of batch {batch.sequence} do not add up: {settled.done.rows_discarded} rows were discarded, "
            f"and {given_up} of theirs are neither in the table nor in quarantine",
            table=str(table.name),
            hint="compare the files with the rows of the table that have them as _source_file",
        )
    return tuple(records)


def _added(format: TableFormat, location: str, table: Table, batch: Batch, column: str) -> Counter[str] | None:
    """How many rows a batch added to a table, by a column; None where the log or the files are gone that tell it."""
    commit = find_commit(format.commits(location), flow(table.name), batch.sequence, batch.note)
    if commit is not None:
        found = format.rows_added_by(location, commit.version, column)
        return None if found is None else Counter(found)
    facts = format.facts(location, flow(table.name))
    # A log that is complete and does not have the commit shows that nothing was added.
    return Counter() if facts is None or facts.oldest == 0 else None


def _by_file(positions: Counter[str] | None) -> Counter[str] | None:
    """Rows by file, from rows by their position in one."""
    if positions is None:
        return None
    found: Counter[str] = Counter()
    for position, count in positions.items():
        found[position.rpartition(":")[0]] += count
    return found


def missing_files(source: Files, landing: Storage, glob: str, files: Sequence[str]) -> list[str]:
    """Which of the files are neither in the landing zone nor in the archive."""
    there = {file.path for file in landing.list(glob)} if files else set()
    missing = [path for path in files if path not in there]
    if source.archive is None or not missing:
        return missing
    kept = {file.path for file in landing.list(archived(glob, source.archive, glob))}
    return [path for path in missing if archived(glob, source.archive, path) not in kept]


def blocked_files(source: Files, landing: Storage, glob: str, files: Sequence[str]) -> list[str]:
    """Which of the files cannot come out of the archive: the landing zone has another of the same name by now."""
    if source.archive is None or not files:
        return []
    there = {file.path: file for file in landing.list(glob)}
    kept = {file.path: file for file in landing.list(archived(glob, source.archive, glob))}
    pairs = ((there.get(path), kept.get(archived(glob, source.archive, path))) for path in files)
    return [new.path for new, old in pairs if new and old and not _are_alike(landing, new, old)]


def _are_alike(landing: Storage, one: FileFact, other: FileFact) -> bool:
    if one.size != other.size:
        return False
    with landing.open(one.path) as left, landing.open(other.path) as right:
        while (chunk := left.read(_CHUNK)) == right.read(_CHUNK):
            if not chunk:
                return True
    return False


def return_from_archive(source: Files, landing: Storage, glob: str, files: Sequence[str]) -> None:
    """Move files out of the archive into the landing zone again. To do it twice is as good as once."""
    if source.archive is None:
        return
    for path in files:
        landing.move(archived(glob, source.archive, path), path)


def archive_ingested(
    source: Files, landing: Storage, glob: str, taken: Sequence[Mapping[str, FileFact]]
) -> list[LakesmithError]:
    """Move files out of the landing zone that are in the table; also those that a run which was cut short has left
    there. One that was written anew stays: it has not been taken in."""
    if source.archive is None:
        return []
    errors: list[LakesmithError] = []
    for file in landing.list(glob):
        if any(known.get(file.path) == file for known in taken):
            try:
                landing.move(file.path, archived(glob, source.archive, file.path))
            except LakesmithError as error:
                errors.append(error)
    return errors
