"""Options of every command: lake, environment and variables. They may stand before or after the command."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from lakesmith.cli.failures import show_failure
from lakesmith.declare.names import LAYERS
from lakesmith.errors import LakesmithError, UsageError

if TYPE_CHECKING:
    from lakesmith.lake import Lake
    from lakesmith.reports import Validation

LAKE_FILE = "lakesmith.yml"
_ENVIRONMENT = "lakesmith.environment"
"""The environment of the lake that a command has opened: its secrets are masked in errors."""
CHUNK = 7

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The options that all commands share."""

    folder: str | None = None
    environment: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> Lake:
        folder = self.lake_folder()
        # Not needed for `--help`, so not loaded for it.
        from lakesmith.lake import Lake

        lake = Lake.open(folder, environment=self.environment, variables=self.variables)
        if context := click.get_current_context(silent=True):
            context.meta[_ENVIRONMENT] = lake.declaration.environment
        return lake

    def review(self) -> Validation:
        """Validate the lake without running its Python files."""
        folder = self.lake_folder()
        from lakesmith.lake import Lake

        return Lake.review(folder, environment=self.environment, variables=self.variables)

    def table_names(self) -> list[str]:
        """The lake's tables, without running its Python files."""
        folder = self.lake_folder()
        from lakesmith.load import load_lake

        found = load_lake(folder, environment=self.environment, variables=self.variables, run_python=False)
        return [str(name) for name in (*found.tables, *found.unrun.tables)]

    def lake_folder(self) -> Path:
        """The folder given with --lake, or the nearest lake in this folder or above."""
        if self.folder is not None:
            named = Path(self.folder)
            named = named.parent if named.name == LAKE_FILE else named
            if os.path.isfile(named / LAKE_FILE):
                return named
            raise UsageError(
                "no-lake", f"there is no {LAKE_FILE} in {self.folder}", hint=f"lakesmith init {self.folder}"
            )
        here = Path.cwd()
        for folder in (here, *here.parents):
            if os.path.isfile(folder / LAKE_FILE):
                return folder
        raise UsageError(
            "no-lake",
            f"there is no {LAKE_FILE} in this folder or above it",
            hint="pass --lake PATH, or create a lake with `lakesmith init PATH`",
        )


class Command(click.Command):
    """A command that takes the lake's options, returns its exit code, and shows errors as text or JSON."""

    def __init__(self, *args: Any, needs_lake: bool = True, **extra: Any) -> None:
        super().__init__(*args, **extra)
        if needs_lake:
            self.params.extend(_lake_parameters())

    def invoke(self, ctx: click.Context) -> None:
        as_json = bool(ctx.params.get("as_json")) or ctx.params.get("format") == "json"
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BaseException as error:  # noqa: BLE001 - every failure becomes a message and an exit code
            code = show_failure(error, as_json=as_json, environment=ctx.meta.get(_ENVIRONMENT))
        ctx.exit(code or 0)


def lake_options(function: Decorated) -> Decorated:
    """The shared options as a decorator, for the group."""
    for parameter in reversed(_lake_parameters()):
        function.__dict__.setdefault("__click_params__", []).append(parameter)
    return function


def _lake_parameters() -> list[click.Parameter]:
    return [
        click.Option(
            ["--lake", "-C"],
            metavar="PATH",
            expose_value=False,
            callback=_take_folder,
            help="The lake's folder [default: this folder or the nearest above that has a lakesmith.yml].",
        ),
        click.Option(
            ["--env", "-e"],
            metavar="NAME",
            expose_value=False,
            callback=_take_environment,
            help="The environment.",
        ),
        click.Option(
            ["--var"],
            metavar="NAME=VALUE",
            multiple=True,
            expose_value=False,
            callback=_take_variables,
            help="Set a variable; may be repeated.",
        ),
    ]


def _take_folder(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj = replace(ctx.obj, folder=value)


def _take_environment(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj = replace(ctx.obj, environment=value)


def _take_variables(ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> None:
    variables = dict(ctx.obj.variables)
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{value}' is not NAME=VALUE", ctx, _parameter)
        variables[name] = text
    ctx.obj = replace(ctx.obj, variables=variables)


def backfill_options(function: Decorated) -> Decorated:
    """`--from`, `--to` and `--chunk`; the command gets `days` and `chunk`."""
    day = click.DateTime(["%Y-%m-%d"])

    @functools.wraps(function)
    def command(*arguments: object, start: datetime | None, end: datetime | None, **others: object) -> object:
        return function(*arguments, days=_backfill_days(start, end), **others)

    options = (
        click.option("--from", "start", type=day, metavar="DAY", help="Backfill from this day on."),
        click.option("--to", "end", type=day, metavar="DAY", help="The last day of the backfill."),
        click.option(
            "--chunk",
            type=click.IntRange(1),
            metavar="DAYS",
            default=CHUNK,
            show_default=True,
            help="Days of a backfill in one commit.",
        ),
    )
    return cast(Decorated, with_options(command, options))


def with_options(command: Callable[..., object], options: Sequence[Callable[..., Any]]) -> Callable[..., object]:
    """Add options to a command, shown in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def _backfill_days(start: datetime | None, end: datetime | None) -> tuple[date, date] | None:
    """The first and last day of a backfill; None without one."""
    if start is None and end is None:
        return None
    if start is None or end is None:
        given, other = ("--to", "--from") if start is None else ("--from", "--to")
        raise UsageError(
            "invalid-days", f"{given} needs {other} too", hint="a backfill needs its first and its last day"
        )
    return start.date(), end.date()


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def complete_tables(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The lake's tables, for shell completion; none when the lake cannot be read.

    Pressing Tab in a folder must not run code from it.
    """
    try:
        names = ctx.obj.table_names()
    except LakesmithError:
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _complete_selectors(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    plus = "+" if incomplete.startswith("+") else ""
    word = incomplete.removeprefix("+")
    layers = [f"layer:{layer}" for layer in LAYERS if f"layer:{layer}".startswith(word)]
    tables = complete_tables(ctx, _parameter, word)
    return [CompletionItem(plus + str(name)) for name in (*(item.value for item in tables), *layers)]


def selection(function: Decorated) -> Decorated:
    """Selectors as arguments or with `--select`, and `--exclude`; the command gets `select` and `exclude`."""

    @functools.wraps(function)
    def command(*arguments: object, selectors: tuple[str, ...], selected: tuple[str, ...], **others: object) -> object:
        return function(*arguments, select=(*selectors, *selected), **others)

    option = functools.partial(click.option, metavar="SELECTOR", multiple=True, shell_complete=_complete_selectors)
    select = "Select tables: orders, +orders, orders+2, tag:daily, layer:silver; a comma means 'and'."
    options = (
        click.argument("selectors", nargs=-1, metavar="[SELECTOR]...", shell_complete=_complete_selectors),
        option("--select", "-s", "selected", help=select),
        option("--exclude", help="Exclude these tables."),
    )
    return cast(Decorated, with_options(command, options))
