"""The system tables: runs and what belongs to them, as Delta tables in the lake, written without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.failpoints import failpoint
from lakesmith.formats.delta.append_arrow import append_arrow
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.records import (
    AuditRecord,
    CheckRecord,
    ContractRecord,
    FileRecord,
    ReleaseRecord,
    RunRecord,
    SkippedRecord,
    StepRecord,
)
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

SYSTEM_TABLES: Mapping[str, type] = {
    "runs": RunRecord,
    "steps": StepRecord,
    "checks": CheckRecord,
    "files": FileRecord,
    "skipped": SkippedRecord,
    "contracts": ContractRecord,
    "audit": AuditRecord,
    "releases": ReleaseRecord,
}

Recorded = (
    RunRecord | StepRecord | CheckRecord | FileRecord | SkippedRecord | ContractRecord | AuditRecord | ReleaseRecord
)
Record = TypeVar("Record", RunRecord, StepRecord, CheckRecord, SkippedRecord, ContractRecord, ReleaseRecord)


class Ledger:
    """Appends records, and gives them back newest first."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def record(
        self,
        run: RunRecord,
        steps: Sequence[StepRecord],
        checks: Sequence[CheckRecord],
        files: Sequence[FileRecord] = (),
        contracts: Sequence[ContractRecord] = (),
        audit: Sequence[AuditRecord] = (),
        release: Sequence[ReleaseRecord] = (),
        skipped: Sequence[SkippedRecord] = (),
    ) -> None:
        """The parts first: a run that is in the ledger is there with all of them. Of a release all tables or none."""
        failpoint("ledger.recording")
        self._append("steps", steps)
        self._append("checks", checks)
        self._append("files", files)
        self._append("skipped", skipped)
        self._append("contracts", contracts)
        self._append("audit", audit)
        self._append("releases", release)
        self._append("runs", [run])
        failpoint("ledger.recorded")

    def runs(self, limit: int) -> tuple[RunRecord, ...]:
        return self._read("runs", RunRecord, "started_at DESC", limit=limit)

    def steps(self, *, run_id: str | None = None, table: str | None = None) -> tuple[StepRecord, ...]:
        wanted = {name: value for name, value in {"run_id": run_id, "table": table}.items() if value}
        return self._read("steps", StepRecord, "started_at, sequence", where=wanted)

    def past(self, table: str, checks: Sequence[str], limit: int) -> dict[str, list[CheckRecord]]:
        """By name of a check, what it found in the newest batches that were committed."""
        return {
            check: [
                record
                for record in self._read(
                    "checks", CheckRecord, "checked_at DESC", where={"table": table, "check": check}, limit=limit
                )
                if record.committed
            ]
            for check in checks
        }

    def contracts(self) -> tuple[ContractRecord, ...]:
        return self._read("contracts", ContractRecord, "recorded_at")

    def skipped(self) -> tuple[SkippedRecord, ...]:
        return self._read("skipped", SkippedRecord, "reported_at")

    def release(self, release: str) -> tuple[ReleaseRecord, ...]:
        """The tables of one release."""
        return self._read("releases", ReleaseRecord, '"table"', where={"release": release})

    def releases(self, limit: int) -> tuple[ReleaseRecord, ...]:
        """The tables of the newest releases, from the newest on."""
        newest = (
            f"SELECT release FROM releases GROUP BY release ORDER BY max(released_at) DESC, release DESC LIMIT {limit}"
        )
        order = 'released_at DESC, release DESC, "table"'
        return self._read("releases", ReleaseRecord, order, among=f"release IN ({newest})")

    def _append(self, name: str, records: Sequence[Recorded]) -> None:
        if not records:
            return
        import pyarrow as pa
        from deltalake import exceptions

        rows = pa.Table.from_pylist(
            [dataclasses.asdict(record) for record in records], schema=_arrow_schema(type(records[0]))
        )
        location = self._warehouse.system(name)
        try:
            append_arrow(location, rows)
        except InfrastructureError as damage:
            raise _unwritten(damage.what, damage.hint) from damage
        except (exceptions.DeltaError, OSError) as error:
            failure = disk_failure(str(error), f"cannot write system.{name}")
            said = str(error).splitlines()[0]
            raise (_unwritten(failure.what, failure.hint) if failure else _unwritten(said)) from error
        write_checksums(location)
        failpoint("ledger.appended", f"system.{name}")

    def _read(
        self,
        name: str,
        record: type[Record],
        order: str,
        *,
        where: Mapping[str, str] | None = None,
        among: str | None = None,
        limit: int | None = None,
    ) -> tuple[Record, ...]:
        try:
            table = open_snapshot_if_any(self._warehouse.system(name))
        except InfrastructureError as error:
            raise _unread(name, error) from error
        if table is None:
            return ()
        from deltalake import QueryBuilder

        columns = ", ".join(f'"{field.name}"' for field in dataclasses.fields(record))
        wanted: list[str] = [f"\"{column}\" = '{_text(value)}'" for column, value in (where or {}).items()]
        conditions = " AND ".join([*wanted, *filter(None, [among])])
        sql = f"SELECT {columns} FROM {name} {'WHERE ' + conditions if conditions else ''} ORDER BY {order}"
        try:
            found = QueryBuilder().register(name, table).execute(sql + (f" LIMIT {limit}" if limit else "")).read_all()
        except Exception as error:  # delta-rs has no type of its own for files that are gone
            raise _unread(name, error) from error
        names = [field.name for field in dataclasses.fields(record)]
        values = [found[column].to_pylist() for column in names]
        return tuple(record(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True))


def _unwritten(why: str, hint: str | None = None) -> InfrastructureError:
    return InfrastructureError(
        "ledger-unwritten",
        f"what the run did is in the tables, and not in the ledger: {why}",
        hint=f"{hint or 'look at the storage of the warehouse'}; the ledger will lack this run",
    )


def _unread(name: str, error: Exception) -> InfrastructureError:
    known = error if isinstance(error, InfrastructureError) else None
    said = known.what if known else next(iter(str(error).splitlines()), type(error).__name__)
    hint = known.hint if known else "look at the storage of the warehouse"
    return InfrastructureError(
        "ledger-unreadable",
        f"system.{name} cannot be read: {said}",
        hint=f"{hint}; the tables of the lake do not need the ledger",
    )


def _text(value: str) -> str:
    return value.replace("'", "''")


def _arrow_schema(record: type) -> pa.Schema:
    import pyarrow as pa

    types = {
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
    }
    hints = get_type_hints(record)
    return pa.schema(
        [
            (
                field.name,
                next((arrow for kind, arrow in types.items() if _holds(hints[field.name], kind)), pa.string()),
            )
            for field in dataclasses.fields(record)
        ]
    )


def _holds(hint: object, kind: type) -> bool:
    return hint is kind or kind in getattr(hint, "__args__", ())
