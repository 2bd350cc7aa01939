"""`lakesmith plan`."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby

import click

from lakesmith.cli.call import Call, Command, PlanOptions, plan_options
from lakesmith.cli.failures import show_errors
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Cell, Style, Styled, Tree, page, print_json
from lakesmith.plan.explain import ExplainedTable, Symbol, explain, explain_step
from lakesmith.plan.steps import Plan, Step, TablePlan

_SHOWN = 10
"""How many skipped files of a table are shown."""
_STYLES: dict[Symbol, Style] = {"+": "good", "~": "warn", "=": "quiet", "!": "bad"}


@click.command("plan", cls=Command)
@plan_options
def command(call: Call, options: PlanOptions) -> int:
    """Show what a run would do, and why. Needs no Java.

    Shows tables that are new (+), changed (~), unchanged (=) or blocked by a problem (!), with each step and its
    reason. Writes nothing.
    """
    return show_plan(call, call.open().plan(**options))


def show_plan(call: Call, plan: Plan) -> int:
    """Show the plan. Returns the exit code of its worst problem."""
    if call.as_json:
        print_json(
            {
                "lake": plan.lake,
                "environment": plan.environment,
                "hash": plan.hash,
                "tables": [_table_values(table) for table in plan.tables],
                "problems": plan.problems,
            }
        )
    else:
        page().tree(_tree(plan))
        show_errors(plan.problems)
    return max((problem.exit_code for problem in plan.problems), default=0)


def _table_values(table: TablePlan) -> dict[str, object]:
    return {
        "table": table.table,
        "status": table.status,
        "reason": table.reason,
        "after": table.after,
        "shuffles": table.shuffles,
        "skipped": table.skipped,
        "steps": [_step_values(step) for step in table.steps],
    }


def _step_values(step: Step) -> dict[str, object]:
    explained = explain_step(step)
    values = {field.name: getattr(step, field.name) for field in fields(step)}
    return {"step": explained.step, "what": explained.what, **values}


def _tree(plan: Plan) -> Tree:
    busy = sum(1 for table in plan.tables if table.steps)
    todo = f"{plural(busy, 'table')} to bring up to date" if busy else "nothing to do"
    layers = groupby(explain(plan), key=lambda table: table.layer)
    return Tree(
        label=(
            Styled(plan.lake, "strong"),
            f" ({plan.environment}): {todo}, {len(plan.tables) - busy:,} unchanged",
        ),
        branches=tuple(
            Tree(label=(Styled(layer, "strong"),), branches=tuple(_table(table) for table in tables))
            for layer, tables in layers
        ),
    )


def _table(table: ExplainedTable) -> Tree:
    named: Cell = Styled(f"{table.symbol} {table.table}", _STYLES[table.symbol])
    steps: list[Tree] = []
    for step in table.steps:
        why = (Tree(label=(Styled(f"because {step.cost_reason}", "quiet"),)),) if step.cost_reason else ()
        steps.append(Tree(label=(step.what,), branches=why))
    if table.shuffles:
        noun = "the check" if len(table.shuffles) == 1 else "the checks"
        text = (
            f"{noun} {', '.join(table.shuffles)} shuffle rows"
            if len(table.shuffles) > 1
            else f"{noun} {table.shuffles[0]} shuffles rows"
        )
        steps.append(Tree(label=(Styled(text, "quiet"),)))
    for entry in table.skipped[:_SHOWN]:
        steps.append(Tree(label=(Styled("skips ", "warn"), f"{entry.path}: {entry.why}")))
    if len(table.skipped) > _SHOWN:
        steps.append(Tree(label=(Styled(f"skips {len(table.skipped) - _SHOWN:,} more; --json lists them", "warn"),)))
    return Tree(label=(named, Styled(f"  {table.reason}", "quiet")), branches=tuple(steps))
