"""What a Delta table holds, read from its files alone, by nothing but the format's description: a second opinion that
shares no code with the product, with Delta or with delta-rs."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap

_COMMIT = re.compile(r"(\d{20})\.json")
_SUM = re.compile(r"(\d{20})\.checkpoint\.parquet")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377


class Torn(Exception):
    """A table is not whole."""


@dataclass
class Commit:
    """One version."""

    version: int
    note: str | None = None
    operation: str = ""
    at: int = 0
    """Milliseconds since 1970."""
    sequences: dict[str, int] = field(default_factory=dict)
    """By writer, the number that it committed with."""


@dataclass
class Files:
    """The log of a table, replayed."""

    folder: Path
    commits: list[Commit] = field(default_factory=list)
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By path, the files of the newest version."""

    @property
    def version(self) -> int:
        return self.commits[-1].version

    def sequence(self, writer: str) -> int:
        return max((commit.sequences.get(writer, 0) for commit in self.commits), default=0)

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the newest version."""
        return [row for add in self.live.values() for row in self._rows_of(add)]

    def _rows_of(self, add: dict[str, Any]) -> list[dict[str, Any]]:
        path = self._found(add)
        gone = self._gone(add)
        try:
            rows = pq.ParquetFile(path).read().to_pylist()
        except Exception as error:
            raise Torn(f"{path} cannot be read: {error}") from error
        parts = add.get("partitionValues") or {}
        return [{**row, **parts} for at, row in enumerate(rows) if at not in gone]

    def _found(self, add: dict[str, Any]) -> Path:
        path = self.folder / unquote(add["path"])
        if not path.is_file():
            raise Torn(f"{path} is part of version {self.version} and does not exist")
        if path.stat().st_size != add["size"]:
            raise Torn(f"{path} has {path.stat().st_size} bytes, and the log says {add['size']}")
        return path

    def _gone(self, add: dict[str, Any]) -> BitMap | frozenset[int]:
        vector = add.get("deletionVector")
        if not vector:
            return frozenset()
        kind, told = vector["storageType"], vector["pathOrInlineDv"]
        if kind == "i":
            return self._marked(vector, _unz85(told))
        path = vector_path(self.folder, told) if kind == "u" else Path(unquote(told.removeprefix("file:")))
        if not path.is_file():
            raise Torn(f"{path} is part of version {self.version} and does not exist")
        data = path.read_bytes()
        at = vector.get("offset") or 0
        (size,) = struct.unpack_from(">i", data, at)
        found = data[at + 4 : at + 4 + size]
        (checksum,) = struct.unpack_from(">I", data, at + 4 + size)
        if size != vector["sizeInBytes"] or zlib.crc32(found) != checksum:
            raise Torn(f"{path} is not what the log says")
        return self._marked(vector, found)

    def _marked(self, vector: dict[str, Any], data: bytes) -> BitMap:
        rows = _bitmap(data)
        if len(rows) != vector["cardinality"]:
            raise Torn(f"a deletion vector of {self.folder} marks {len(rows)} rows, and the log says otherwise")
        return rows


def vector_path(table: Path, told: str) -> Path:
    """The file of a deletion vector whose name the log encodes."""
    text = _unz85(told[-20:]).hex()
    name = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))
    return table / told[:-20] / f"deletion_vector_{name}.bin"


def read_table(folder: Path, upto: int | None = None) -> Files | None:
    """Replay a log from its first commit, to its last or to a version; None where there is no table. What contradicts
    itself is `Torn`."""
    log = folder / "_delta_log"
    names = sorted(path.name for path in log.iterdir()) if log.is_dir() else []
    versions = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
    if not versions:
        return None
    if versions != list(range(len(versions))):
        raise Torn(f"{log}: versions {versions} are not one after the other")
    table = Files(folder)
    sums = {int(found[1]): log / name for name in names if (found := _SUM.fullmatch(name))}
    for name in names:
        _hold_to_seal(log / name)
    for version in versions if upto is None else versions[: upto + 1]:
        _apply(table, version, log / f"{version:020}.json")
        if version in sums:
            _compare(table, sums[version])
    pointer = log / "_last_checkpoint"
    if pointer.is_file():
        told = json.loads(pointer.read_text())["version"]
        if told not in sums:
            raise Torn(f"{pointer} names version {told}, which has no checkpoint")
    return table


def _hold_to_seal(file: Path) -> None:
    """A file that has a checksum beside it, as Hadoop writes it, is what that says."""
    seal = file.with_name(f".{file.name}.crc")
    told = seal.read_bytes() if seal.is_file() else b""
    if not told:
        return
    form, piece = struct.unpack_from(">4si", told.ljust(8, b"\0"))
    content = file.read_bytes()
    sums = [zlib.crc32(content[at : at + piece]) for at in range(0, len(content), max(piece, 1))]
    if form != b"crc\0" or told[8:] != struct.pack(f">{len(sums)}I", *sums):
        raise Torn(f"{file} is not what {seal.name} says")


def _apply(table: Files, version: int, file: Path) -> None:
    try:
        actions = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    except ValueError as error:
        raise Torn(f"{file} is not a commit: {error}") from error
    commit = Commit(version)
    for action in actions:
        if told := action.get("commitInfo"):
            commit.note, commit.operation = told.get("userMetadata"), told.get("operation", "")
            commit.at = told.get("timestamp", 0)
            commit.note = commit.note or (told.get("operationParameters") or {}).get("userMetadata")
        if told := action.get("txn"):
            commit.sequences[told["appId"]] = told["version"]
    # What goes, goes first: a file that is added and removed under the same name is there with its new vector.
    for action in actions:
        if told := action.get("remove"):
            table.live.pop(told["path"], None)
    for action in actions:
        if told := action.get("add"):
            table.live[told["path"]] = told
    table.commits.append(commit)


def _compare(table: Files, checkpoint: Path) -> None:
    """A sum of the log says what the log says."""
    try:
        adds = [add for add in pq.ParquetFile(checkpoint).read(["add"]).column("add").to_pylist() if add]
    except Exception as error:
        raise Torn(f"{checkpoint} cannot be read: {error}") from error
    found, told = set(map(_named, adds)), set(map(_named, table.live.values()))
    if found != told:
        raise Torn(f"{checkpoint} names other files than the log: {sorted(found ^ told)[:3]}")


def _named(add: dict[str, Any]) -> tuple[str, ...]:
    """A file and its deletion vector."""
    vector = add.get("deletionVector") or {}
    return add["path"], *(str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset"))


def _bitmap(data: bytes) -> BitMap:
    """Numbers of rows, from the portable format: maps of 32 bits one after the other."""
    magic, count = struct.unpack_from("<iq", data, 0)
    if magic != _MAGIC:
        raise Torn("a deletion vector of a format that is not known")
    at, rows = 12, BitMap()
    for _ in range(count):
        (high,) = struct.unpack_from("<i", data, at)
        if high:
            raise Torn("a deletion vector of a file with more than four billion rows")
        part = BitMap.deserialize(data[at + 4 :])
        at += 4 + len(part.serialize())
        rows |= part
    return rows


def _unz85(text: str) -> bytes:
    """Base85 in the alphabet that Delta uses."""
    ours = "".join(_B85[_Z85.index(letter)] for letter in text)
    return base64.b85decode(ours)


_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
