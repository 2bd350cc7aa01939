"""A version of a contract as it was published: what was promised then, when, and by which run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakesmith.contracts.versions import Version
from lakesmith.declare import Table
from lakesmith.records import ContractRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedColumn:
    """What was promised of a column."""

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
    def has_value(self) -> bool:
        """No row is without one: a key is required too."""
        return self.required or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A contract without its version."""

    columns: tuple[PromisedColumn, ...]
    terms: Mapping[str, str]
    """What else was promised, each in a word."""

    @property
    def text(self) -> str:
        """As JSON; what is not told is left out, so that a promise of a new kind leaves the old ones alone."""
        columns = [
            {name: value for name, value in dataclasses.asdict(column).items() if value} for column in self.columns
        ]
        return json.dumps({"columns": columns, "terms": dict(self.terms)}, sort_keys=True, ensure_ascii=False)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @staticmethod
    def parse(text: str) -> Definition:
        """What `text` holds; promises that this Lakesmith does not know are left out."""
        found = json.loads(text)
        known = {field.name for field in dataclasses.fields(PromisedColumn)}
        columns = [{name: value for name, value in column.items() if name in known} for column in found["columns"]]
        return Definition(
            columns=tuple(PromisedColumn(**{**column, "tags": tuple(column.get("tags", ()))}) for column in columns),
            terms=found["terms"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One version."""

    table: str
    version: Version
    definition: Definition
    run_id: str
    recorded_at: datetime


def definition_of(table: Table) -> Definition:
    """The contract as it is declared; where no column is, it promises none."""
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


def published_from(records: Iterable[ContractRecord]) -> dict[str, tuple[Published, ...]]:
    """By table, the versions that are recorded, the newest first."""
    found: dict[str, list[Published]] = {}
    for record in records:
        found.setdefault(record.table, []).append(
            Published(
                table=record.table,
                version=Version.parse(record.version),
                definition=Definition.parse(record.definition),
                run_id=record.run_id,
                recorded_at=record.recorded_at,
            )
        )
    return {
        table: tuple(sorted(versions, key=lambda each: (each.version, each.recorded_at), reverse=True))
        for table, versions in found.items()
    }
