"""Turn a table block into a table: apply defaults, and check rules between keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakesmith.declare import (
    Append,
    Column,
    Defaults,
    Load,
    Query,
    Replace,
    Source,
    Table,
    TableName,
)
from lakesmith.errors import DeclarationError, LakesmithError, Place
from lakesmith.load.check_models import ContractBlock
from lakesmith.load.checks import contract_word, policy_with, read_check, read_terms
from lakesmith.load.field_types import keys_of
from lakesmith.load.loads import read_load
from lakesmith.load.models import ColumnBlock, LoadBlock, TableBlock
from lakesmith.load.rules import is_currency
from lakesmith.load.sources import read_source


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBuilder:
    """Builds tables with the lake's defaults, and collects problems."""

    defaults: Mapping[str, Defaults]
    folder: str
    """The lake's folder, absolute."""
    problems: list[LakesmithError]

    def table(self, name: TableName, block: TableBlock, query: Query | None) -> Table | None:
        """Return the table, or None when it has no origin, with the reason in `problems`."""
        found = len(self.problems)
        try:
            origin = self._origin(name, block, query)
        except DeclarationError as problem:
            origin = None
            self.problems.append(problem)
        load = self._load(name, block)
        columns = tuple(_column(column, item) for column, item in block.columns.items())
        self._check_currencies(name, block)
        made = [read_check(check, item, self.folder, self.problems) for check, item in block.checks.items()]
        checks = tuple(check for check in made if check is not None)
        defaults = self.defaults[name.layer]
        contract = contract_word(block.contract, defaults.contract)
        written = block.contract if isinstance(block.contract, ContractBlock) else None
        terms = read_terms(name, contract, written, self.problems)
        if origin is None or len(self.problems) > found:
            return None
        return Table(
            name=name,
            origin=origin,
            load=load,
            contract=contract,
            terms=terms,
            quarantine=policy_with(block.quarantine, defaults.quarantine),
            columns=columns,
            checks=checks,
            owner=block.owner or defaults.owner,
            description=block.description,
            tags=tuple(dict.fromkeys((*defaults.tags, *block.tags))),
            freshness=block.freshness or defaults.freshness,
            enabled=block.enabled,
            declared_at=block.at,
            load_at=block.places.get("load"),
        )

    def _origin(self, name: TableName, block: TableBlock, query: Query | None) -> Source | Query | None:
        source_at = block.places.get("source", block.at)
        if name.layer == "bronze":
            if query is not None:
                raise _problem(
                    query.declared_at,
                    name,
                    "query-in-bronze",
                    "a bronze table reads from a source, not from a query",
                    f"give it a source in bronze/{name.name}.yml, or move the file to silver/ or gold/",
                )
            if "source" not in block.places:
                raise _problem(
                    block.at,
                    name,
                    "missing-source",
                    "the bronze table has no source",
                    f"source: {{files: landing/{name.name}/*.json}}",
                )
            return read_source(name, block.source) if block.source else None
        if "source" in block.places:
            raise _problem(
                source_at,
                name,
                "source-outside-bronze",
                f"only bronze tables have a source, and this table is in {name.layer}/",
                f"move it to bronze/, or query a bronze table: SELECT … FROM bronze.{name.name}",
            )
        if query is None:
            raise _problem(
                block.at,
                name,
                "no-query",
                f"{name} has no query",
                f"write {name.layer}/{name.name}.sql or .py: a {name.layer} table is a query over others",
            )
        return query

    def _load(self, name: TableName, block: TableBlock) -> Load:
        if name.layer == "bronze" and block.load not in (None, "append"):
            self.problems.append(
                _problem(
                    block.places["load"],
                    name,
                    "bronze-append-only",
                    "bronze rows are never changed: the load of a bronze table is append",
                    "remove the key; clean and merge in silver",
                )
            )
        match block.load:
            case "append":
                return Append()
            case LoadBlock() as written:
                return read_load(name, written, self.problems)
            case _:
                return Append() if name.layer == "bronze" else Replace()

    def _check_currencies(self, name: TableName, block: TableBlock) -> None:
        """Check that each currency is a code or a declared column."""
        declared = {column.lower() for column in block.columns}
        for column, item in block.columns.items():
            currency = item.currency
            if currency is not None and not is_currency(currency) and currency.lower() not in declared:
                self.problems.append(
                    _problem(
                        item.places["currency"],
                        name,
                        "bad-currency",
                        f"the currency of '{column}' is '{currency}', which is neither a code nor a declared column",
                        f"write three capital letters, such as EUR, or declare {currency} below `columns`",
                    )
                )


def _column(name: str, block: ColumnBlock) -> Column:
    written: dict[str, Any] = {key: getattr(block, key) for key in keys_of(ColumnBlock)}
    return Column(name=name, declared_at=block.at, **written)


def _problem(at: Place, table: TableName, code: str, what: str, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=at, table=str(table), hint=hint)
