"""Find new data in sources other than files, without a JVM, while planning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakesmith.declare import Environment, Jdbc, Kafka, OtherTable, Settings, Table
from lakesmith.errors import DeclarationError, did_you_mean
from lakesmith.ports import Slice

if TYPE_CHECKING:
    from lakesmith.sources.registry import Registry


def new_slice(table: Table, environment: Environment, reached: Mapping[str, int | str]) -> Slice | None:
    """Return the slice of the table's source after `reached`, or None when nothing is new."""
    # Each kind has its own client library, which is only imported when it is used.
    match table.origin:
        case Kafka() as source:
            from lakesmith.sources.kafka import new_records

            return new_records(table, source, connection(table, environment), reached)
        case Jdbc():
            from lakesmith.sources.jdbc import new_rows

            return new_rows(reached)
        case OtherTable(adopt=False) as source:
            from lakesmith.sources.tables import new_versions

            return new_versions(table, source, reached)
        case _:
            return None


def check_available(table: Table, environment: Environment, pinned: Slice) -> None:
    """Raise an error when a pinned slice is no longer available, or its source does not answer."""
    if isinstance(table.origin, Kafka):
        from lakesmith.sources.kafka import pinned_offsets

        pinned_offsets(table, table.origin, connection(table, environment), pinned)


def registry_of(table: Table, environment: Environment) -> Registry:
    """Return the schema registry of the table's contract."""
    from lakesmith.sources.registry import Registry

    registered = table.terms.registry
    assert registered is not None
    settings = named_connection(registered.connection, table, environment)
    found = Registry.of(settings)
    if found is None:
        raise DeclarationError(
            "missing-registry",
            f"the contract needs a schema registry, and the connection '{registered.connection}' has none",
            at=table.declared_at,
            table=str(table.name),
            hint=f"add registry: http://… to the connection '{registered.connection}' in lakesmith.yml",
        )
    return found


def connection(table: Table, environment: Environment) -> Settings:
    """Return the connection settings of the table's source."""
    assert isinstance(table.origin, Kafka | Jdbc)
    return named_connection(table.origin.connection, table, environment)


def named_connection(name: str, table: Table, environment: Environment) -> Settings:
    """Return the settings of a connection that the table names."""
    if name not in environment.connections:
        raise DeclarationError(
            "unknown-connection",
            f"environment '{environment.name}' has no connection '{name}'",
            at=table.declared_at,
            table=str(table.name),
            hint=did_you_mean(name, environment.connections, label="connections")
            if environment.connections
            else f"add connections: {{{name}: {{…}}}} to the environment in lakesmith.yml",
        )
    return environment.connections[name]
