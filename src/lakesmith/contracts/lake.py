"""The contracts of a whole lake: which tables have one, and all that is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from lakesmith.contracts.consumers import Readers
from lakesmith.contracts.judge import judge_all
from lakesmith.contracts.problems import problems
from lakesmith.contracts.published import Published
from lakesmith.contracts.views import view_clashes, view_problems
from lakesmith.declare import LAYERS, Table, TableName
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.plan.graph import Graph
from lakesmith.reports import ContractDiff


def contract_errors(
    tables: Mapping[TableName, Table],
    published: Mapping[str, Sequence[Published]],
    graph: Graph,
    schemas: Mapping[TableName, Sequence[str]],
    today: date,
) -> list[LakesmithError]:
    """Changes that break readers and were not acknowledged, versions that do not follow, views that cannot be made."""
    errors: list[LakesmithError] = list(view_clashes(tables))
    readers = Readers(graph, tables, schemas)
    for name, verdict in judge_all(tables, published).items():
        errors += problems(verdict, readers, today)
        errors += view_problems(verdict.table, published.get(str(name), ()), schemas.get(name), today)
    return errors


def gone_contracts(
    tables: Mapping[TableName, Table], published: Mapping[str, Sequence[Published]]
) -> dict[TableName, ContractDiff]:
    """The recorded contracts of tables that nobody declares any more: deleted, or renamed."""
    names = {name: versions[0] for text, versions in published.items() if (name := TableName.parse(text))}
    return {
        name: ContractDiff(
            table=str(name),
            recorded=str(newest.version),
            version=str(newest.version),
            compatibility=newest.definition.terms.get("compatibility", "forward"),
            acknowledged=False,
            changes=(),
            gone=True,
        )
        for name, newest in sorted(names.items())
        if name not in tables
    }


def with_contract(
    tables: Mapping[TableName, Table], contracts: Collection[TableName], chosen: Sequence[TableName]
) -> list[TableName]:
    """The chosen tables, each of which has to have a contract; without a choice, all that have one, by layer."""
    for name in chosen:
        if name not in contracts:
            raise UsageError(
                "no-contract",
                f"{name} declares no columns, and so promises none",
                table=str(name),
                hint=f"write them below `columns` in {tables[name].declared_at.file}",
            )
    return [*chosen] or [name for layer in LAYERS for name in sorted(contracts) if name.layer == layer]
