"""The contracts of all tables of a lake, and their errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from lakesmith.contracts.compare import compare_all
from lakesmith.contracts.consumers import Consumers
from lakesmith.contracts.problems import problems
from lakesmith.contracts.published import PublishedContract
from lakesmith.contracts.views import view_clashes, view_problems
from lakesmith.declare import LAYERS, Table, TableName
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.plan.graph import Graph
from lakesmith.reports import ContractDiff


def contract_errors(
    tables: Mapping[TableName, Table],
    published: Mapping[str, Sequence[PublishedContract]],
    graph: Graph,
    schemas: Mapping[TableName, Sequence[str]],
    today: date,
) -> list[LakesmithError]:
    """Return errors for unacknowledged breaking changes, wrong versions and views that cannot be created."""
    errors: list[LakesmithError] = list(view_clashes(tables))
    consumers = Consumers(graph, tables, schemas)
    for name, comparison in compare_all(tables, published).items():
        errors += problems(comparison, consumers.of, today)
        errors += view_problems(comparison.table, published.get(str(name), ()), schemas.get(name), today)
    return errors


def removed_contracts(
    tables: Mapping[TableName, Table], published: Mapping[str, Sequence[PublishedContract]]
) -> dict[TableName, ContractDiff]:
    """Return the recorded contracts of tables that are no longer declared: deleted or renamed."""
    names = {name: versions[0] for text, versions in published.items() if (name := TableName.parse(text))}
    return {
        name: ContractDiff(
            table=str(name),
            recorded=str(newest.version),
            version=str(newest.version),
            compatibility=newest.definition.terms.get("compatibility", "forward"),
            acknowledged=False,
            changes=(),
            removed=True,
        )
        for name, newest in sorted(names.items())
        if name not in tables
    }


def tables_with_contract(
    tables: Mapping[TableName, Table], contracts: Collection[TableName], chosen: Sequence[TableName]
) -> list[TableName]:
    """Return the chosen tables, or all with a contract by layer. Raise when a chosen table has none."""
    for name in chosen:
        if name not in contracts:
            raise UsageError(
                "no-contract",
                f"{name} declares no columns, so it has no contract",
                table=str(name),
                hint=f"declare them below `columns` in {tables[name].declared_at.file}",
            )
    return [*chosen] or [name for layer in LAYERS for name in sorted(contracts) if name.layer == layer]
