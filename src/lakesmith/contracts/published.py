"""A published version of a contract: its definition, its time and its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime

from lakesmith.contracts.versions import ContractVersion
from lakesmith.declare import Column, Table
from lakesmith.errors import Place
from lakesmith.records import ContractRecord

_PROMISES = tuple(field.name for field in fields(Column) if field.name not in ("check", "declared_at"))
"""The properties of a column that its contract promises. A check is no promise: it may change at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A contract without its version."""

    columns: tuple[Column, ...]
    terms: Mapping[str, str]
    """Other promises by name, such as `mode` and `drift.type`."""

    @property
    def text(self) -> str:
        """The definition as JSON without empty properties, so that a new property does not change old texts."""
        columns = [{name: value for name in _PROMISES if (value := getattr(column, name))} for column in self.columns]
        return json.dumps({"columns": columns, "terms": dict(self.terms)}, sort_keys=True, ensure_ascii=False)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @staticmethod
    def parse(text: str) -> Definition:
        """Parse `text`; properties that this version of Lakesmith does not have are ignored."""
        stored = json.loads(text)
        columns = [{name: column[name] for name in _PROMISES if name in column} for column in stored["columns"]]
        return Definition(
            columns=tuple(
                Column(**{**column, "tags": tuple(column.get("tags", ()))}, declared_at=Place("")) for column in columns
            ),
            terms=stored["terms"],
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
    drift = {f"drift.{name}": reaction for name, reaction in asdict(table.drift).items()}
    terms = {"mode": table.contract, "compatibility": table.terms.compatibility, **drift}
    return Definition(columns=table.columns, terms=terms)


def published_from(records: Iterable[ContractRecord]) -> dict[str, tuple[PublishedContract, ...]]:
    """Return the recorded versions by table, newest first."""
    versions_of: dict[str, list[PublishedContract]] = {}
    for record in records:
        versions_of.setdefault(record.table, []).append(
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
        for table, versions in versions_of.items()
    }
