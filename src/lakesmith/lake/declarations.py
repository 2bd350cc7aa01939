"""Checks declarations against each other and against the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesmith.contracts import PublishedContract, contract_errors
from lakesmith.declare import Jdbc, Kafka, Source, SqlQuery, TableName
from lakesmith.errors import DeclarationError, LakesmithError, raise_all
from lakesmith.lake.open_lake import OpenLake, today
from lakesmith.plan.fingerprint import rebuild_reason
from lakesmith.plan.steps import LakeFacts
from lakesmith.sources import connection


def check_declarations(lake: OpenLake, facts: LakeFacts) -> None:
    """Check queries and rules against the known columns, and contracts against recorded contracts."""
    check_against(lake, facts, lake.recorded_contracts())


def check_against(lake: OpenLake, facts: LakeFacts, published: Mapping[str, Sequence[PublishedContract]]) -> None:
    from lakesmith.sqlproof.column_checks import check_columns, check_conditions
    from lakesmith.sqlproof.query import given_columns

    schemas = column_names(lake, facts)
    errors: list[LakesmithError] = []
    for table in lake.tables.values():
        if isinstance(table.origin, Kafka | Jdbc):
            try:
                connection(table, lake.declaration.environment)
            except DeclarationError as error:
                errors.append(error)
        if isinstance(table.origin, SqlQuery):
            errors += check_columns(table.origin, schemas)
        errors += check_conditions(table, given_columns(table, schemas))
    raise_all([*errors, *contract_errors(lake.tables, published, lake.graph, schemas, today())])


def column_names(lake: OpenLake, facts: LakeFacts) -> dict[TableName, tuple[str, ...]]:
    """The column names of each table that has them in its query or in its log."""
    from lakesmith.sqlproof.query import table_columns

    schemas: dict[TableName, tuple[str, ...]] = {}
    for name in lake.graph.order:
        table, stored = lake.tables[name], facts.tables.get(name)
        columns = table_columns(table, schemas)
        if columns is None and stored and not _may_gain_columns(lake, name, facts):
            declared = [column.name for column in table.columns]
            columns = tuple(dict.fromkeys([*(column.name for column in stored.columns), *declared]))
        if columns is not None:
            schemas[name] = columns
    return schemas


def _may_gain_columns(lake: OpenLake, name: TableName, facts: LakeFacts) -> bool:
    """Whether the next run may add columns: the definition has changed, or new files here or upstream may have more."""
    for each in (name, *lake.graph.ancestors(name)):
        if each in lake.graph.incomplete:
            return True
        table, progress = lake.tables[each], facts.progress[each]
        if isinstance(table.origin, Source):
            open_ended = table.contract != "strict"
            if open_ended and (each not in facts.landing or facts.landing[each]):
                return True
        elif progress.definition is None or rebuild_reason(progress.definition, table):
            return True
    return False
