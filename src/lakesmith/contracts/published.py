"""A published version of a contract: its definition, its time and its run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakesmith.contracts.versions import ContractVersion
from lakesmith.declare import Table
from lakesmith.records import ContractRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedColumn:
    """The declared properties of a column."""

    name: str
    type: str | None = None
    required: bool = False
    key: bool = False
    unique: bool = False
    tags: tuple[str, ...] = ()
    description: str | None = None
    since: str | None = None
    deprecated: str | None = None
    currency: str | None = None
    timezone: str | None = None

    @property
    def is_required(self) -> bool:
        """Whether no row may be NULL: a key is required too."""
        return self.required or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A contract without its version."""

    columns: tuple[PromisedColumn, ...]
    terms: Mapping[str, str]
    """Other promises by name, such as `mode` and `drift.type`."""

    @property
    def text(self) -> str:
        """The definition as JSON without empty properties, so that a new property does not change old texts."""
        columns = [
            {name: value for name, value in dataclasses.asdict(column).items() if value} for column in self.columns
        ]
        return json.dumps({"columns": columns, "terms": dict(self.terms)}, sort_keys=True, ensure_ascii=False)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @staticmethod
    def parse(text: str) -> Definition:
        """Parse `text`; properties that this version of Lakesmith does not have are ignored."""
        found = json.loads(text)
        supported = {field.name for field in dataclasses.fields(PromisedColumn)}
        columns = [{name: value for name, value in column.items() if name in supported} for column in found["columns"]]
        return Definition(
            columns=tuple(PromisedColumn(**{**column, "tags": tuple(column.get("tags", ()))}) for column in columns),
            terms=found["terms"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedContract:
    """One published version of a table's contract."""

    table: str
    version: ContractVersion
    definition: Definition
    run_id: str
    recorded_at: datetime


def definition_of(table: Table) -> Definition:
    """Return the declared contract of a table."""
    names = [field.name for field in dataclasses.fields(PromisedColumn)]
    drift = dataclasses.asdict(table.drift)
    return Definition(
        columns=tuple(PromisedColumn(**{name: getattr(column, name) for name in names}) for column in table.columns),
        terms={
            "mode": table.contract,
            "compatibility": table.terms.compatibility,
            **{f"drift.{name}": reaction for name, reaction in drift.items()},
        },
    )


def published_from(records: Iterable[ContractRecord]) -> dict[str, tuple[PublishedContract, ...]]:
    """Return the recorded versions by table, newest first."""
    found: dict[str, list[PublishedContract]] = {}
    for record in records:
        found.setdefault(record.table, []).append(
            PublishedContract(
                table=record.table,
                version=ContractVersion.parse(record.version),
                definition=Definition.parse(record.definition),
                run_id=record.run_id,
                recorded_at=record.recorded_at,
            )
        )
    return {
        table: tuple(sorted(versions, key=lambda each: (each.version, each.recorded_at), reverse=True))
        for table, versions in found.items()
    }
