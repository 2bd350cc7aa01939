"""What is done about files around a batch: each one's books, and the archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lakesmith.columns import SOURCE_FILE
from lakesmith.declare import Files, Table
from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.ledger.batch import Batch
from lakesmith.ports import FileFact, Storage, TableFormat
from lakesmith.records import FileRecord
from lakesmith.spark.arrival import Settled
from lakesmith.storage import Warehouse, archived

_CHUNK = 1 << 20


def file_records(
    run_id: str,
    table: Table,
    batch: Batch,
    settled: Settled,
    format: TableFormat,
    warehouse: Warehouse,
    landing: Storage,
) -> tuple[FileRecord, ...]:
    """The books of each file: what its reader counted against what the table and the quarantine hold of it."""
    written = format.added_by(warehouse.table(table.name), batch.note, SOURCE_FILE)
    refused: Counter[str] = Counter()
    if settled.done.rows_quarantined:
        positions = format.added_by(warehouse.quarantine(table.name), batch.note, "position")
        for position, count in positions.items():
            refused[position.rpartition(":")[0]] += count
    now = datetime.now(UTC)
    records = []
    for end in settled.ends:
        file = batch.files[end.number]
        place = landing.location(file.path)
        record = FileRecord(
            run_id=run_id,
            table=str(table.name),
            sequence=batch.sequence,
            file=file.path,
            bytes=end.bytes,
            rows_in=end.rows,
            rows_written=written.get(place, 0),
            rows_quarantined=refused[place],
            rows_discarded=end.rows - written.get(place, 0) - refused[place] if settled.done.rows_discarded else 0,
            code=end.code,
            taken_at=now,
        )
        accounted = record.rows_written + record.rows_quarantined + record.rows_discarded
        if record.rows_in != accounted or record.rows_discarded < 0:
            raise InfrastructureError(
                "books-open",
                f"{file.path} does not add up: {record.rows_in} rows were read, {record.rows_written} are in the "
                f"table and {record.rows_quarantined} in quarantine",
                table=str(table.name),
                hint="compare the file with the rows of the table that have it as _source_file",
            )
        records.append(record)
    given_up = sum(record.rows_discarded for record in records)
    if given_up != settled.done.rows_discarded:
        raise InfrastructureError(
            "books-open",
            f"the files of batch {batch.sequence} do not add up: {settled.done.rows_discarded} rows were discarded, "
            f"and {given_up} of theirs are neither in the table nor in quarantine",
            table=str(table.name),
            hint="compare the files with the rows of the table that have them as _source_file",
        )
    return tuple(records)


def gone_for_good(source: Files, landing: Storage, glob: str, files: Sequence[str]) -> list[str]:
    """Which of the files are neither in the landing zone nor in the archive."""
    there = {file.path for file in landing.list(glob)} if files else set()
    missing = [path for path in files if path not in there]
    if source.archive is None or not missing:
        return missing
    kept = {file.path for file in landing.list(archived(glob, source.archive, glob))}
    return [path for path in missing if archived(glob, source.archive, path) not in kept]


def in_the_way(source: Files, landing: Storage, glob: str, files: Sequence[str]) -> list[str]:
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


def bring_back(source: Files, landing: Storage, glob: str, files: Sequence[str]) -> None:
    """Move files out of the archive into the landing zone again. To do it twice is as good as once."""
    if source.archive is None:
        return
    for path in files:
        landing.move(archived(glob, source.archive, path), path)


def archive_taken(
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
