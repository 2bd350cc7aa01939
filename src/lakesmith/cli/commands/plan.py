"""`lakesmith plan`."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby, starmap

import click

from lakesmith.cli.call import Call, Command, PlanOptions, plan_options
from lakesmith.cli.failures import show_errors
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Style, Styled, Tree, page, print_json
from lakesmith.plan.explain import Symbol, describe, explain
from lakesmith.plan.steps import Build, Plan, Step, TablePlan

_SHOWN = 10
"""How many skipped files of a table are shown."""
_STYLES: dict[Symbol, Style] = {"+": "good", "~": "warn", "=": "quiet", "!": "bad"}


@click.command("plan", cls=Command)
@plan_options
def plan(call: Call, options: PlanOptions) -> int:
    """Show what a run would do, and why. Needs no Java.

    Shows tables that are new (+), changed (~), unchanged (=) or blocked by a problem (!), with each step and its
    reason. Writes nothing.
    """
    return show_plan(call, call.open().plan(**options))


def show_plan(call: Call, plan: Plan) -> int:
    """Show the plan. Returns the exit code of its worst problem."""
    if call.as_json:
        tables = [_table_values(table) for table in plan.tables]
        values = {name: getattr(plan, name) for name in ("lake", "environment", "hash")}
        print_json({**values, "tables": tables, "problems": plan.problems})
    else:
        page().tree(_tree(plan))
        show_errors(plan.problems)
    return max((problem.exit_code for problem in plan.problems), default=0)


def _table_values(table: TablePlan) -> dict[str, object]:
    values = {name: getattr(table, name) for name in ("table", "status", "reason", "after", "shuffles", "skipped")}
    return {**values, "steps": [_step_values(step) for step in table.steps]}


def _step_values(step: Step) -> dict[str, object]:
    values = {field.name: getattr(step, field.name) for field in fields(step)}
    return {"step": step.name, "what": describe(step), **values}


def _tree(plan: Plan) -> Tree:
    busy = sum(1 for table in plan.tables if table.steps)
    todo = f"{plural(busy, 'table')} to bring up to date" if busy else "nothing to do"
    label = f" ({plan.environment}): {todo}, {len(plan.tables) - busy:,} unchanged"
    layers = groupby(explain(plan), key=lambda explained: explained[1].table.layer)
    branches = tuple(
        Tree(label=(Styled(layer, "strong"),), branches=tuple(starmap(_table, tables))) for layer, tables in layers
    )
    return Tree(label=(Styled(plan.lake, "strong"), label), branches=branches)


def _table(symbol: Symbol, table: TablePlan) -> Tree:
    lines: list[Tree] = []
    for step in table.steps:
        reason = step.cost_reason if isinstance(step, Build) else None
        because = (Tree(label=(Styled(f"because {reason}", "quiet"),)),) if reason else ()
        lines.append(Tree(label=(describe(step),), branches=because))
    if table.shuffles:
        names = ", ".join(table.shuffles)
        text = f"the check {names} shuffles rows" if len(table.shuffles) == 1 else f"the checks {names} shuffle rows"
        lines.append(Tree(label=(Styled(text, "quiet"),)))
    for entry in table.skipped[:_SHOWN]:
        lines.append(Tree(label=(Styled("skips ", "warn"), f"{entry.path}: {entry.why}")))
    if len(table.skipped) > _SHOWN:
        lines.append(Tree(label=(Styled(f"skips {len(table.skipped) - _SHOWN:,} more; --json lists them", "warn"),)))
    name = Styled(f"{symbol} {table.table}", _STYLES[symbol])
    return Tree(label=(name, Styled(f"  {table.reason}", "quiet")), branches=tuple(lines))
