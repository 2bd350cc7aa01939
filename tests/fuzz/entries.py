"""Entries of every name and kind among the declarations of a lake, and in a folder that it adopts."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.landing import Entry, Kind, make_entry
from tests.fuzz.model import Case

from lakesmith.errors import LakesmithError
from lakesmith.lake import Lake

DECLARED = {
    "lakesmith.yml": b"name: shop\n",
    "bronze/orders.yml": b"source: {files: landing/orders/*.json}\n",
    "bronze/adopted.yml": b"source: {adopt: adopted}\n",
    "silver/orders.sql": b"SELECT id FROM bronze.orders\n",
    "silver/orders.test.yml": b"one: {given: {bronze.orders: rows.csv}, expect: []}\n",
    "silver/rows.csv": b"id\n1\n",
}
_EMPTY = ("gold/.keep", "shared/.keep", "tests/.keep")
_FOLDERS = (b"", b"bronze/", b"silver/", b"gold/", b"tests/", b"shared/", b"adopted/", b"adopted/", b"adopted/")
_NAMES = (
    b"x",
    b"brnze",
    b"gold",
    b"access",
    b"tests",
    b"contracts",
    b"caf\xe9",
    b"\xff",
    b"_x",
    b".x",
    b"a\nb",
    b"A b",
)
_ENDINGS = (b"", b".yml", b".sql", b".py", b".csv", b".test.yml", b".json", b".parquet", b".parquet", b".parquet")
_TARGETS = (b"nothing", b".", b"..", b"x", b"../lakesmith.yml", b"orders.sql", b"1.parquet")


def entries_case(rng: Random) -> Case:
    """A lake with some entries that nobody has declared."""
    entries: dict[bytes, Entry] = {}
    for _ in range(rng.choice((1, 1, 2, 6))):
        path = rng.choice(_FOLDERS) + rng.choice(_NAMES) + rng.choice(_ENDINGS)
        kind: Kind = rng.choices(("file", "folder", "fifo", "socket", "link"), (2, 2, 3, 1, 5))[0]
        target = rng.choice((*_TARGETS, os.path.basename(path))) if kind == "link" else b""
        if path.endswith(b".py"):  # no case runs Python
            kind, target = rng.choice((("fifo", b""), ("folder", b""), ("link", os.path.basename(path))))
        entries[path] = Entry(path=path, kind=kind, target=target)
    options = {"entries": tuple(entries.values())}
    return Case(kind="entries", target=repr(next(iter(entries))), files=DECLARED, options=options)


@cache
def _rows() -> bytes:
    rows = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), rows)
    return rows.getvalue()


def try_entries(case: Case, folder: Path, check_error: Callable[[LakesmithError], Iterable[str]]) -> tuple[str, ...]:
    """Review, load and plan the lake, and adopt the folder. Returns the codes of errors."""
    for name, data in {**case.files, "adopted/1.parquet": _rows(), **dict.fromkeys(_EMPTY, b"")}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    for entry in case.options["entries"]:
        path = os.path.join(os.fsencode(folder), entry.path)
        if not os.path.lexists(path):
            make_entry(entry, path)
    codes: dict[str, None] = {}
    for ask in (
        lambda: Lake.review(folder),
        lambda: Lake.open(folder).validate(),
        lambda: Lake.open(folder).adopt("bronze.adopted"),
        lambda: Lake.open(folder).plan(),
        lambda: Lake.open(folder).query("SELECT * FROM bronze.adopted"),
    ):
        try:
            ask()
        except LakesmithError as error:
            codes |= dict.fromkeys(check_error(error))
    return tuple(codes)
