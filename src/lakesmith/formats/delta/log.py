"""What a Delta table's log tells, read by delta-rs without a JVM."""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakesmith.errors import DataError, InfrastructureError, UsageError
from lakesmith.formats.delta.actions import actions_in, added_files, log_files
from lakesmith.formats.delta.adopt import adopt_files
from lakesmith.formats.delta.checksums import seal_log
from lakesmith.formats.delta.commit import sync_log
from lakesmith.formats.delta.commits import commits_back, is_quiet
from lakesmith.formats.delta.files import add_files, append_actions, takes_files
from lakesmith.formats.delta.integrity import log_failure
from lakesmith.formats.delta.memory import FactsMemory
from lakesmith.formats.delta.names import commit_path, log_names, log_of
from lakesmith.formats.delta.restore import restore, way_back
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import opened, opened_at, opened_if_any
from lakesmith.ports import ColumnFact, CommitFact, DataFile, TableFacts, Write, Written, find_commit, in_order

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

_SQL_TYPES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


class DeltaLog:
    """Facts, commits and Arrow reads of a table."""

    def __init__(self, memory: FactsMemory | None = None) -> None:
        self._memory = memory

    def facts(self, location: str, flow: str) -> TableFacts | None:
        remembered = self._memory.recall(location, flow) if self._memory else None
        if remembered:
            return remembered
        facts = self._read_facts(location, flow)
        if facts and self._memory:
            self._memory.keep(location, flow, facts)
        return facts

    def _read_facts(self, location: str, flow: str) -> TableFacts | None:
        table = opened_if_any(location)
        if table is None:
            return None
        metadata = table.metadata()
        version = table.version()
        newest = next(commits_back(location, version), None)
        adds = table.get_add_actions(flatten=True)
        return TableFacts(
            location=location,
            version=version,
            table_id=str(metadata.id),
            columns=tuple(ColumnFact(field["name"], sql_type(field["type"])) for field in _schema(table)["fields"]),
            partition_by=tuple(metadata.partition_columns),
            rows=_count(table),
            bytes=sum(adds["size_bytes"].to_pylist()),
            files=adds.num_rows,
            committed_at=newest.committed_at if newest else _log_changed_at(location),
            oldest=_oldest_commit(location),
            sequence=table.transaction_version(flow) or 0,
            change_feed=_has_feed(table),
            widened=is_widened(table),
            quiet=sum(1 for _ in takewhile(is_quiet, commits_back(location, version))),
        )

    def commits(self, location: str, after: int = -1) -> Iterator[CommitFact]:
        table = opened_if_any(location)
        if table is not None:
            yield from commits_back(location, table.version(), after)

    def written(self, commit: CommitFact) -> Written:
        # Where a part of the rows is replaced, others that lie in the same files are written again. A merge counts
        # these too, and tells apart which rows are new.
        output = _number(commit.metrics, "numOutputRows") - _number(commit.metrics, "numCopiedRows")
        is_merge = "numTargetRowsInserted" in commit.metrics
        return Written(
            version=commit.version,
            considered=_number(commit.metrics, "numSourceRows"),
            inserted=_number(commit.metrics, "numTargetRowsInserted") if is_merge else max(output, 0),
            updated=_number(commit.metrics, "numTargetRowsUpdated"),
            deleted=_number(commit.metrics, "numTargetRowsDeleted", "numDeletedRows"),
            bytes=_number(commit.metrics, "numTargetBytesAdded", "numOutputBytes"),
            files=_number(commit.metrics, "numTargetFilesAdded", "numFiles"),
        )

    def added_by(self, location: str, version: int, column: str) -> Mapping[str, int] | None:
        import pyarrow.parquet as pq

        found: Counter[str] = Counter()
        try:
            for path in _added_files(location, version):
                for batch in pq.ParquetFile(path, read_dictionary=[column]).iter_batches(columns=[column]):
                    for counted in batch.column(0).value_counts().to_pylist():
                        found[counted["values"]] += counted["counts"]
        except FileNotFoundError:  # another writer compacted and vacuumed the table, or cleaned up its log
            return None
        return found

    def has_changes(self, location: str, after: int) -> bool:
        from deltalake import exceptions

        try:
            return _has_feed(opened(location)) and _has_feed(opened_at(location, after + 1))
        except exceptions.DeltaError:  # that version is gone, and its changes with it
            return False

    def retyped(self, location: str, after: int) -> Sequence[str]:
        from deltalake import exceptions

        table = opened_if_any(location)
        if table is None:
            return ()
        try:
            before = dict(_leaves("", _schema(opened_at(location, after))))
        except exceptions.DeltaError:  # that version is gone, and its changes with it
            return ()
        return [name for name, type in _leaves("", _schema(table)) if before.get(name, type) != type]

    def adopt(self, location: str) -> None:
        adopt_files(location)

    def version_at(self, location: str, when: datetime) -> int:
        past = [commit for commit in in_order(self.commits(location)) if commit.committed_at <= when]
        if not past:
            raise UsageError(
                "before-first-version",
                f"there was no version of {_shown(location)} at {when:%Y-%m-%d %H:%M:%S} UTC",
                hint="name a later time; `lakesmith history TABLE` lists the versions",
            )
        return past[-1].version

    def is_readable(self, location: str, version: int) -> bool:
        return log_files(location, version) is not None and _missing_file(location, version) is None

    def arrow(self, location: str, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
        from deltalake import QueryBuilder
        from deltalake.exceptions import DeltaError

        try:
            table = opened_at(location, version)
        except (DeltaError, OSError) as error:
            newest = opened_if_any(location)
            if newest is not None and newest.version() == version:
                raise log_failure(location, str(error)) from error
            raise UsageError(
                "unknown-version",
                f"{_shown(location)} has no version {version}",
                hint="`lakesmith history TABLE` lists the versions that can be read",
            ) from error
        _refuse_vacuumed(location, table)
        if is_widened(table):
            return _widened_rows(location, table)
        if _deletes_by_vector(table):
            import pyarrow as pa

            # A pyarrow dataset would show the deleted rows; DataFusion, inside delta-rs, leaves them out.
            stream = QueryBuilder().register("rows", table).execute("SELECT * FROM rows")
            return pa.RecordBatchReader.from_stream(stream)
        return _verified(table.to_pyarrow_dataset())

    def advance(self, location: str, write: Write, spark: SparkSession | None = None) -> Written:
        def nothing(table: DeltaTable | None) -> Sequence[dict[str, Any]]:
            if table is None or (table.transaction_version(write.flow) or 0) >= write.sequence:
                raise commit_lost(write)
            refuse_if_rolled_back(table, location, write)
            return ()

        append_actions(location, write, {}, nothing)
        return self.committed(location, write)

    def restore(self, location: str, version: int | None, write: Write) -> Written:
        table = opened(location)
        if (table.transaction_version(write.flow) or 0) >= write.sequence:
            raise commit_lost(write)
        restore(table, location, version, write)
        return self.committed(location, write)

    def stale(self, location: str, older_than: float) -> int:
        table = opened_if_any(location)
        if table is None:
            return 0
        readable = log_files(location, table.version()) is not None
        needed = added_files(location, table.version(), lambda _: True) if readable else {}
        before = time.time() - whole_hours(older_than)
        return sum(1 for path in _data_files(location) if path not in needed and os.stat(path).st_mtime < before)

    def refuse_restore(self, location: str, version: int | None) -> None:
        table = opened_if_any(location)
        if table is not None:
            way_back(table, location, version)

    def sync_log(self, location: str) -> None:
        sync_log(location)

    def takes_files(self, location: str) -> bool:
        return takes_files(opened_if_any(location))

    def add(
        self, files: Sequence[DataFile], columns: str, location: str, write: Write, table_id: str | None
    ) -> Written:
        add_files(location, files, columns, write, table_id)
        # Also when the batch was there already: it may have been this very writer, whose reply was lost.
        return self.committed(location, write)

    def committed(self, location: str, write: Write) -> Written:
        """What the commit with this writer's note did, read back from the log: a reply can be lost, the log cannot.
        What a writer left unsealed that was killed is sealed here."""
        sync_log(location)
        seal_log(location)
        commit = find_commit(self.commits(location), write.flow, write.sequence, write.note)
        if commit is None:
            raise commit_lost(write)
        return self.written(commit)


def _added_files(location: str, version: int) -> Iterator[str]:
    """The data files that a version added, read from its commit."""
    for action in actions_in(location, version):
        if added := action.get("add"):
            yield os.path.join(location, unquote(added["path"]))


def commit_lost(write: Write) -> InfrastructureError:
    """The error for a batch that somebody else has committed under the same number."""
    return InfrastructureError(
        "commit-lost",
        f"batch {write.sequence} of {write.flow} was committed by another run first",
        hint="nothing is lost: run again when the other run has ended",
    )


def sql_type(stored: str | dict[str, Any]) -> str:
    """A type as Delta's log spells it → as Spark SQL spells it."""
    if isinstance(stored, str):
        return _SQL_TYPES.get(stored, stored)
    if stored["type"] == "array":
        return f"array<{sql_type(stored['elementType'])}>"
    if stored["type"] == "map":
        return f"map<{sql_type(stored['keyType'])},{sql_type(stored['valueType'])}>"
    fields = ",".join(f"{quoted(field['name'])}:{sql_type(field['type'])}" for field in stored["fields"])
    return f"struct<{fields}>"


def _schema(table: DeltaTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.schema().to_json())
    return found


def _leaves(name: str, stored: str | dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The types in a type that hold no others, by the dotted names of where they are."""
    if isinstance(stored, str):
        yield name, sql_type(stored)
    elif stored["type"] == "struct":
        for field in stored["fields"]:
            yield from _leaves(f"{name}.{field['name']}".lstrip("."), field["type"])
    else:
        for part in ("elementType", "keyType", "valueType"):
            if part in stored:
                inside = part.removesuffix("Type")
                yield from _leaves(f"{name}.{inside}", stored[part])


def quoted(name: str) -> str:
    """A field name inside a type: plain where it can be, in backticks where it must."""
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"


def whole_hours(seconds: float) -> float:
    """The age by which files are deleted: Delta counts hours, and would round an hour and a quarter down. Less than an
    hour is for those who know that nobody reads or writes; a minute is what it takes to begin."""
    return seconds if seconds < 3600 else math.ceil((seconds - 60) / 3600) * 3600.0


def _has_feed(table: DeltaTable) -> bool:
    return table.metadata().configuration.get("delta.enableChangeDataFeed") == "true"


def _deletes_by_vector(table: DeltaTable) -> bool:
    return "deletionVectors" in (table.protocol().reader_features or ())


def is_widened(table: DeltaTable) -> bool:
    """Whether files of the table may hold narrower types than its columns have. delta-rs neither writes such a table
    nor plans a query over it, but its log can be read."""
    return "typeWidening" in (table.protocol().reader_features or ())


def _data_files(location: str) -> Iterator[str]:
    """The files in a table's folder that are not of its log."""
    for parent, folders, names in os.walk(os.path.abspath(location)):
        folders[:] = [name for name in folders if name[0] not in "._" or name == "_change_data" or "=" in name]
        yield from (os.path.join(parent, name) for name in names if name[0] not in "._")


def _refuse_vacuumed(location: str, table: DeltaTable) -> None:
    """Raise where files of an earlier version are gone: it is read as a whole, or not at all."""
    version = table.version()
    newest = not os.path.exists(commit_path(location, version + 1))
    if newest or log_files(location, version) is None:
        return
    missing = _missing_file(location, version)
    if missing is not None:
        raise UsageError(
            "unknown-version",
            f"version {version} of {_shown(location)} cannot be read any more: {os.path.basename(missing)} was "
            "vacuumed or deleted",
            hint="ask for a later version; `lakesmith history TABLE` lists them",
        )


def _missing_file(location: str, version: int) -> str | None:
    """A data file of a version that is not there any more, if there is one."""
    files = added_files(location, version, lambda _: True)
    return next((path for path in files if not os.path.exists(path)), None)


def _widened_rows(location: str, table: DeltaTable) -> pa.dataset.Dataset:
    """The rows of all files in the types that the columns have now, into which Arrow casts them as it reads."""
    from deltalake import DeltaTable

    if _deletes_by_vector(table):
        raise DataError(
            "vectors-and-wider-types",
            f"{_shown(location)} has deletion vectors and columns that were widened: "
            "only Spark can read the two together",
            hint=f"in Spark: ALTER TABLE delta.`{location}` DROP FEATURE deletionVectors",
        )

    class Narrow(DeltaTable):
        """The table without the feature that delta-rs does not know: Arrow does what the feature asks for."""

        def protocol(self) -> Any:
            told = super().protocol()
            return told._replace(reader_features=[f for f in told.reader_features or () if f != "typeWidening"])

    return _verified(Narrow(location, version=table.version()).to_pyarrow_dataset())


def _verified(rows: pa.dataset.Dataset) -> pa.dataset.Dataset:
    """The same rows, each page held to its sum where it has one: Arrow would take a flipped bit for a value."""
    from pyarrow.dataset import ParquetFragmentScanOptions

    rows.format.default_fragment_scan_options = ParquetFragmentScanOptions(
        pre_buffer=True, page_checksum_verification=True
    )
    return rows


def _count(table: DeltaTable) -> int:
    # With both, delta-rs can only tell how many rows there were before any was deleted.
    if is_widened(table) or not _deletes_by_vector(table):
        return table.count()
    # The statistics of a file count its deleted rows too.
    from deltalake import QueryBuilder

    counted = QueryBuilder().register("rows", table).execute("SELECT count(*) AS n FROM rows").read_all()
    return int(counted["n"].to_pylist()[0])


def _log_changed_at(location: str) -> datetime:
    """When the table last changed, where its log has no commit left beside the checkpoint."""
    return datetime.fromtimestamp(os.stat(log_of(location)).st_mtime, UTC)


def _oldest_commit(location: str) -> int:
    """The oldest commit in the log; older ones were cleaned up and their changes cannot be read any more."""
    return min(log_names(location).commits, default=0)


def _shown(location: str) -> str:
    """A table as people know it: the last two folders are its layer and its name."""
    return ".".join(location.rstrip("/").split("/")[-2:])


def _number(metrics: Mapping[str, str], *names: str) -> int:
    """The first of these metrics that is a count; another writer may have put anything there."""
    counts = (metrics.get(name, "") for name in names)
    return next((int(count) for count in counts if count.isascii() and count.isdecimal()), 0)
