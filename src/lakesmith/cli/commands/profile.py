"""`lakesmith profile`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.formatting import count, plural
from lakesmith.cli.output import Cell, Grid, Page, Styled, page, print_json, value_text
from lakesmith.errors import UsageError
from lakesmith.reports import ColumnProfile, TableProfile

ROWS = 1_000_000
_WIDE = 24
_SHOWN = 3
_NOTHING = Styled("–", "quiet")
_MASKED = Styled("masked", "quiet")


@click.command("profile", cls=Command)
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=ROWS,
    show_default=True,
    help="Sample this many rows of a larger table.",
)
@click.option("--yaml", "as_yaml", is_flag=True, help="Print only the proposals, as YAML to paste.")
@json_option
@click.pass_obj
def command(call: Call, table: str, rows: int, as_yaml: bool, as_json: bool) -> None:
    """Propose checks from a table's values. Needs no Java.

    Each proposal holds for the profiled rows and states its reason. Values of columns with a private tag, such as
    pii, are masked.
    """
    if as_yaml and as_json:
        raise UsageError(
            "conflicting-options", "--yaml and --json exclude each other", hint="the JSON contains the YAML"
        )
    found = call.open().profile(table, rows=rows)
    if as_json:
        print_json(found)
    elif as_yaml:
        click.echo(found.yaml, nl=False)
    else:
        _show(page(), found)


def _show(out: Page, found: TableProfile) -> None:
    out.line(Styled(found.table, "strong"), f" (version {found.version}), {plural(found.rows, 'row')}")
    if found.profiled_rows < found.rows:
        out.line(Styled(f"profiled a random sample of {plural(found.profiled_rows, 'row')}", "warn"))
    out.line()
    _show_columns(out, found.columns)
    measured = [column for column in found.columns if column.min is not None]
    if measured:
        out.line()
        _show_values(out, measured)
    if not found.proposals:
        out.line("nothing to propose")
        return
    out.line()
    out.line(Styled("Proposed", "strong"), "; review it, then paste it into the declaration")
    out.line()
    for line in found.yaml.splitlines():
        out.line(Styled(line, "quiet") if line.lstrip().startswith("#") else line)


def _show_columns(out: Page, columns: tuple[ColumnProfile, ...]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        about = "" if column.counted or column.distinct is None else "~"
        length = _span(column.shortest, column.longest)
        frequent = [_frequent(each.value, each.rows) for each in column.frequent[:_SHOWN]]
        rows.append(
            (
                column.column,
                column.type,
                f"{column.null_rate:.1%}",
                f"{about}{count(column.distinct)}",
                "yes" if column.unique else "no",
                length or _NOTHING,
                column.pattern or _NOTHING,
                _MASKED if column.masked else ", ".join(frequent) or _NOTHING,
            )
        )
    titles = ("column", "type", "empty", "distinct", "unique", "length", "pattern", "frequent")
    out.grid(Grid(titles=titles, rows=tuple(rows), right=frozenset({"empty", "distinct"})))


def _show_values(out: Page, columns: list[ColumnProfile]) -> None:
    quantiles = ("0.05", "0.25", "0.5", "0.75", "0.95")
    rows = [
        (
            column.column,
            _cut(value_text(column.min)),
            *(_number(column.quantiles.get(at)) for at in quantiles),
            _cut(value_text(column.max)),
            _number(column.mean),
        )
        for column in columns
    ]
    titles = ("column", "min", "5%", "25%", "median", "75%", "95%", "max", "mean")
    out.grid(Grid(titles=titles, rows=tuple(rows), right=frozenset(titles) - {"column"}))


def _frequent(value: object, rows: int | None) -> str:
    text = _cut(value_text(value))
    return text if rows is None else f"{text} ({count(rows)})"


def _span(shortest: int | None, longest: int | None) -> str | None:
    if shortest is None or longest is None:
        return None
    return str(longest) if shortest == longest else f"{shortest} to {longest}"


def _number(value: float | None) -> Cell:
    return _NOTHING if value is None else f"{value:.6g}"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"
