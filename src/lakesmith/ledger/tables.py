"""The system tables: runs, steps, checks and more, as Delta tables in the lake, written without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.failpoints import failpoint
from lakesmith.formats.delta.append_arrow import append_arrow
from lakesmith.formats.delta.arrow_reader import query
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
from lakesmith.store import Warehouse

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
    """Appends records to the system tables, and reads them."""

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
        """Append the records of a run, the run itself last: a run in the ledger is complete. A release is atomic."""
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
        filters = {name: value for name, value in {"run_id": run_id, "table": table}.items() if value}
        return self._read("steps", StepRecord, "started_at, sequence", where=filters)

    def check_history(self, table: str, checks: Sequence[str], limit: int) -> dict[str, list[CheckRecord]]:
        """Return by check its results in the newest committed batches."""
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
        """Return the tables of one release."""
        return self._read("releases", ReleaseRecord, '"table"', where={"release": release})

    def releases(self, limit: int) -> tuple[ReleaseRecord, ...]:
        """Return the tables of the newest releases, the newest first."""
        newest = (
            f"SELECT release FROM releases GROUP BY release ORDER BY max(released_at) DESC, release DESC LIMIT {limit}"
        )
        order = 'released_at DESC, release DESC, "table"'
        return self._read("releases", ReleaseRecord, order, among=f"release IN ({newest})")

    def _append(self, name: str, records: Sequence[Recorded]) -> None:
        if not records:
            return
        import pyarrow as pa

        rows = pa.Table.from_pylist(
            [dataclasses.asdict(record) for record in records], schema=_arrow_schema(type(records[0]))
        )
        folder = self._warehouse.system(name)
        try:
            append_arrow(folder, rows)
        except InfrastructureError as failed:
            raise _write_error(failed.what, failed.hint) from failed
        except OSError as error:
            failure = disk_failure(str(error), f"cannot write system.{name}")
            text = str(error).splitlines()[0]
            raise (_write_error(failure.what, failure.hint) if failure else _write_error(text)) from error
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
        columns = ", ".join(f'"{field.name}"' for field in dataclasses.fields(record))
        filters: list[str] = [f"\"{column}\" = '{_escape(value)}'" for column, value in (where or {}).items()]
        conditions = " AND ".join([*filters, *filter(None, [among])])
        sql = f"SELECT {columns} FROM {name} {'WHERE ' + conditions if conditions else ''} ORDER BY {order}"
        try:
            found = query(self._warehouse.system(name), name, sql + (f" LIMIT {limit}" if limit else ""))
        except Exception as error:  # a missing file has no error type of its own
            raise _read_error(name, error) from error
        if found is None:
            return ()
        names = [field.name for field in dataclasses.fields(record)]
        values = [found[column].to_pylist() for column in names]
        return tuple(record(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True))


def _write_error(why: str, hint: str | None = None) -> InfrastructureError:
    return InfrastructureError(
        "ledger-write-failed",
        f"the run changed tables, but the ledger cannot be written: {why}",
        hint=f"{hint or 'check the storage of the warehouse'}; this run is missing from the ledger",
    )


def _read_error(name: str, error: Exception) -> InfrastructureError:
    ours = error if isinstance(error, InfrastructureError) else None
    text = ours.what if ours else next(iter(str(error).splitlines()), type(error).__name__)
    hint = ours.hint if ours else "check the storage of the warehouse"
    return InfrastructureError(
        "ledger-unreadable",
        f"system.{name} cannot be read: {text}",
        hint=f"{hint}; the tables of the lake do not need the ledger",
    )


def _escape(value: str) -> str:
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
                next((arrow for kind, arrow in types.items() if _accepts(hints[field.name], kind)), pa.string()),
            )
            for field in dataclasses.fields(record)
        ]
    )


def _accepts(hint: object, kind: type) -> bool:
    return hint is kind or kind in getattr(hint, "__args__", ())
