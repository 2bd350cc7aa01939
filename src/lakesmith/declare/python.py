"""Python declarations: decorators and constructors that only record their arguments and their place.

Nothing is validated here. `lakesmith.load` turns the arguments into the same nodes as YAML, so the same rules and
errors apply. A constructor's parameters are the keys of YAML, so it records `locals()`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

from lakesmith.declare.checks import Severity
from lakesmith.declare.contract import Contract
from lakesmith.declare.names import Layer
from lakesmith.declare.sources import Envelope, FileFormat, Incompatible, Listing, Starting, Symlinks, TableKind, Values
from lakesmith.errors import Place

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Keys with values as in YAML, and where they were written."""

    keys: Mapping[str, object]
    name: str | None = None
    """For columns and checks, their name."""
    at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A parameter's default: the table whose rows the function receives."""

    table: str
    at: Place = field(compare=False)


@dataclass(slots=True, kw_only=True)
class WrittenTable:
    """A table declared in a Python file. Used as a decorator, it records the function."""

    layer: str
    name: str | None
    keys: Mapping[str, object]
    rowwise: bool
    at: Place
    function: Callable[..., object] | None = None

    def __call__(self, function: F) -> F:
        self.function = function
        return function


_collected: ContextVar[list[WrittenTable] | None] = ContextVar("collected", default=None)
_placed: ContextVar[Place | None] = ContextVar("placed", default=None)


@contextmanager
def placed_at(place: Place) -> Iterator[None]:
    """Make constructors record this place instead of their caller's: for calls that are parsed, not run."""
    token = _placed.set(place)
    try:
        yield
    finally:
        _placed.reset(token)


@contextmanager
def collecting() -> Iterator[list[WrittenTable]]:
    """Collect the tables declared inside the context, in order."""
    tables: list[WrittenTable] = []
    token = _collected.set(tables)
    try:
        yield tables
    finally:
        _collected.reset(token)


def table(
    name: str | None = None,
    *,
    layer: Layer,
    source: Written | None = None,
    load: Written | Literal["append", "replace"] | None = None,
    contract: Contract | Mapping[str, object] | None = None,
    columns: Sequence[Written] | Mapping[str, object] | None = None,
    checks: Sequence[Written] | Mapping[str, object] | None = None,
    quarantine: Mapping[str, object] | None = None,
    owner: str | None = None,
    description: str | None = None,
    tags: Sequence[str] | None = None,
    freshness: str | None = None,
    enabled: bool | None = None,
    rowwise: bool = False,
) -> WrittenTable:
    """Declare a table. With a source it is complete; without, it decorates the function that returns its rows.

    The table has the function's name unless `name` is given.
    """
    arguments = dict(locals())
    for other in ("name", "layer", "rowwise"):
        del arguments[other]
    keys = {key: value for key, value in arguments.items() if value is not None}
    written = WrittenTable(layer=layer, name=name, keys=keys, rowwise=rowwise, at=_caller())
    tables = _collected.get()
    if tables is not None:
        tables.append(written)
    return written


bronze = partial(table, layer="bronze")
silver = partial(table, layer="silver")
gold = partial(table, layer="gold")


def ref(name: str) -> Any:
    """Return a parameter's default: the table `layer.table`, whose rows the function receives."""
    return Ref(table=name, at=_caller())


def files(
    files: str,
    *,
    format: FileFormat | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    timezone: str | None = None,
    row_tag: str | None = None,
    max_files: int | None = None,
    max_bytes: int | None = None,
    archive: str | None = None,
    listing: Listing | None = None,
    symlinks: Symlinks | None = None,
    envelope: Envelope | None = None,
) -> Written:
    """Files that arrive in a landing zone, each read exactly once."""
    return Written(keys=dict(locals()), at=_caller())


def kafka(
    topic: str,
    *,
    connection: str,
    values: Values | None = None,
    subject: str | None = None,
    starting: Starting | None = None,
    incompatible: Incompatible | None = None,
    max_rows: int | None = None,
    timezone: str | None = None,
    envelope: Envelope | None = None,
) -> Written:
    """A topic. Each record is read exactly once."""
    options = dict(locals())
    return Written(keys={"kafka": options.pop("topic"), **options}, at=_caller())


def jdbc(
    table: str,
    *,
    connection: str,
    watermark: str | None = None,
    overlap: str | None = None,
    partition_by: str | None = None,
    partitions: int | None = None,
) -> Written:
    """A table of a database: all of it each time, or the new rows by a watermark column."""
    options = dict(locals())
    return Written(keys={"jdbc": options.pop("table"), **options}, at=_caller())


def other_table(location: str, *, format: TableKind | None = None) -> Written:
    """A table of another lake, whose new versions are copied."""
    return Written(keys={"table": location, "format": format}, at=_caller())


def adopt(location: str) -> Written:
    """A Delta table that is used in place."""
    return Written(keys={"adopt": location}, at=_caller())


def append(
    *, dedup: str | Sequence[str] | None = None, by: str | None = None, within: str | None = None
) -> Written | Literal["append"]:
    """Every new row of the input is added, once; with `dedup`, one of several duplicates."""
    keys = dict(locals())
    if all(value is None for value in keys.values()):
        return "append"
    return _load("append", keys, _caller())


def replace() -> Literal["replace"]:
    """The whole table is rebuilt and replaced in one commit."""
    return "replace"


def merge(
    *,
    key: str | Sequence[str],
    order_by: str | Sequence[str] | None = None,
    delete: str | None = None,
    soft_delete: str | None = None,
    update: str | Sequence[str] | None = None,
) -> Written:
    """One row per key, the latest by `order_by`."""
    return _load("merge", dict(locals()), _caller())


def scd2(
    *,
    key: str | Sequence[str],
    order_by: str | Sequence[str],
    delete: str | None = None,
    track: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
) -> Written:
    """Every version of a key, with the time from which and until which it was valid."""
    return _load("scd2", dict(locals()), _caller())


def changes(
    *,
    key: str | Sequence[str],
    order_by: str | Sequence[str],
    op: str,
    amounts: str | Sequence[str] | None = None,
    previous_key: Mapping[str, str] | None = None,
) -> Written:
    """The current state after applying a stream of changes from another database."""
    return _load("changes", dict(locals()), _caller())


def snapshot(
    *,
    key: str | Sequence[str],
    taken: str,
    into: Literal["merge", "scd2"] | None = None,
    track: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    max_shrink: float | str | None = None,
) -> Written:
    """Full extracts, each compared with the one before."""
    return _load("snapshot", dict(locals()), _caller())


def replace_partitions(by: str, *, same_as: str | None = None) -> Written:
    """Only the partitions that the input's changes affect are rebuilt."""
    return _load("replace_partitions", dict(locals()), _caller())


def column(
    name: str,
    type: str | None = None,
    *,
    required: bool | None = None,
    check: str | None = None,
    key: bool | None = None,
    unique: bool | None = None,
    tags: Sequence[str] | None = None,
    description: str | None = None,
    since: str | None = None,
    deprecated: str | None = None,
    currency: str | None = None,
    timezone: str | None = None,
) -> Written:
    """The contract of one column."""
    keys = dict(locals())
    return Written(name=keys.pop("name"), keys=keys, at=_caller())


def check(
    name: str,
    rule: Mapping[str, object] | None = None,
    *,
    where: str | None = None,
    expect: str | None = None,
    on_fail: Severity | None = None,
    fail_above: float | str | None = None,
    owner: str | None = None,
    description: str | None = None,
) -> Written:
    """A rule with a severity: `where` for each row, `expect` for the whole batch, or one of the others as `rule`:
    `{"range": {"column": "amount", "min": 0}}`."""
    keys = dict(locals())
    del keys["name"], keys["rule"]
    return Written(name=name, keys={**(rule or {}), **keys}, at=_caller())


def _load(word: str, keys: Mapping[str, object], at: Place) -> Written:
    return Written(keys={word: Written(keys=keys, at=at)}, at=at)


def _caller() -> Place:
    if (place := _placed.get()) is not None:
        return place
    frame = sys._getframe(2)
    return Place(frame.f_code.co_filename, frame.f_lineno)
