"""The contracts of a whole lake: which tables have one, and all that is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from lakesmith.contracts.consumers import Readers
from lakesmith.contracts.judge import judge_all, problems
from lakesmith.contracts.published import Published
from lakesmith.contracts.views import view_clashes, view_problems
from lakesmith.declare import Table, TableName
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.plan.graph import Graph


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


def with_contract(tables: Mapping[TableName, Table], chosen: Iterable[TableName], *, named: bool) -> list[TableName]:
    """Those of the tables that declare columns; one that does not and was `named` is an error."""
    found: list[TableName] = []
    for name in chosen:
        if tables[name].columns:
            found.append(name)
        elif named:
            raise UsageError(
                "no-contract",
                f"{name} declares no columns, and so promises none",
                table=str(name),
                hint=f"write them below `columns` in {tables[name].declared_at.file}",
            )
    return found
