"""Turn a table block into a table: apply defaults, and check rules between keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakesmith.declare import (
    Append,
    Changes,
    Column,
    Defaults,
    Load,
    Query,
    Replace,
    Source,
    Table,
    TableName,
)
from lakesmith.declare.contract import QuarantinePolicy
from lakesmith.errors import DeclarationError
from lakesmith.load.check_models import ContractBlock
from lakesmith.load.checks import read_check, read_terms
from lakesmith.load.field_types import written_keys
from lakesmith.load.models import LoadBlock, TableBlock
from lakesmith.load.problems import ProblemList
from lakesmith.load.rules import is_currency
from lakesmith.load.sources import read_source


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBuilder:
    """Builds tables with the lake's defaults, and collects problems."""

    defaults: Mapping[str, Defaults]
    folder: str
    """The lake's folder, absolute."""
    problems: ProblemList

    def table(self, name: TableName, block: TableBlock, query: Query | None) -> Table | None:
        """Return the table, or None when it is invalid, with the reason in `problems`."""
        before = len(self.problems)
        origin: Source | Query | None = None
        with self.problems.collecting():
            origin = self._origin(name, block, query)
        load = self._load(name, block)
        self._check_currencies(block)
        checks = [read_check(check, item, self.folder, self.problems) for check, item in block.checks.items()]
        defaults = self.defaults[name.layer]
        written = block.contract if isinstance(block.contract, ContractBlock) else None
        mode = block.contract.mode if isinstance(block.contract, ContractBlock) else block.contract
        contract = mode or defaults.contract or "additive"
        terms = read_terms(name, contract, written, self.problems)
        if origin is None or len(self.problems) > before:
            return None
        return Table(
            name=name,
            origin=origin,
            load=load,
            contract=contract,
            terms=terms,
            quarantine=replace(
                defaults.quarantine or QuarantinePolicy(),
                **(written_keys(block.quarantine) if block.quarantine else {}),
            ),
            columns=tuple(
                Column(name=column, declared_at=item.at, **written_keys(item)) for column, item in block.columns.items()
            ),
            checks=tuple(check for check in checks if check is not None),
            owner=block.owner or defaults.owner,
            description=block.description,
            tags=tuple(dict.fromkeys((*defaults.tags, *block.tags))),
            freshness=block.freshness or defaults.freshness,
            enabled=block.enabled,
            declared_at=block.at,
            load_at=block.places.get("load"),
        )

    def _origin(self, name: TableName, block: TableBlock, query: Query | None) -> Source | Query | None:
        source_at = block.places.get("source")
        if name.layer == "bronze":
            if query is not None:
                what = "a bronze table reads from a source, not from a query"
                hint = f"give it a source in bronze/{name.name}.yml, or move the file to silver/ or gold/"
                raise DeclarationError("query-in-bronze", what, at=query.declared_at, hint=hint)
            if source_at is None:
                hint = f"source: {{files: landing/{name.name}/*.json}}"
                raise DeclarationError("missing-source", "the bronze table has no source", at=block.at, hint=hint)
            return read_source(name, block.source) if block.source else None
        if source_at is not None:
            what = f"only bronze tables have a source, and this table is in {name.layer}/"
            hint = f"move it to bronze/, or query a bronze table: SELECT … FROM bronze.{name.name}"
            raise DeclarationError("source-outside-bronze", what, at=source_at, hint=hint)
        if query is None:
            hint = f"write {name.layer}/{name.name}.sql or .py: a {name.layer} table is a query over others"
            raise DeclarationError("no-query", f"{name} has no query", at=block.at, hint=hint)
        return query

    def _load(self, name: TableName, block: TableBlock) -> Load:
        if name.layer == "bronze" and block.load not in (None, "append"):
            what = "bronze rows are never changed: the load of a bronze table is append"
            hint = "remove the key; clean and merge in silver"
            self.problems.add_error("bronze-append-only", what, block.places["load"], hint)
        match block.load:
            case "append":
                return Append()
            case LoadBlock() as written:
                return self._load_with_keys(written)
            case _:
                return Append() if name.layer == "bronze" else Replace()

    def _load_with_keys(self, block: LoadBlock) -> Load:
        load: Load = next(iter(written_keys(block).values()), Replace())
        match load:
            case Append(dedup=(), by=None):
                hint = "write load: append, or add dedup: …, the columns that identify duplicates"
                at = block.places["append"]
                self.problems.add_error("missing-key", "append without dedup and by has no keys", at, hint)
            case Changes():
                keys = {key.lower(): key for key in load.key}
                previous = {keys.get(key.lower(), key): column for key, column in load.previous_key.items()}
                return replace(load, previous_key=previous)
        return load

    def _check_currencies(self, block: TableBlock) -> None:
        """Check that each currency is a code or a declared column."""
        declared = {column.lower() for column in block.columns}
        for column, item in block.columns.items():
            currency = item.currency
            if currency is not None and not is_currency(currency) and currency.lower() not in declared:
                what = f"the currency of '{column}' is '{currency}', which is neither a code nor a declared column"
                hint = f"write three capital letters, such as EUR, or declare {currency} below `columns`"
                self.problems.add_error("bad-currency", what, item.places["currency"], hint)
