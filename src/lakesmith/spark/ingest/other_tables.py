"""Reads tables of other lakes into bronze: first all rows of a version, then the rows that later versions added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakesmith.columns import CHANGE_AUDIT, CHANGE_FEED
from lakesmith.declare import OtherTable, Table
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.jvm.jars import HINT
from lakesmith.jvm.process import spark_errors
from lakesmith.ledger.batch import Batch
from lakesmith.ports import TableFacts
from lakesmith.sources.tables import VERSION, newest_metadata, open_iceberg
from lakesmith.spark.ingest import IngestContext
from lakesmith.spark.ingest.fit_columns import SourceRows, check_columns, fit_to_table
from lakesmith.spark.ingest.staged_extract import staged_folder
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Action = Mapping[str, Any]

_FEED = "delta.enableChangeDataFeed"
_APPEND_ONLY = ("append", "replace")
"""Iceberg operations that remove no row. `replace` rewrites the same rows into other files."""
_INGEST_AGAIN = "ingest it under another table name, which starts with all rows"


def read_table(
    context: IngestContext, table: Table, source: OtherTable, batch: Batch, facts: TableFacts | None
) -> DataFrame:
    """Return the rows of the pinned version, or the rows that were added since the last version."""
    assert batch.slice is not None
    since, until = batch.slice.since.get(VERSION), int(batch.slice.until[VERSION])
    reading = _TableReader(context, table, source)
    read = reading.delta if source.format == "delta" else reading.iceberg
    with reading.translate_errors(since, until):
        extract = read(batch, None if since is None else int(since), until)
        return fit_to_table(table, batch, extract, facts)


class _TableReader:
    """Reads one table of another lake."""

    def __init__(self, context: IngestContext, table: Table, source: OtherTable) -> None:
        self._spark = context.spark
        self._warehouse = context.warehouse
        self._table = table
        self._source = source
        self._location = source.location.rstrip("/")

    def delta(self, batch: Batch, since: int | None, until: int) -> SourceRows:
        """Return all rows on the first read; then the change feed where there is one, else the rows of added files."""
        if since is None:
            rows = self._spark.read.format("delta").option("versionAsOf", until).load(self._location)
            return self._mark_as_inserts(rows, until) if self._has_feed(until) else self._extract(rows)
        actions = self._actions(since, until)
        described = [action["metaData"] for action in actions if "metaData" in action]
        if self._has_feed(since + 1) and all(each["configuration"].get(_FEED) == "true" for each in described):
            return self._changes(since, until)
        removed = [action["remove"] for action in actions if "remove" in action and action["remove"]["dataChange"]]
        if removed:
            raise self._not_append_only(f"{len(removed)} of its files were removed or rewritten")
        added = [action["add"] for action in actions if "add" in action and action["add"]["dataChange"]]
        return self._extract(self._read_files(added, batch, until))

    def iceberg(self, batch: Batch, since: int | None, until: int) -> SourceRows:
        """Return all rows of a snapshot, or the rows that later snapshots appended."""
        reader, location = self._spark.read.format("iceberg"), self._copy_metadata(batch)
        if since is None:
            return self._extract(reader.option("versionAsOf", until).load(location))
        snapshots = {each.snapshot_id: each for each in open_iceberg(self._table, self._source).snapshots()}
        if since not in snapshots or until not in snapshots:
            raise self._gap(f"snapshot {since if since not in snapshots else until} has expired")
        passed, at = [], until
        while at != since:
            snapshot = snapshots.get(at)
            if snapshot is None or snapshot.parent_snapshot_id is None:
                raise self._not_append_only(f"it was rolled back past snapshot {since}")
            passed.append(snapshot)
            at = snapshot.parent_snapshot_id
        for snapshot in passed:
            operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
            if operation not in _APPEND_ONLY:
                raise self._not_append_only(f"snapshot {snapshot.snapshot_id} is of type '{operation}'")
        if all(snapshot.summary and snapshot.summary.operation.value != "append" for snapshot in passed):
            return self._extract(reader.load(location).limit(0))
        reader = reader.option("start-snapshot-id", since).option("end-snapshot-id", until)
        return self._extract(reader.load(location))

    def _copy_metadata(self, batch: Batch) -> str:
        """Copy the newest metadata to a folder where Iceberg finds it without a catalog. Return the folder."""
        from pyarrow.fs import FileSystem

        metadata = newest_metadata(self._table, self._source)
        files, path = FileSystem.from_uri(metadata)
        with files.open_input_stream(path, compression=None) as stream:
            content = stream.read()
        folder = staged_folder(self._warehouse, self._table.name, batch)
        packed = ".gz" if metadata.endswith(".gz.metadata.json") else ""
        folder.replace(f"metadata/v1{packed}.metadata.json", content)
        folder.replace("metadata/version-hint.text", b"1")
        return folder.engine_url("spark")

    def _actions(self, since: int, until: int) -> Sequence[Action]:
        """Return the log actions of the commits after `since`."""
        from pyspark.errors import AnalysisException

        paths = [f"{self._location}/_delta_log/{version:020}.json" for version in range(since + 1, until + 1)]
        try:
            lines = self._spark.read.text(paths).collect()
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            raise self._gap(f"commits of versions {since + 1} to {until} were cleaned up") from None
        return [json.loads(line.value) for line in lines if line.value]

    def _has_feed(self, version: int) -> bool:
        from deltalake import DeltaTable

        return DeltaTable(self._location, version=version).metadata().configuration.get(_FEED) == "true"

    def _changes(self, since: int, until: int) -> SourceRows:
        """Return inserted rows, updated rows (new values) and deleted rows (old values)."""
        reader = self._spark.read.format("delta").option("readChangeFeed", "true")
        feed = reader.option("startingVersion", since + 1).option("endingVersion", until).load(self._location)
        rows = [name for name in feed.columns if name not in CHANGE_FEED]
        self._check(feed.select(*map(quoted, rows)))
        changes = feed.where("_change_type <> 'update_preimage'").selectExpr(
            *map(quoted, rows),
            "replace(_change_type, '_postimage', '') AS _op",
            "_commit_timestamp AS _changed_at",
            "lpad(CAST(_commit_version AS string), 20, '0') AS _change_position",
            f"IF(_change_type = 'delete', to_json(struct({', '.join(map(quoted, rows))})), NULL) AS _before",
        )
        return self._extract(changes, CHANGE_AUDIT)

    def _mark_as_inserts(self, rows: DataFrame, version: int) -> SourceRows:
        """Return the rows of the first read as inserts, in the shape of later changes."""
        self._check(rows)
        inserts = rows.selectExpr(
            "*",
            "'insert' AS _op",
            "CAST(NULL AS timestamp) AS _changed_at",
            f"'{version:020}' AS _change_position",
            "CAST(NULL AS string) AS _before",
        )
        return self._extract(inserts, CHANGE_AUDIT)

    def _read_files(self, added: Sequence[Action], batch: Batch, until: int) -> DataFrame:
        """Read some files of the table through a temporary log that lists only them.

        The log provides what is needed to read the files: partitions, renamed columns, columns that were added later.
        """
        from deltalake import DeltaTable

        table = DeltaTable(self._location, version=until)
        here = {uri.rsplit("/", 1)[-1] for uri in table.file_uris()}
        self._raise_if_vacuumed([each["path"] for each in added if each["path"].rsplit("/", 1)[-1] not in here])
        protocol, metadata = table.protocol(), table.metadata()
        features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
        actions: list[Mapping[str, object]] = [
            {
                "protocol": {
                    "minReaderVersion": protocol.min_reader_version,
                    "minWriterVersion": protocol.min_writer_version,
                    **{name: column_list for name, column_list in features.items() if column_list},
                }
            },
            {
                "metaData": {
                    "id": str(uuid4()),
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": table.schema().to_json(),
                    "partitionColumns": metadata.partition_columns,
                    "configuration": metadata.configuration,
                }
            },
            *({"add": {**each, "path": self._absolute(each["path"])}} for each in added),
        ]
        log = "\n".join(json.dumps(action) for action in actions)
        folder = staged_folder(self._warehouse, self._table.name, batch)
        folder.replace(f"_delta_log/{0:020}.json", log.encode())
        return self._spark.read.format("delta").load(folder.engine_url("spark"))

    def _absolute(self, path: str) -> str:
        if "://" in path or path.startswith(("/", "file:")):
            return path
        return f"{self._location if '://' in self._location else Path(self._location).as_uri()}/{path}"

    def _raise_if_vacuumed(self, paths: Sequence[str]) -> None:
        """Raise when files are missing: compacted files may have been vacuumed."""
        from urllib.parse import unquote

        from pyarrow.fs import FileSystem, FileType

        if not paths:
            return
        files, _ = FileSystem.from_uri(self._location)
        uris = [unquote(self._absolute(path).removeprefix("file://")) for path in paths]
        if any(info.type == FileType.NotFound for info in files.get_file_info(uris)):
            raise self._gap("files that were added and then merged with others were deleted by VACUUM")

    def _extract(self, rows: DataFrame, added: tuple[str, ...] = ()) -> SourceRows:
        return SourceRows(rows=rows, source_name=self._location, added=added)

    def _check(self, rows: DataFrame) -> None:
        """Reject reserved names before columns with these names are added."""
        check_columns(self._table, self._extract(rows), None)

    def _not_append_only(self, why: str) -> DataError:
        return DataError(
            "not-append-only",
            f"rows of {self._location} were updated or deleted, and it has no change feed: {why}",
            hint=f"enable {_FEED} on that table, or read it in place (adopt:); then {_INGEST_AGAIN}"
            if self._source.format == "delta"
            else _INGEST_AGAIN,
        )

    def _gap(self, why: str) -> DataError:
        return DataError(
            "source-gap",
            f"rows that {self._location} added since the last run can no longer be read: {why}",
            hint=f"retain more of its history, and {_INGEST_AGAIN}",
        )

    @contextmanager
    def translate_errors(self, since: int | str | None, until: int) -> Iterator[None]:
        """Translate errors of Spark and delta-rs that are caused by the state of the other table."""
        from deltalake import exceptions

        try:
            yield
        except exceptions.DeltaError as error:
            raise self._gap(str(error).partition("\n")[0]) from error
        except spark_errors() as error:
            text = str(error)
            if "DATA_SOURCE_NOT_FOUND" in text:
                what = "the Spark session has no Iceberg jars"
                raise InfrastructureError("jars-missing", what, hint=HINT) from error
            if any(
                word in text for word in ("VERSION_NOT_FOUND", "VersionNotFound", "Cannot find snapshot", "recreate")
            ):
                raise self._gap(f"version {until} is gone") from error
            raise
