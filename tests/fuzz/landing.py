"""Landing folders with entries of any name and kind: each is listed or skipped, and nothing outside is read."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

from tests.docs.markdown import DOCS
from tests.fuzz.model import Case

from lakesmith.declare import Files
from lakesmith.lake import Lake
from lakesmith.plan.steps import Plan
from lakesmith.ports import FileFact, SkippedEntry
from lakesmith.store import landing_store

Kind = Literal["file", "folder", "fifo", "socket", "link"]
FOLDER = "landing"
INSIDE, SECRET = b'{"id": 1}\n', b'{"id": "secret"}\n'
_PATTERNS = ("*.json", "*.json", "*", "**", "**/*.json", "*/*.json", "*/*", "[a-m]*.json", "d/*.json", "*/d/*.json")
_NAMES = (
    *(b"a.json", b"b.json", b"d", b"d.json", b"e", b"_x.json", b".x.json", b"_d", b".d", b"_manifest", b"A.json"),
    *(b"a b.json", b"a\nb.json", b"a\tb.json", b'a"b.json', b"a'b.json", b"100%.json", b"a#b.json", b"a?b.json"),
    *(b"[a].json", b"*.json", b"**", b"a=b.json", b"day=1", b"-rf.json", b"lakesmith-abort.json", b"\x1b[2J.json"),
    *("café.json".encode(), "cafe\u0301.json".encode(), "😀.json".encode(), "\u202e.json".encode(), b"a\\xe9.json"),
    *(b"caf\xe9.json", b"\xff.json", b"d\xe9", b"\xed\xa0\x80.json", b"l" * 250 + b".json", b"~.json", b"$a.json"),
)
_OUTSIDE = b"@outside"
_TARGETS = (
    *(b".", b"..", b"a.json", b"b.json", b"d", b"d/a.json", b"nothing", b"../outside", b"../outside/s.json"),
    *(_OUTSIDE, _OUTSIDE + b"/s.json", _OUTSIDE + b"/s.json", _OUTSIDE + b"/nothing"),
)


class Broke(Exception):
    """A promise that does not hold."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the landing folder."""

    path: bytes
    """Below the landing folder."""
    kind: Kind
    target: bytes = b""
    """The target of a link; `@outside` is the absolute path of another folder."""


def landing_case(rng: Random) -> Case:
    """Return a case with some entries and a glob."""
    entries: dict[bytes, Entry] = {}
    folders = [b""]
    for _ in range(rng.choice((1, 2, 4, 8, 16))):
        path = rng.choice(folders) + _name(rng)
        kind: Kind = rng.choices(("file", "folder", "fifo", "socket", "link"), (8, 3, 1, 1, 6))[0]
        if path in entries:
            continue
        target = rng.choice((*_TARGETS, os.path.basename(path), _name(rng))) if kind == "link" else b""
        entries[path] = Entry(path=path, kind=kind, target=target)
        if kind == "folder":
            folders.append(path + b"/")
    pattern = rng.choice(_PATTERNS)
    options = {
        "entries": tuple(entries.values()),
        "pattern": pattern,
        "symlinks": rng.choice(("inside", "inside", "anywhere")),
        "listing": rng.choice(("full", "full", "ordered")),
        "archive": rng.choice((None, None, "_done", "d")),
    }
    return Case(kind="landing", target=pattern, options=options)


def _name(rng: Random) -> bytes:
    if rng.random() < 0.8:
        return rng.choice(_NAMES)
    letters = bytes(byte for byte in rng.randbytes(rng.choice((1, 3, 10))) if byte not in b"/\0")
    return (letters or b"x").rstrip(b".") + rng.choice((b"", b".json"))


def try_landing(case: Case, folder: Path) -> tuple[str, ...]:
    """Plan over the landing folder; return the codes of skipped entries."""
    options = case.options
    make_entries(options["entries"], folder)
    declared = {key: options[key] for key in ("symlinks", "listing", "archive") if options[key] is not None}
    if options["archive"] == "d" and "**" in options["pattern"]:
        del declared["archive"]  # rejected: archived files would be ingested again
    source = {"files": f"{FOLDER}/{options['pattern']}", "format": "json", **declared}
    (folder / "bronze").mkdir()
    (folder / "lakesmith.yml").write_text("name: shop\n")
    (folder / "bronze" / "orders.yml").write_text(json.dumps({"source": source}))
    lake = Lake.open(folder)
    plan = lake.plan()
    (table,) = lake.tables.values()
    assert isinstance(table.origin, Files)
    storage, glob = landing_store(table.origin.files, str(folder), {}, table.origin.symlinks)
    files = [file for step in plan.steps for file in getattr(step, "files", ())]
    skipped = [entry for _, entry in plan.skipped]
    # Check everything that a listing returns, also Lakesmith's own files, which a plan omits.
    every: set[SkippedEntry] = set()
    listed = list(storage.find(glob, None, None, every.add))
    _held(listed == files, "a plan has what a listing has")
    _held(set(skipped) <= every, "a plan skips what a listing skips")
    check_listing(options["entries"], options["pattern"], listed, every)
    for file in files:
        with storage.open(file.path, file) as opened:
            _held(opened.read() in (INSIDE, SECRET), f"{file.path!r} has the bytes of a file")
    if options["symlinks"] == "inside":
        check_listing_inside(folder, options["pattern"], files)
    if not files:
        _check_reported_once(folder, plan)
    return tuple(sorted({entry.code for entry in every}))


def _check_reported_once(folder: Path, plan: Plan) -> None:
    expected = {(entry.path, entry.code) for _, entry in plan.skipped}
    report = Lake.open(folder).run()
    _held({(entry.file, entry.code) for entry in report.skipped} == expected, "a run reports what its plan skips")
    _held(Lake.open(folder).run().skipped == (), "the next run is silent about it")


def make_entries(entries: Iterable[Entry], folder: Path) -> None:
    root = os.path.join(os.fsencode(folder), os.fsencode(FOLDER))
    os.makedirs(root)
    outside = folder / "outside"
    outside.mkdir()
    (outside / "s.json").write_bytes(SECRET)
    for entry in entries:
        target = entry.target.replace(_OUTSIDE, os.fsencode(outside))
        make_entry(replace(entry, target=target), os.path.join(root, entry.path))


def make_entry(entry: Entry, path: bytes) -> None:
    match entry.kind:
        case "file":
            Path(os.fsdecode(path)).write_bytes(INSIDE)
        case "folder":
            os.mkdir(path)
        case "fifo":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
        case "link":
            os.symlink(entry.target, path)


def check_listing(
    entries: Sequence[Entry], pattern: str, files: Iterable[FileFact], skipped: Iterable[SkippedEntry]
) -> None:
    """Check a listing: each entry that matches the glob is listed or skipped, never both."""
    listed = {file.path for file in files}
    codes = {entry.path: entry.code for entry in skipped}
    for path in (*listed, *codes):
        json.dumps(path, ensure_ascii=False).encode()
    _held(not listed & codes.keys(), "nothing is both listed and skipped")
    for code in codes.values():
        _held(code in _codes(), f"the code {code!r} is documented")
    kinds = {_shown(entry.path): entry.kind for entry in entries}
    for entry in entries:
        path, parts = _shown(entry.path), os.fsdecode(entry.path).split("/")
        above = {"/".join(path.split("/")[:depth]) for depth in range(1, len(parts))}
        if above & {skip.removeprefix(f"{FOLDER}/") for skip in codes}:
            continue
        listed_path = f"{FOLDER}/{path}"
        is_found = listed_path in listed or listed_path in codes
        if entry.kind == "folder":
            _held(listed_path not in listed, f"the folder {path!r} is no file")
        elif _fits(pattern.split("/"), parts):
            _held(is_found, f"{entry.kind} {path!r} is listed or skipped")
        if entry.kind in ("fifo", "socket"):
            _held(listed_path not in listed, f"{entry.kind} {path!r} is no file")
    for path in listed:
        below = path.removeprefix(f"{FOLDER}/")
        _held(kinds.get(below, "link") in ("file", "link"), f"{path!r} is a file or a link, or lies behind one")
        _held(_fits(pattern.split("/"), below.split("/")), f"{path!r} fits the glob")


def check_listing_inside(folder: Path, pattern: str, files: Iterable[FileFact]) -> None:
    """Check that a listing stays in the declared folder, which can be a link."""
    named = os.path.realpath(folder / FOLDER / ("d" if pattern.startswith("d/") else ""))
    for file in files:
        inside = os.path.realpath(folder / file.path).startswith(f"{named}/")
        _held(inside, f"{file.path!r} is inside of the landing folder")


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _fits(segments: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a path matches a glob, hidden or not. Independent of the tested code."""
    if not segments:
        return not parts
    if segments[0] == "**":
        rest = segments[1:]
        if not rest:
            return bool(parts)
        return any(_fits(rest, parts[at:]) for at in range(len(parts)))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], segments[0]) and _fits(segments[1:], parts[1:])


@cache
def _codes() -> Mapping[str, None]:
    page = (DOCS / "concepts/landing-folders.md").read_text(encoding="utf-8")
    return dict.fromkeys(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))


def _held(promise: bool, listed_path: str) -> None:
    if not promise:
        raise Broke(f"it does not hold that {listed_path}")
