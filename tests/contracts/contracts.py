"""Small contracts for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from lakesmith.contracts import ContractVersion, Definition, PublishedContract
from lakesmith.declare import Column, Replace, SqlQuery, Table, TableName
from lakesmith.declare.contract import Compatibility, Previous, Terms
from lakesmith.errors import Place

TODAY = date(2026, 11, 15)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ORDERS = TableName("silver", "orders")


def column(name: str, type: str | None = "int", **promises: Any) -> Column:
    return Column(name=name, type=type, **promises, declared_at=Place(""))


def contract(*columns: Column, **terms: str) -> Definition:
    return Definition(columns=columns, terms=terms)


def declared(*columns: Column, terms: Terms | None = None, **more: Any) -> Table:
    """Return a table whose columns are declared from line 3 on."""
    table = Table(
        name=ORDERS,
        origin=SqlQuery(text="SELECT * FROM bronze.orders", declared_at=Place("silver/orders.sql", 9)),
        load=Replace(),
        terms=terms or Terms(),
        columns=tuple(
            replace(column, declared_at=Place("silver/orders.sql", line))
            for line, column in enumerate(columns, start=3)
        ),
        declared_at=Place("silver/orders.sql"),
    )
    return replace(table, **more)


def terms(
    version: str | None = None, *, compatibility: Compatibility = "forward", previous: tuple[Previous, ...] = ()
) -> Terms:
    return Terms(version=version, compatibility=compatibility, previous=previous)


def previous_version(major: int = 1, until: date = TODAY, **columns: str) -> Previous:
    return Previous(major=major, until=until, columns=columns, declared_at=Place("silver/orders.sql", 2))


def published(version: str, *columns: Column, **terms: str) -> PublishedContract:
    return PublishedContract(
        table=str(ORDERS),
        version=ContractVersion.parse(version),
        definition=contract(*columns, **terms),
        run_id="r1",
        recorded_at=NOON,
    )
