"""`lakesmith profile`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, table_argument
from lakesmith.cli.formatting import count, plural
from lakesmith.cli.output import Cell, Columns, Grid, Page, Styled, page, print_json, value_text
from lakesmith.errors import UsageError
from lakesmith.reports import ColumnProfile, TableProfile

ROWS = 1_000_000
_WIDE = 24
_SHOWN = 3
_NOTHING = Styled("–", "quiet")
_COLUMNS: Columns[ColumnProfile] = {
    "column": lambda column: column.column,
    "type": lambda column: column.type,
    "empty": lambda column: f"{column.null_rate:.1%}",
    "distinct": lambda column: _distinct(column),
    "unique": lambda column: "yes" if column.unique else "no",
    "length": lambda column: _length(column),
    "pattern": lambda column: column.pattern or _NOTHING,
    "frequent": lambda column: _frequent_values(column),
}
_VALUES: Columns[ColumnProfile] = {
    "column": lambda column: column.column,
    "min": lambda column: _cut(value_text(column.min)),
    "5%": lambda column: _number(column.quantiles.get("0.05")),
    "25%": lambda column: _number(column.quantiles.get("0.25")),
    "median": lambda column: _number(column.quantiles.get("0.5")),
    "75%": lambda column: _number(column.quantiles.get("0.75")),
    "95%": lambda column: _number(column.quantiles.get("0.95")),
    "max": lambda column: _cut(value_text(column.max)),
    "mean": lambda column: _number(column.mean),
}


@click.command("profile", cls=Command)
@table_argument
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=ROWS,
    show_default=True,
    help="Sample this many rows of a larger table.",
)
@click.option("--yaml", "as_yaml", is_flag=True, help="Print only the proposals, as YAML to paste.")
def profile(call: Call, table: str, rows: int, as_yaml: bool) -> None:
    """Propose checks from a table's values. Needs no Java.

    Each proposal holds for the profiled rows and states its reason. Values of columns with a private tag, such as
    pii, are masked.
    """
    if as_yaml and call.as_json:
        raise UsageError(
            "conflicting-options", "--yaml and --json exclude each other", hint="the JSON contains the YAML"
        )
    profile = call.open().profile(table, rows=rows)
    if call.as_json:
        print_json(profile)
    elif as_yaml:
        click.echo(profile.yaml, nl=False)
    else:
        _show(page(), profile)


def _show(out: Page, profile: TableProfile) -> None:
    out.line(Styled(profile.table, "strong"), f" (version {profile.version}), {plural(profile.rows, 'row')}")
    if profile.profiled_rows < profile.rows:
        out.line(Styled(f"profiled a random sample of {plural(profile.profiled_rows, 'row')}", "warn"))
    out.line()
    out.grid(Grid.of(profile.columns, _COLUMNS, right=("empty", "distinct")))
    measured = [column for column in profile.columns if column.min is not None]
    if measured:
        out.line()
        out.grid(Grid.of(measured, _VALUES, right=_VALUES.keys() - {"column"}))
    if not profile.proposals:
        out.line("nothing to propose")
        return
    out.line()
    out.line(Styled("Proposed", "strong"), "; review it, then paste it into the declaration")
    out.line()
    for line in profile.yaml.splitlines():
        out.line(Styled(line, "quiet") if line.lstrip().startswith("#") else line)


def _distinct(column: ColumnProfile) -> str:
    about = "" if column.counted or column.distinct is None else "~"
    return f"{about}{count(column.distinct)}"


def _frequent_values(column: ColumnProfile) -> Cell:
    if column.masked:
        return Styled("masked", "quiet")
    frequent = [_frequent(each.value, each.rows) for each in column.frequent[:_SHOWN]]
    return ", ".join(frequent) or _NOTHING


def _frequent(value: object, rows: int | None) -> str:
    text = _cut(value_text(value))
    return text if rows is None else f"{text} ({count(rows)})"


def _length(column: ColumnProfile) -> Cell:
    if column.shortest is None or column.longest is None:
        return _NOTHING
    return str(column.longest) if column.shortest == column.longest else f"{column.shortest} to {column.longest}"


def _number(value: float | None) -> Cell:
    return _NOTHING if value is None else f"{value:.6g}"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"
