"""The contracts of a lake: compared with what was recorded and stored, taken to others, brought in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith.contracts import (
    Readers,
    agreement,
    gone_contracts,
    new_records,
    told,
    with_contract,
)
from lakesmith.declare import Table
from lakesmith.errors import (
    raise_all,
)
from lakesmith.lake.known import Known
from lakesmith.records import ContractRecord, StepRecord
from lakesmith.reports import (
    ContractCheck,
    ContractDiff,
    Publication,
)
from lakesmith.sources import registry_of

if TYPE_CHECKING:
    from lakesmith.exchange import Format, Imported


class Contracted(Known):
    """What is promised."""

    def contract_diff(self, tables: Sequence[str] = ()) -> tuple[ContractDiff, ...]:
        """What has changed in contracts since they were recorded, and whom it hits."""
        verdicts = self._compatibility_verdicts()
        chosen = with_contract(self.tables, verdicts, [self._name(name) for name in tables])
        readers = Readers(self.graph, self.tables, self._schemas(self._facts(afar=False)))
        gone = () if tables else gone_contracts(self.tables, self._published()).values()
        return (*(told(verdicts[name], readers) for name in chosen), *gone)

    def _left_behind(self) -> tuple[str, ...]:
        """Stored tables with a contract that nobody declares any more: no run brings them up to date, and whoever reads
        them is not told."""
        gone = {name: self._warehouse.table(name) for name in gone_contracts(self.tables, self._published())}
        return tuple(
            f"{name} has a recorded contract, and no file declares it any more; declare it again, or tell its readers "
            f"and remove {location}"
            for name, location in gone.items()
            if self._format.facts(location, "")
        )

    def contract_check(self, tables: Sequence[str] = ()) -> tuple[ContractCheck, ...]:
        """Whether stored tables have the columns that their contracts promise."""
        declared = [name for name, table in self.tables.items() if table.columns]
        chosen = with_contract(self.tables, declared, [self._name(name) for name in tables])
        self._check_registries([self.tables[name] for name in chosen])
        return tuple(agreement(self.tables[name], self._table_facts(name)) for name in chosen)

    def _check_registries(self, tables: Sequence[Table]) -> None:
        """Raise where a registry is the truth and a declaration is unlike it."""
        ruled = [(table, at) for table in tables if (at := table.terms.registry) and at.truth == "registry"]
        if not ruled:
            return
        from lakesmith.exchange import registry_problems

        here = self.declaration.environment
        raise_all([e for table, at in ruled for e in registry_problems(table, at, registry_of(table, here))])

    def _new_contracts(self, run_id: str, steps: Sequence[StepRecord]) -> list[ContractRecord]:
        bad = {step.table for step in steps if step.outcome != "ok"}
        well = [step.table for step in steps if step.table not in bad]
        return new_records(self._compatibility_verdicts().values(), well, run_id, datetime.now(UTC))

    def export_contract(self, table: str, format: Format = "odcs") -> str:
        """The table's contract as a document: `odcs`, `avro` or `json-schema`."""
        from lakesmith.exchange import export_contract

        return export_contract(self.tables[self._name(table)], format, lake=self.name)

    @staticmethod
    def import_contract(
        file: str | Path, *, layer: str | None = None, name: str | None = None, part: str | None = None
    ) -> Imported:
        """The declaration that a contract of others stands for, or a suite of Great Expectations. Writes nothing, and
        needs no lake."""
        from lakesmith.exchange import Wanted, import_contract, import_suite, read_document
        from lakesmith.exchange.great_expectations.suites import is_suite, read_suite

        text, wanted = read_document(file), Wanted(file=str(file), layer=layer, name=name, part=part)
        return import_suite(text, wanted, is_suite, read_suite) or import_contract(text, wanted)

    def publish_contract(self, tables: Sequence[str] = ()) -> Publication:
        """Bring schema registries up to the contracts of the tables, or compare where a registry is the truth.

        Without tables, all that name a registry.
        """
        from lakesmith.exchange import publish_all

        chosen = [self.tables[self._name(table)] for table in tables] or list(self.tables.values())
        return publish_all(chosen, partial(registry_of, environment=self.declaration.environment), named=bool(tables))
