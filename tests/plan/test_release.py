"""The consistent versions of tables."""

from __future__ import annotations

import pytest
from tests.plan.lakes import facts

from lakesmith.declare import TableName
from lakesmith.plan.release import consistent_versions
from lakesmith.plan.steps import Position, Progress
from lakesmith.ports import TableFacts

BRONZE, SILVER = TableName("bronze", "orders"), TableName("silver", "orders")


@pytest.mark.parametrize(
    ("bronze", "read", "why"),
    [
        (facts(5), Position(table_id="one", version=5), None),
        (facts(7, maintenance_commits=2), Position(table_id="one", version=5), None),
        (facts(7, maintenance_commits=2), Position(table_id="one", version=7), None),
        (
            facts(7, maintenance_commits=1),
            Position(table_id="one", version=5),
            "built from version 5 of bronze.orders, not from 7",
        ),
        (facts(4), Position(table_id="one", version=5), "built from version 5 of bronze.orders, not from 4"),
        (
            facts(5, table_id="other"),
            Position(table_id="one", version=5),
            "built from an earlier bronze.orders that was dropped or recreated",
        ),
        (
            None,
            Position(table_id="one", version=5),
            "built from an earlier bronze.orders that was dropped or recreated",
        ),
    ],
)
def test_a_table_is_consistent_with_the_rows_it_was_built_from(
    bronze: TableFacts | None, read: Position, why: str | None
) -> None:
    found = ({BRONZE: bronze} if bronze else {}) | {SILVER: facts(3)}
    progress = {SILVER: Progress(definition="d", positions={"bronze.orders": read})}
    progress |= {BRONZE: Progress(definition="d")} if bronze else {}
    versions = consistent_versions(found, progress)
    assert versions == {name: each.version for name, each in found.items()} if why is None else why in versions


def test_an_interrupted_batch_has_no_consistent_version() -> None:
    progress = {SILVER: Progress(definition="d", unfinished=2)}
    assert consistent_versions({SILVER: facts(3)}, progress) == "a batch of silver.orders was interrupted"


def test_a_table_restored_before_its_first_batch_has_no_consistent_version() -> None:
    assert "no batch of this lake records which inputs silver.orders" in consistent_versions(
        {SILVER: facts(3)}, {SILVER: Progress()}
    )


def test_the_version_of_a_foreign_table_is_the_one_that_was_read() -> None:
    gold = TableName("gold", "days")
    read = [Progress(definition="d", positions={"bronze.orders": Position(table_id="one", version=v)}) for v in (5, 4)]
    found = {BRONZE: facts(9), SILVER: facts(3), gold: facts(2)}
    assert consistent_versions(found, {SILVER: read[0], gold: read[0]}) == {BRONZE: 5, SILVER: 3, gold: 2}
    assert "different versions" in consistent_versions(found, {SILVER: read[0], gold: read[1]})
