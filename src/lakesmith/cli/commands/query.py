"""`lakesmith query`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.formatting import count
from lakesmith.cli.output import Cell, Format, Grid, Styled, page, print_csv, print_json, value_text
from lakesmith.cli.quantities import bytes_of, seconds
from lakesmith.cli.watchdog import Watchdog
from lakesmith.errors import UsageError
from lakesmith.ports import Answer

_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "BIGNUM")


@click.command("query", cls=Command)
@click.argument("sql", required=False)
@click.option("--file", "-f", type=click.Path(path_type=Path), help="Read the SQL from a file.")
@click.option(
    "--at",
    multiple=True,
    metavar="WHEN",
    help="Read an earlier state: a version (3), a time in UTC (2026-11-15T10:00), or one table's (silver.orders=3).",
)
@click.option(
    "--release", metavar="RELEASE", help="Read the tables at the versions of a release; `latest` is the newest."
)
@click.option(
    "--format",
    type=click.Choice(["table", "json", "markdown", "csv"]),
    default="table",
    show_default=True,
    help="The output format.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Maximum number of rows in a printed table; 0 for all. JSON and CSV have all rows.",
)
@click.option(
    "--timeout", metavar="TIME", help="Stop the query after this long, such as 30m [default: 5m, or the environment's]."
)
@click.option(
    "--memory", metavar="SIZE", help="Memory that the query may use, such as 2GB [default: half of the machine's]."
)
def query(
    call: Call,
    sql: str | None,
    file: Path | None,
    at: tuple[str, ...],
    release: str | None,
    format: Format,
    limit: int,
    timeout: str | None,
    memory: str | None,
) -> None:
    """Answer a SELECT over the lake's tables. Needs no Java.

    Write DuckDB SQL, with tables as layer.name. The tables system.* record what Lakesmith did, and quarantine.*
    contain the rejected rows. With `-` as SQL, reads it from standard input.
    """
    shape: Format = "json" if call.as_json else format
    shown = limit or None if shape in ("table", "markdown") else None
    text, lake = _text(sql, file), call.open()
    limits = lake.query_limits(
        timeout=None if timeout is None else seconds(timeout), memory=None if memory is None else bytes_of(memory)
    )
    with Watchdog(limits, as_json=shape == "json"):
        answer = lake.query(text, at=at, release=release, limit=shown, timeout=limits.timeout, memory=limits.memory)
    match shape:
        case "json":
            print_json(answer)
        case "csv":
            print_csv(answer.columns, answer.rows)
        case "table" | "markdown":
            page(shape).grid(_grid(answer))
            if answer.truncated:
                click.echo(f"the first {count(len(answer.rows))} rows are shown; --limit 0 shows all", err=True)


def _text(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise UsageError("no-sql", "pass the SQL, or --file, or - for standard input", hint='"FROM silver.orders"')
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError("unreadable-file", f"{file} cannot be read: {error}") from None
    assert sql is not None
    return sys.stdin.read() if sql == "-" else sql


def _grid(answer: Answer) -> Grid:
    numbers = [any(name in type for name in _NUMBERS) and "(" not in type.split("DECIMAL")[0] for type in answer.types]
    right = {title for title, number in zip(answer.columns, numbers, strict=True) if number}
    return Grid(
        titles=answer.columns,
        rows=tuple(tuple(_cell(value) for value in row) for row in answer.rows),
        right=frozenset(right),
    )


def _cell(value: object) -> Cell:
    return Styled("NULL", "quiet") if value is None else value_text(value)
