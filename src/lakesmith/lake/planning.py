"""Validate a lake, plan a run, show lineage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from lakesmith.contracts import dropped_versions
from lakesmith.declare import LAYERS, TableName
from lakesmith.errors import DataError, InfrastructureError, UsageError, raise_all
from lakesmith.lake.contracts import undeclared_tables
from lakesmith.lake.declarations import check_against, check_declarations, column_names
from lakesmith.lake.facts import read_facts
from lakesmith.lake.open_lake import OpenLake, today
from lakesmith.load import load_lake, load_tests
from lakesmith.plan import lineage as plan_lineage
from lakesmith.plan.capabilities import unsupported_step
from lakesmith.plan.planner import make_plan
from lakesmith.plan.select import select as choose
from lakesmith.plan.select import select_matching
from lakesmith.plan.steps import Backfill, LakeFacts, Plan, Span
from lakesmith.plan.tests import check_tests
from lakesmith.ports import SkippedEntry
from lakesmith.reports import Lineage, Validation


def _backfill(days: tuple[date, date] | None, chunk: int) -> Backfill | None:
    if days is None:
        return None
    start, end = days
    if start > end:
        raise UsageError(
            "invalid-days", f"the backfill starts on {start}, after its end on {end}", hint="swap --from and --to"
        )
    return Backfill(span=Span(start=start, end=end), days=chunk)


def validate(lake: OpenLake) -> Validation:
    """Check tables, contracts and unit tests without moving a row."""
    facts = read_facts(lake, remote=False)
    check_declarations(lake, facts)
    _check_tests(lake, facts)
    lake.save_queries()
    return replace(
        _validation(lake),
        warnings=(*dropped_versions(lake.compatibility_verdicts().values(), today()), *undeclared_tables(lake)),
    )


def review(
    path: str | Path = ".", *, environment: str | None = None, variables: Mapping[str, str] | None = None
) -> Validation:
    """Validate an untrusted lake: run none of its code, and read nothing outside its folder.

    Python files are only parsed; what they compute at run time is not checked.
    """
    lake = OpenLake.of(load_lake(path, environment=environment, variables=variables, run_python=False))
    check_against(lake, LakeFacts(), {})
    _check_tests(lake, LakeFacts())
    unrun = lake.declaration.unrun
    computed = [f"{name}, whose declaration is computed ({at})" for name, at in unrun.tables.items()]
    layers = [f"whether {layer} has more tables" for layer in LAYERS if layer in unrun.layers]
    return replace(
        _validation(lake),
        not_run=unrun.files,
        not_checked=(
            *(("whether the Python files load",) if unrun.files else ()),
            *computed,
            *layers,
            "stored tables and recorded contracts",
        ),
    )


def _check_tests(lake: OpenLake, facts: LakeFacts) -> None:
    if every := load_tests(lake.declaration.path, lake.tables, lake.declaration.unrun):
        raise_all(check_tests(every, lake.tables, lake.graph, column_names(lake, facts)))


def _validation(lake: OpenLake) -> Validation:
    layers = Counter(name.layer for name in lake.tables)
    return Validation(
        lake=lake.name,
        environment=lake.environment,
        tables=len(lake.tables),
        by_layer={layer: layers[layer] for layer in LAYERS if layer in layers},
        checks=sum(
            len(t.checks) + sum(bool(c.check) + c.required + c.unique for c in t.columns) for t in lake.tables.values()
        ),
    )


def plan(
    lake: OpenLake,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    full_refresh: bool = False,
    days: tuple[date, date] | None = None,
    chunk: int = 7,
) -> Plan:
    """What a run would do now, and why. `days` plans a backfill of these days, `chunk` days a commit."""
    return plan_with_facts(lake, select, exclude, full_refresh=full_refresh, days=days, chunk=chunk)[0]


def plan_with_facts(
    lake: OpenLake,
    select: Sequence[str],
    exclude: Sequence[str],
    *,
    full_refresh: bool,
    days: tuple[date, date] | None,
    chunk: int,
) -> tuple[Plan, LakeFacts]:
    """The plan of a run, and the facts that it was made from."""
    backfill = _backfill(days, chunk)
    selected = choose(lake.graph, lake.tables, select, exclude)
    backfilled = _backfilled_tables(lake, select, backfill, full_refresh=full_refresh) & selected
    facts = read_facts(lake)
    check_declarations(lake, facts)
    plan = make_plan(
        lake.declaration,
        lake.graph,
        replace(facts, skipped=_unreported(lake, facts)),
        selected=selected,
        full_refresh=full_refresh,
        backfill=backfill,
        backfilled=backfilled,
    )
    lake.save_queries()
    refuse_unsupported_steps(lake, plan)
    return plan, facts


def refuse_unsupported_steps(lake: OpenLake, plan: Plan) -> None:
    """Raise when the table format cannot execute a step of the plan."""
    format = lake.format
    errors = (unsupported_step(lake.tables[step.table], step, format.name, format.capabilities) for step in plan.steps)
    raise_all([error for error in errors if error])


def _unreported(lake: OpenLake, facts: LakeFacts) -> Mapping[TableName, tuple[SkippedEntry, ...]]:
    """The skipped entries of landing folders that no run has reported yet."""
    if not facts.skipped:
        return {}
    try:
        return lake.reported_entries.without(facts.skipped, lake.format.facts(lake.warehouse.system("skipped"), ""))
    except (DataError, InfrastructureError):
        return facts.skipped  # a plan does not need the ledger; a run that cannot write to it reports the error


def _backfilled_tables(
    lake: OpenLake, select: Sequence[str], backfill: Backfill | None, *, full_refresh: bool
) -> frozenset[TableName]:
    if backfill is None:
        return frozenset()
    if full_refresh:
        raise UsageError(
            "conflicting-options",
            "a full refresh and a backfill exclude each other",
            hint="a full refresh recomputes all days",
        )
    if not select:
        raise UsageError(
            "no-selection",
            "a backfill needs the names of its tables",
            hint=f"lakesmith run TABLE --from {backfill.span.start} --to {backfill.span.end}",
        )
    return select_matching(lake.graph, lake.tables, select)


def table_lineage(lake: OpenLake, table: str | None = None) -> Lineage:
    """Where a table's rows come from and where they go."""
    name = lake.table_name(table) if table else None
    return plan_lineage.lineage(lake.graph, lake.tables, name, column_names(lake, read_facts(lake, remote=False)))
