"""Turns errors into messages and exit codes. Only a bug in Lakesmith shows a traceback."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Self

import click

from lakesmith.declare import Environment
from lakesmith.errors import LakesmithError, legible

USAGE = 2
BUG = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Everything that cleans up after Ctrl-C cleans up after this too."""


def exit_code_of(call: Callable[[], object]) -> int:
    """Run the command. Shows click's usage errors; a command shows its own errors."""
    try:
        code = call()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return show_failure(KeyboardInterrupt(), as_json=False)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        click.echo(legible(text.getvalue()), nl=False, err=True)
        return USAGE
    return code if isinstance(code, int) else 0


def show_failure(error: BaseException, *, as_json: bool, environment: Environment | None = None) -> int:
    """Show the error as text on stderr or as JSON on stdout, without the environment's secrets. Returns the exit
    code."""
    match error:
        case BrokenPipeError():
            # The reader closed the pipe. Buffered output must not fail again when Python exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        case Terminated():
            click.echo("terminated; nothing is lost, run again to continue", err=True)
            return TERMINATED
        case KeyboardInterrupt():
            click.echo("interrupted; nothing is lost, run again to continue", err=True)
            return INTERRUPTED
        case LakesmithError():
            if environment is not None:
                environment.mask(error)
            show_errors(error.errors, as_json=as_json)
            return error.exit_code
        case Exception():
            what = f"this is a bug in Lakesmith: {type(error).__name__}: {error}"
            trace = "".join(traceback.format_exception(error))
            if environment is not None:
                what, trace = environment.masked(what), environment.masked(trace)
            if as_json:
                show_errors((LakesmithError("bug", what),), as_json=True)
            click.echo(f"{what}; please report it with the traceback below\n{trace}", nl=False, err=True)
            return BUG
        case _:
            raise error


def show_errors(errors: tuple[LakesmithError, ...], *, as_json: bool = False) -> None:
    if as_json:
        from lakesmith.cli.output import print_json

        print_json({"errors": errors})
    else:
        for error in errors:
            click.echo(str(error), err=True)


class Termination:
    """A context in which SIGTERM interrupts like Ctrl-C. Remembers whether one arrived."""

    received = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(self, *raised: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        raise Terminated


class StopOnSignal:
    """A context in which the first SIGTERM or Ctrl-C sets `stop`. A second Ctrl-C interrupts at once."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._request_stop) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        if self._stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._stop.set()
        click.echo("stopping after the current run", err=True)


def tolerate_narrow_encodings() -> None:
    """A terminal that cannot print a character gets a question mark, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
