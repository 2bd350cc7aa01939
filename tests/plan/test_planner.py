"""Declarations and facts become steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

import pytest
from tests.plan.lakes import bronze, facts, file, lake, made, named, python

from lakesmith.declare import (
    Append,
    Changes,
    Check,
    Column,
    Files,
    Kafka,
    Load,
    Merge,
    ReplacePartitions,
    Scd2,
    Snapshot,
    Table,
    TableName,
)
from lakesmith.declare.checks import BatchSql, References
from lakesmith.declare.contract import QuarantinePolicy
from lakesmith.errors import DataError, LakesmithError, Place, UsageError
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.graph import Graph
from lakesmith.plan.planner import make_plan
from lakesmith.plan.steps import (
    Build,
    Finish,
    Ingest,
    Input,
    LakeFacts,
    Plan,
    Position,
    Progress,
    ReplayQuarantine,
    TablePlan,
)
from lakesmith.ports import FileFact, TableFacts

MERGE = Merge(key=("id",), order_by=("ts",))
ORDERS = bronze("orders")
SILVER = made("silver.orders", "SELECT id, ts, day FROM bronze.orders", MERGE)
DAILY = made("gold.daily", "SELECT day, count(*) AS n FROM silver.orders GROUP BY day", ReplacePartitions(by="day"))


class Known(TypedDict, total=False):
    """Return the facts of a plan, by table."""

    there: Mapping[str, TableFacts]
    progress: Mapping[str, Progress]
    landing: Mapping[str, tuple[FileFact, ...]]
    selected: tuple[str, ...] | None
    quarantine_expired: Mapping[str, int]


def plan(*tables: Table, full_refresh: bool = False, **known: Unpack[Known]) -> Plan:
    declared = lake(*tables)
    world = LakeFacts(
        tables={named(name): found for name, found in known.get("there", {}).items()},
        progress={named(name): found for name, found in known.get("progress", {}).items()},
        landing={named(name): found for name, found in known.get("landing", {}).items()},
        quarantine_expired={named(name): rows for name, rows in known.get("quarantine_expired", {}).items()},
    )
    selected = known.get("selected")
    chosen = declared.tables if selected is None else [named(name) for name in selected]
    return make_plan(
        declared,
        Graph.of(declared.tables),
        world,
        selected=frozenset(chosen),
        full_refresh=full_refresh,
    )


def of(made_plan: Plan, name: str) -> TablePlan:
    return next(table for table in made_plan.tables if table.table == named(name))


def build_of(made_plan: Plan, name: str) -> Build:
    (build,) = (step for step in of(made_plan, name).steps if isinstance(step, Build))
    return build


def read(table: Table, **positions: int) -> Progress:
    """Return the progress of a table that has read its inputs, by `layer_table`, up to a version."""
    return Progress(
        head=1,
        definition=definition(table),
        positions={
            name.replace("_", ".", 1): Position(table_id="one", version=version) for name, version in positions.items()
        },
    )


def problem(made_plan: Plan) -> LakesmithError:
    (error,) = made_plan.problems
    return error


# Bronze


def test_new_files_are_ingested_in_one_step() -> None:
    files = (file("b.json", 3100), file("a.json", 1000))
    table = of(plan(ORDERS, landing={"bronze.orders": files}), "bronze.orders")
    assert (table.status, table.reason) == ("added", "2 new files, 4.1 kB")
    assert table.steps == (
        Ingest(table=named("bronze.orders"), files=(files[1], files[0]), reason="2 new files, 4.1 kB"),
    )


def test_ingested_files_are_not_ingested_again() -> None:
    old, new = file("a.json"), file("b.json", 12)
    found = plan(
        ORDERS,
        there={"bronze.orders": facts()},
        progress={"bronze.orders": Progress(head=1, ingested={old.path: old})},
        landing={"bronze.orders": (old, new)},
    )
    table = of(found, "bronze.orders")
    assert (table.status, table.reason) == ("changed", "1 new file, 12 B")
    assert table.steps == (Ingest(table=named("bronze.orders"), files=(new,), reason="1 new file, 12 B"),)


def test_files_are_split_into_batches_of_at_most_the_requested_bytes() -> None:
    cut = replace(ORDERS, origin=Files(files="landing/orders/*.json", format="json", max_bytes=2500))
    files = (*(file(f"{number}.json", 1000) for number in range(5)), file("huge.json", 9000))
    steps = of(plan(cut, landing={"bronze.orders": files}), "bronze.orders").steps
    assert [len(step.files) for step in steps if isinstance(step, Ingest)] == [2, 2, 1, 1]


def test_a_bronze_table_with_another_source_than_before_is_rejected() -> None:
    topic = replace(ORDERS, origin=Kafka(topic="orders", connection="main"))
    read_on = Progress(head=1, definition=definition(topic), source_position={"orders/0": 7})
    known = {"there": {"bronze.orders": facts()}, "progress": {"bronze.orders": read_on}}
    other = replace(ORDERS, origin=Kafka(topic="others", connection="main"))
    assert plan(topic, **known).problems == ()  # type: ignore[arg-type]
    assert problem(plan(other, **known)).code == "source-changed"  # type: ignore[arg-type]
    assert problem(plan(ORDERS, **known)).code == "source-changed"  # type: ignore[arg-type]


def test_a_bronze_column_with_another_declared_type_is_rejected() -> None:
    column = Column(name="id", type="string", declared_at=Place("bronze/orders.yml", 3))
    found = problem(plan(replace(ORDERS, columns=(column,)), there={"bronze.orders": facts()}))
    assert (found.code, str(found.at)) == ("type-changed", "bronze/orders.yml:3")


def test_bronze_without_new_files_has_no_step() -> None:
    old = file("a.json")
    known: Known = {
        "there": {"bronze.orders": facts()},
        "progress": {"bronze.orders": Progress(head=1, ingested={old.path: old})},
        "landing": {"bronze.orders": (old,)},
    }
    table = of(plan(ORDERS, **known), "bronze.orders")
    assert (table.status, table.reason, table.steps) == ("unchanged", "nothing new", ())
    refreshed = of(plan(ORDERS, full_refresh=True, **known), "bronze.orders")
    assert (refreshed.reason, refreshed.steps) == (
        "nothing new; a full refresh leaves bronze as it arrived",
        (),
    )


def test_a_file_removed_from_the_landing_zone_is_accepted() -> None:
    old = file("a.json")
    found = plan(
        ORDERS,
        there={"bronze.orders": facts()},
        progress={"bronze.orders": Progress(head=1, ingested={old.path: old})},
        landing={"bronze.orders": ()},
    )
    assert (found.problems, list(found.steps)) == ((), [])


@pytest.mark.parametrize("now", [file("a.json", 999), file("a.json", 1000, 5000)])
def test_a_file_that_changed_after_it_was_ingested_is_a_problem(now: FileFact) -> None:
    old = file("a.json", 1000, 0)
    found = plan(
        ORDERS,
        there={"bronze.orders": facts()},
        progress={"bronze.orders": Progress(head=1, ingested={old.path: old})},
        landing={"bronze.orders": (now, file("b.json"))},
    )
    error = problem(found)
    assert isinstance(error, DataError)
    assert (error.code, error.table, error.at) == (
        "file-changed",
        "bronze.orders",
        Place("bronze/orders.yml"),
    )
    assert "/lake/landing/a.json changed after it was ingested" in error.what
    assert of(found, "bronze.orders").steps == ()


# Silver and gold


def test_a_new_table_gets_a_full_build() -> None:
    found = plan(ORDERS, SILVER, landing={"bronze.orders": (file("a.json"),)})
    table = of(found, "silver.orders")
    assert (table.status, table.reason, table.after) == ("added", "new table", (named("bronze.orders"),))
    assert table.steps == (
        Build(
            table=named("silver.orders"),
            mode="full",
            inputs=(Input(table=named("bronze.orders"), since=None),),
            reason="new table",
            rebuild=True,
        ),
    )


def up_to_date(*, version: int = 3, landing: tuple[FileFact, ...] = ()) -> Known:
    """Bronze and silver exist; silver has read bronze up to version 3."""
    return {
        "there": {"bronze.orders": facts(version), "silver.orders": facts(7)},
        "progress": {"silver.orders": read(SILVER, bronze_orders=3)},
        "landing": {"bronze.orders": landing},
    }


def test_an_up_to_date_table_has_no_step() -> None:
    table = of(plan(ORDERS, SILVER, **up_to_date()), "silver.orders")
    assert (table.status, table.reason, table.steps, table.after) == ("unchanged", "up to date", (), ())


def test_new_versions_of_the_input_are_read_as_changes() -> None:
    found = plan(ORDERS, SILVER, **up_to_date(version=5))
    reason = "bronze.orders has 2 new versions (3 → 5)"
    assert of(found, "silver.orders").status == "changed"
    assert build_of(found, "silver.orders") == Build(
        table=named("silver.orders"),
        mode="changes",
        inputs=(Input(table=named("bronze.orders"), since=3),),
        reason=reason,
    )


def test_an_input_that_changes_in_this_run_is_read_from_the_bookmark() -> None:
    found = plan(ORDERS, SILVER, **up_to_date(landing=(file("new.json"),)))
    build = build_of(found, "silver.orders")
    assert (build.mode, build.inputs[0].since, build.reason) == (
        "changes",
        3,
        "bronze.orders changes in this run",
    )
    assert of(found, "silver.orders").after == (named("bronze.orders"),)


def test_a_changed_query_needs_a_rebuild() -> None:
    other = made("silver.orders", "SELECT id, ts, day + 1 AS day FROM bronze.orders", MERGE)
    build = build_of(plan(ORDERS, other, **up_to_date()), "silver.orders")
    assert (build.mode, build.rebuild) == ("full", True)
    assert build.reason == "query changed since the last run (silver/orders.sql)"


def test_a_changed_load_needs_a_rebuild() -> None:
    other = replace(SILVER, load=Append())
    build = build_of(plan(ORDERS, other, **up_to_date()), "silver.orders")
    assert build.reason == "load or column types changed since the last run (silver/orders.sql)"


def test_changed_checks_apply_to_later_rows() -> None:
    other = replace(SILVER, contract="strict")
    table = of(plan(ORDERS, other, **up_to_date()), "silver.orders")
    assert table.steps == ()
    assert table.reason == "up to date; its checks changed and apply to later rows"
    assert build_of(plan(ORDERS, other, **up_to_date(version=4)), "silver.orders").mode == "changes"


def test_a_full_refresh_rebuilds_what_is_up_to_date() -> None:
    build = build_of(plan(ORDERS, SILVER, full_refresh=True, **up_to_date()), "silver.orders")
    assert (build.mode, build.rebuild, build.reason) == ("full", True, "full refresh was requested")


def test_a_source_that_was_created_again_is_read_completely() -> None:
    known = up_to_date()
    known["there"] = {"bronze.orders": facts(3, table_id="two"), "silver.orders": facts(7)}
    build = build_of(plan(ORDERS, SILVER, **known), "silver.orders")
    assert (build.mode, build.rebuild, build.reason) == (
        "full",
        True,
        "bronze.orders was dropped and created again",
    )


def test_a_source_that_is_rebuilt_in_this_run_is_read_completely() -> None:
    known = up_to_date(landing=(file("a.json"),))
    known["there"] = {"silver.orders": facts(7)}
    build = build_of(plan(ORDERS, SILVER, **known), "silver.orders")
    assert (build.mode, build.reason) == ("full", "bronze.orders is rebuilt in this run")


def test_a_log_that_was_cleaned_past_the_bookmark_is_a_problem_with_a_next_step() -> None:
    known = up_to_date()
    known["there"] = {"bronze.orders": facts(9, oldest=5), "silver.orders": facts(7)}
    error = problem(plan(ORDERS, SILVER, **known))
    assert (error.code, error.exit_code) == ("source-gap", 1)
    assert error.hint == "rebuild it from all rows once: lakesmith run silver.orders --full-refresh"


@pytest.mark.parametrize("oldest", [0, 4])
def test_a_log_that_begins_right_after_the_bookmark_has_no_gap(oldest: int) -> None:
    known = up_to_date()
    known["there"] = {"bronze.orders": facts(9, oldest=oldest), "silver.orders": facts(7)}
    assert build_of(plan(ORDERS, SILVER, **known), "silver.orders").mode == "changes"


def test_a_full_refresh_ignores_a_gap() -> None:
    known = up_to_date()
    known["there"] = {"bronze.orders": facts(9, oldest=5), "silver.orders": facts(7)}
    assert plan(ORDERS, SILVER, full_refresh=True, **known).problems == ()


def test_a_full_build_ignores_a_gap() -> None:
    whole = made("silver.orders", "SELECT DISTINCT id, ts, day FROM bronze.orders", MERGE)
    found = plan(
        ORDERS,
        whole,
        there={"bronze.orders": facts(9, oldest=5), "silver.orders": facts(7)},
        progress={"silver.orders": read(whole, bronze_orders=3)},
    )
    assert build_of(found, "silver.orders").mode == "full"


def test_a_foreign_table_is_not_overwritten_without_a_request() -> None:
    known: Known = {"there": {"bronze.orders": facts(), "silver.orders": facts()}}
    error = problem(plan(ORDERS, SILVER, **known))
    assert error.code == "unknown-progress"
    assert build_of(plan(ORDERS, SILVER, full_refresh=True, **known), "silver.orders").rebuild


def mode(table: Table, *, full: Mapping[str, int] | None = None, upstream: tuple[Table, ...] = ()) -> Build:
    """Return the build step of a table when the inputs in `full` are two versions ahead of its bookmark."""
    moved = full or {"bronze_orders": 3}
    inputs = Graph.of({each.name: each for each in (ORDERS, *upstream, table)}).upstream(table.name)
    keys = {str(name).replace(".", "_", 1) for name in inputs}
    found = plan(
        ORDERS,
        *upstream,
        table,
        there={
            **{str(name): facts(5 if str(name).replace(".", "_", 1) in moved else 3) for name in inputs},
            str(table.name): facts(),
        },
        progress={str(table.name): read(table, **dict.fromkeys(keys, 3))},
        selected=(str(table.name),),
    )
    return build_of(found, str(table.name))


@pytest.mark.parametrize("load", [MERGE, Append()])
def test_an_aggregate_gets_a_full_build_with_the_reason(load: Load) -> None:
    build = mode(made("silver.x", "SELECT id, max(ts) AS ts FROM bronze.orders\nGROUP BY id", load))
    assert (build.mode, build.rebuild) == ("full", False)
    assert build.cost_reason == "changed rows alone are not enough: it aggregates (GROUP BY, line 6)"


def test_replace_gets_a_full_build_with_the_reason() -> None:
    build = mode(made("silver.x", "SELECT id FROM bronze.orders"))
    assert build.cost_reason == "load: replace builds the table from all rows every time"


def test_a_rowwise_python_query_is_computed_from_changes() -> None:
    assert mode(python("silver.x", ["bronze.orders"], MERGE, rowwise=True)).mode == "changes"
    build = mode(python("silver.x", ["bronze.orders"], MERGE))
    assert (build.mode, build.cost_reason) == (
        "full",
        "changed rows alone are not enough: a Python query works row by row only if it declares rowwise=True",
    )


def test_two_inputs_of_a_rowwise_query_are_read_completely() -> None:
    build = mode(
        python("silver.x", ["bronze.orders", "bronze.other"], MERGE, rowwise=True),
        upstream=(bronze("other"),),
    )
    assert (build.mode, build.cost_reason) == (
        "full",
        "changed rows alone are not enough: it reads 2 tables",
    )


def test_a_merge_over_changing_rows_is_computed_by_touched_keys() -> None:
    build = mode(
        made("gold.x", "SELECT id, ts FROM silver.orders WHERE day > 1", MERGE),
        upstream=(SILVER,),
        full={"silver_orders": 3},
    )
    assert (build.mode, build.cost_reason) == (
        "keys",
        "rows of silver.orders change or are deleted, so each touched key is recomputed from all its rows",
    )


def test_dedup_needs_all_rows_if_rows_can_be_deleted() -> None:
    build = mode(
        made("gold.x", "SELECT id, ts FROM silver.orders", Append(dedup=("id",))),
        upstream=(SILVER,),
        full={"silver_orders": 3},
    )
    assert (build.mode, build.cost_reason) == (
        "full",
        "rows of silver.orders change or are deleted, which may change the first of several duplicates",
    )


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (Scd2(key=("id",), order_by=("ts",), delete="op = 'D'"), ("changes", None)),
        (Changes(key=("id",), order_by=("ts",), op="op"), ("changes", None)),
        (replace(MERGE, delete="op = 'D'"), ("changes", None)),
        (
            replace(MERGE, update=("v",)),
            ("keys", "the first row of a key decides the columns that later rows do not update"),
        ),
        (Changes(key=("id",), order_by=("ts",), op="op", amounts=("v",)), ("keys", "a late change may precede")),
        (Snapshot(key=("id",), taken="ts"), ("changes", None)),
    ],
)
def test_a_load_over_append_only_rows_reads_only_new_rows(load: Load, expected: tuple[str, str | None]) -> None:
    build = mode(made("silver.x", "SELECT id, ts, op, v FROM bronze.orders", load))
    assert build.mode == expected[0]
    assert (build.cost_reason or "").startswith(expected[1] or "")


ADDED = "SELECT id, count(*) AS n, sum(v) AS v FROM bronze.orders GROUP BY id"
KEYED = Merge(key=("id",))
CHECK = Check(name="c", rule=BatchSql(condition="count(*) > 0"), on_fail="warn", declared_at=Place("x.sql"))


def test_new_rows_are_added_to_sums_where_that_is_exact() -> None:
    assert mode(made("gold.x", ADDED, KEYED)).mode == "sums"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (made("gold.x", ADDED.replace("sum(v)", "avg(v)"), KEYED), "cannot be added to the sums"),
        (made("gold.x", ADDED, KEYED, checks=(CHECK,)), "cannot be added to the sums: its checks need complete rows"),
        (
            made("gold.x", ADDED, KEYED, columns=(Column(name="v", type="string", declared_at=Place("x.sql")),)),
            "cannot be added to the sums: v is cast to its declared type",
        ),
    ],
)
def test_aggregates_that_cannot_be_combined_are_recomputed_by_key_with_the_reason(table: Table, reason: str) -> None:
    build = mode(table)
    assert build.mode == "keys"
    assert reason in (build.cost_reason or "")


def test_keys_that_cannot_be_found_need_a_full_build_with_the_reason() -> None:
    build = mode(made("gold.x", "SELECT id FROM bronze.orders LIMIT 3", KEYED))
    assert build.mode == "full"
    assert "the touched keys are unknown" in (build.cost_reason or "")


def test_an_append_table_that_was_rebuilt_is_read_completely() -> None:
    first = made("silver.a", "SELECT id FROM bronze.orders", Append())
    second = made("silver.b", "SELECT id FROM silver.a", Append())

    def planned(rewritten: int | None) -> Build:
        found = plan(
            ORDERS,
            first,
            second,
            there={"bronze.orders": facts(3), "silver.a": facts(5), "silver.b": facts()},
            progress={
                "silver.a": replace(read(first, bronze_orders=3), rewritten=rewritten),
                "silver.b": read(second, silver_a=3),
            },
        )
        return build_of(found, "silver.b")

    assert planned(None).mode == "changes"
    assert planned(3).mode == "changes"
    assert (planned(4).mode, planned(4).cost_reason) == (
        "full",
        "silver.a was rebuilt: rows that were read before may have changed",
    )


def test_readers_of_a_table_rebuilt_in_this_run_get_a_full_build() -> None:
    first = made("silver.a", "SELECT id FROM bronze.orders", Append())
    second = made("silver.b", "SELECT id FROM silver.a", Append())
    found = plan(
        ORDERS,
        first,
        second,
        there={"bronze.orders": facts(3), "silver.a": facts(5), "silver.b": facts()},
        progress={
            "silver.a": replace(read(first, bronze_orders=3), definition="other.one:x"),
            "silver.b": read(second, silver_a=5),
        },
    )
    assert build_of(found, "silver.a").rebuild
    assert build_of(found, "silver.b").mode == "full"


def test_touched_partitions_are_recomputed_from_their_deciding_table() -> None:
    build = mode(DAILY, upstream=(SILVER,), full={"silver_orders": 3})
    assert (build.mode, build.inputs, build.cost_reason) == (
        "partitions",
        (Input(table=named("silver.orders"), since=3),),
        None,
    )


JOINED = made(
    "gold.daily",
    "SELECT o.day, c.name FROM silver.orders o JOIN silver.c c ON o.id = c.id",
    ReplacePartitions(by="day"),
)
CUSTOMERS = made("silver.c", "SELECT id, name FROM bronze.orders")


def test_other_inputs_of_a_partitioned_table_are_read_completely() -> None:
    build = mode(JOINED, upstream=(SILVER, CUSTOMERS), full={"silver_orders": 3})
    assert (build.mode, build.inputs) == (
        "partitions",
        (Input(table=named("silver.orders"), since=3), Input(table=named("silver.c"), since=None)),
    )


def test_a_change_of_another_input_recomputes_all_partitions() -> None:
    build = mode(JOINED, upstream=(SILVER, CUSTOMERS), full={"silver_orders": 3, "silver_c": 3})
    assert (build.mode, build.cost_reason) == (
        "full",
        "silver.c changed, and only silver.orders decides the partition of a row",
    )
    assert build.reason == ("silver.orders has 2 new versions (3 → 5); silver.c has 2 new versions (3 → 5)")


def test_a_partition_that_cannot_be_traced_recomputes_all() -> None:
    table = made("gold.daily", "SELECT max(day) AS day, id FROM silver.orders GROUP BY id", ReplacePartitions(by="day"))
    build = mode(table, upstream=(SILVER,), full={"silver_orders": 3})
    assert (build.mode, build.cost_reason) == (
        "full",
        "the touched partitions are unknown: 'day' is an aggregate (line 5)",
    )


def test_same_as_enables_partitions_for_a_python_table() -> None:
    load = ReplacePartitions(by="day", same_as="silver.orders.day")
    build = mode(python("gold.daily", ["silver.orders"], load), upstream=(SILVER,), full={"silver_orders": 3})
    assert build.mode == "partitions"


# What is missing, broken or unfinished


def test_an_input_that_was_never_built_and_is_not_selected_is_a_problem() -> None:
    error = problem(plan(ORDERS, SILVER, selected=("silver.orders",)))
    assert isinstance(error, UsageError)
    assert (error.code, error.at, error.hint) == (
        "input-missing",
        Place("silver/orders.sql", 5),
        "lakesmith run +silver.orders",
    )


def test_an_unbuilt_disabled_input_is_a_problem_with_its_own_hint() -> None:
    error = problem(plan(replace(ORDERS, enabled=False), SILVER))
    assert (error.code, error.hint) == ("input-missing", "enable it in bronze/orders.yml")


def test_a_disabled_input_is_read_at_its_present_version() -> None:
    disabled = replace(ORDERS, enabled=False)
    found = plan(disabled, SILVER, **up_to_date(version=4, landing=(file("a.json"),)))
    assert [str(table.table) for table in found.tables] == ["silver.orders"]
    assert of(found, "silver.orders").after == ()
    assert build_of(found, "silver.orders").mode == "changes"


@pytest.mark.parametrize("selected", [None, ("silver.orders", "gold.daily")])
def test_tables_over_an_empty_landing_zone_wait_without_an_error(selected: tuple[str, ...] | None) -> None:
    found = plan(ORDERS, SILVER, DAILY, landing={"bronze.orders": ()}, selected=selected)
    assert (found.problems, list(found.steps)) == ((), [])
    assert of(found, "silver.orders").reason == "bronze.orders has no rows yet"
    assert of(found, "gold.daily").reason == "silver.orders has no rows yet"


def test_an_empty_landing_folder_is_reported() -> None:
    found = of(plan(ORDERS, landing={"bronze.orders": ()}), "bronze.orders")
    assert found.reason == "nothing has arrived yet (landing/orders/*.json)"


def test_a_problem_stops_only_what_depends_on_it() -> None:
    old = file("a.json")
    other = made("silver.other", "SELECT id FROM bronze.other")
    found = plan(
        ORDERS,
        bronze("other"),
        SILVER,
        DAILY,
        other,
        there={"bronze.orders": facts()},
        progress={"bronze.orders": Progress(head=1, ingested={old.path: old._replace(size=1)})},
        landing={"bronze.orders": (old,), "bronze.other": (file("b.json"),)},
    )
    assert problem(found).code == "file-changed"
    assert of(found, "silver.orders").reason == "waits for bronze.orders, which has a problem"
    assert of(found, "gold.daily").reason == "waits for silver.orders, which has a problem"
    assert {step.table for step in found.steps} == {named("bronze.other"), named("silver.other")}


def test_an_interrupted_batch_is_completed_first() -> None:
    known = up_to_date(version=5)
    known["progress"] = {"silver.orders": replace(read(SILVER, bronze_orders=3), unfinished=4)}
    finish, build = of(plan(ORDERS, SILVER, **known), "silver.orders").steps
    assert finish == Finish(
        table=named("silver.orders"), sequence=4, reason="batch 4 was interrupted before it was finished"
    )
    assert isinstance(build, Build)


def test_an_interrupted_batch_is_not_completed_before_a_full_refresh() -> None:
    known = up_to_date(version=5)
    known["progress"] = {"silver.orders": replace(read(SILVER, bronze_orders=3), unfinished=4)}
    (build,) = of(plan(ORDERS, SILVER, full_refresh=True, **known), "silver.orders").steps
    assert isinstance(build, Build)


def test_an_interrupted_batch_is_completed_without_new_files() -> None:
    old = file("a.json")
    unfinished = Progress(head=2, definition=definition(ORDERS), ingested={old.path: old}, unfinished=2)
    found = plan(
        ORDERS,
        SILVER,
        there={"bronze.orders": facts(3), "silver.orders": facts()},
        progress={"bronze.orders": unfinished, "silver.orders": read(SILVER, bronze_orders=3)},
        landing={"bronze.orders": (old,)},
    )
    table = of(found, "bronze.orders")
    assert (table.status, table.reason) == ("changed", "batch 2 was interrupted before it was finished")
    assert [type(step) for step in table.steps] == [Finish]
    assert of(found, "silver.orders").steps == ()


def test_a_batch_interrupted_under_another_definition_is_a_problem() -> None:
    known = up_to_date()
    made = definition(SILVER)
    known["progress"] = {
        "silver.orders": replace(read(SILVER, bronze_orders=3), unfinished=4, unfinished_definition=made)
    }
    other = replace(SILVER, contract="strict")
    error = problem(plan(ORDERS, other, **known))
    assert (error.code, error.exit_code) == ("unfinished-under-other-definition", 1)
    assert error.hint == (
        "restore silver/orders.sql as it was, run once, then change it; or rebuild it: "
        "lakesmith run silver.orders --full-refresh"
    )
    refreshed = plan(ORDERS, other, full_refresh=True, **known)
    assert [type(step) for step in of(refreshed, "silver.orders").steps] == [Build]


def test_only_selected_tables_have_steps() -> None:
    found = plan(ORDERS, SILVER, landing={"bronze.orders": (file("a.json"),)}, selected=("bronze.orders",))
    assert [str(table.table) for table in found.tables] == ["bronze.orders"]


def test_the_hash_of_a_plan_depends_on_the_facts() -> None:
    one = plan(ORDERS, SILVER, **up_to_date(version=5))
    same = plan(ORDERS, SILVER, **up_to_date(version=5))
    other = plan(ORDERS, SILVER, **up_to_date(version=6))
    assert one.hash == same.hash != other.hash


def test_tables_are_in_topological_order() -> None:
    found = plan(DAILY, SILVER, ORDERS, landing={"bronze.orders": (file("a.json"),)})
    order: list[TableName] = [table.table for table in found.tables]
    assert order == [named("bronze.orders"), named("silver.orders"), named("gold.daily")]


def test_expired_quarantine_rows_are_discarded_in_a_separate_step() -> None:
    expiring = replace(bronze("orders"), quarantine=QuarantinePolicy(discard_after=86400.0 * 30))
    found = plan(
        expiring,
        there={"bronze.orders": facts()},
        progress={"bronze.orders": Progress(head=1)},
        quarantine_expired={"bronze.orders": 4},
    )
    (step,) = of(found, "bronze.orders").steps
    assert isinstance(step, ReplayQuarantine)
    assert (step.replay.discard, step.replay.by, step.replay.chosen.older_than) == (True, "policy", 86400.0 * 30)
    assert step.reason == "4 rows are in quarantine for longer than 30 days"
    assert not of(
        plan(expiring, there={"bronze.orders": facts()}, quarantine_expired={"bronze.orders": 0}), "bronze.orders"
    ).steps


def test_a_table_waits_for_referenced_tables_and_the_plan_names_checks_that_shuffle() -> None:
    customers, rule = bronze("customers"), References(columns=("c",), table=named("bronze.customers"), key=("id",))
    check = Check(name="known", rule=rule, on_fail="quarantine", declared_at=Place("bronze/a.yml"))
    new = (FileFact("x.json", 1, 1),)
    found = plan(replace(bronze("a"), checks=(check,)), customers, landing={"bronze.a": new, "bronze.customers": new})
    assert [str(table.table) for table in found.tables] == ["bronze.customers", "bronze.a"]
    assert (of(found, "bronze.a").after, of(found, "bronze.a").shuffles) == ((named("bronze.customers"),), ("known",))
