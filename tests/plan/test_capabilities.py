"""The capabilities that steps need from a table format."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.plan.lakes import made, named

from lakesmith.declare import Append, Changes, Load, Merge, Scd2, Snapshot
from lakesmith.plan.capabilities import required_capabilities, unsupported_step
from lakesmith.plan.steps import Build
from lakesmith.ports import Capability

TABLE = made("silver.x", "SELECT id FROM bronze.orders", load=Merge(key=("id",), order_by=("id",)))
STEP = Build(table=named("silver.x"), mode="changes", inputs=(), reason="")


def test_a_merge_of_changes_needs_the_change_feed_and_merge() -> None:
    assert {Capability.MERGE, Capability.CHANGE_FEED, Capability.FENCE} <= required_capabilities(TABLE, STEP)


def test_a_format_with_all_capabilities_supports_every_step() -> None:
    assert unsupported_step(TABLE, STEP, "delta", frozenset(Capability)) is None


def test_a_format_without_merge_is_rejected_with_the_reason() -> None:
    error = unsupported_step(TABLE, STEP, "other", frozenset(Capability) - {Capability.MERGE})
    assert error
    assert (error.code, str(error.at)) == ("format-cannot", str(TABLE.declared_at))
    assert error.what == "other tables cannot update and insert by key in one commit"


@pytest.mark.parametrize(
    ("load", "merges"),
    [
        (Append(), False),
        (Append(dedup=("id",)), True),
        (Scd2(key=("id",), order_by=("ts",)), True),
        (Changes(key=("id",), order_by=("ts",), op="op"), True),
        (Snapshot(key=("id",), taken="ts"), True),
    ],
)
def test_a_load_that_changes_rows_needs_merge_except_in_a_full_build(load: Load, merges: bool) -> None:
    table = made("silver.x", "SELECT id, ts, op FROM bronze.orders", load)
    assert (Capability.MERGE in required_capabilities(table, STEP)) == merges
    assert Capability.MERGE not in required_capabilities(table, replace(STEP, mode="full"))
