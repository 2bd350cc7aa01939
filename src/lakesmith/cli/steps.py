"""Shows the steps of a run, in `run` and in `history --run`."""

from __future__ import annotations

from collections.abc import Sequence

from lakesmith.cli.formatting import count, duration, plural
from lakesmith.cli.output import Cell, Grid, Page, Style, Styled
from lakesmith.records import Outcome, StepRecord

_OUTCOMES: dict[Outcome, Style] = {"ok": "good", "failed": "bad", "skipped": "quiet", "interrupted": "warn"}

TITLES = ("table", "step", "outcome", "in", "written", "quarantined", "deduplicated", "version", "time")
NUMBERS = frozenset({"in", "written", "quarantined", "deduplicated", "version", "time"})


def outcome_cell(outcome: Outcome) -> Styled:
    return Styled(outcome, _OUTCOMES[outcome])


def step_cells(step: StepRecord) -> tuple[Cell, ...]:
    return (
        step.table,
        step.step if step.step == step.mode else f"{step.step} {step.mode}",
        outcome_cell(step.outcome),
        count(step.rows_in),
        count(step.rows_written),
        Styled(count(step.rows_quarantined), "warn" if step.rows_quarantined else ""),
        count(step.rows_deduplicated),
        count(step.version),
        duration(step.seconds),
    )


def show_steps(out: Page, steps: Sequence[StepRecord]) -> None:
    """Show one row for each step: in = written + quarantined + deduplicated."""
    out.grid(Grid(titles=TITLES, rows=tuple(step_cells(step) for step in steps), right=NUMBERS))
    for step in steps:
        if step.error:
            out.line(Styled(f"{step.table}: ", "bad"), step.error)
        if step.rows_rescued:
            text = f"{step.table}: fields of {plural(step.rows_rescued, 'row')} did not fit and are in _rescued"
            out.line(Styled("rescued: ", "warn"), text)
        if step.columns_added:
            out.line(Styled("new columns: ", "warn"), f"{step.table}: {step.columns_added}")
        if step.columns_widened:
            out.line(Styled("widened columns: ", "warn"), f"{step.table}: {step.columns_widened}")
