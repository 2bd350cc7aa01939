"""Reads a Delta table from its files, by the format's description. Shares no code with the product or Delta."""

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


class CorruptTable(Exception):
    """A table is incomplete or inconsistent."""


@dataclass
class Commit:
    """One version."""

    version: int
    note: str | None = None
    operation: str = ""
    at: int = 0
    """Milliseconds since 1970."""
    sequences: dict[str, int] = field(default_factory=dict)
    """By writer, the committed sequence number."""


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
            raise CorruptTable(f"{path} cannot be read: {error}") from error
        parts = add.get("partitionValues") or {}
        return [{**row, **parts} for at, row in enumerate(rows) if at not in gone]

    def _found(self, add: dict[str, Any]) -> Path:
        path = self.folder / unquote(add["path"])
        if not path.is_file():
            raise CorruptTable(f"{path} is part of version {self.version} and does not exist")
        if path.stat().st_size != add["size"]:
            raise CorruptTable(f"{path} has {path.stat().st_size} bytes, and the log says {add['size']}")
        return path

    def _gone(self, add: dict[str, Any]) -> BitMap | frozenset[int]:
        vector = add.get("deletionVector")
        if not vector:
            return frozenset()
        kind, stored = vector["storageType"], vector["pathOrInlineDv"]
        if kind == "i":
            return self._marked(vector, _unz85(stored))
        path = vector_path(self.folder, stored) if kind == "u" else Path(unquote(stored.removeprefix("file:")))
        if not path.is_file():
            raise CorruptTable(f"{path} is part of version {self.version} and does not exist")
        data = path.read_bytes()
        at = vector.get("offset") or 0
        (size,) = struct.unpack_from(">i", data, at)
        found = data[at + 4 : at + 4 + size]
        (checksum,) = struct.unpack_from(">I", data, at + 4 + size)
        if size != vector["sizeInBytes"] or zlib.crc32(found) != checksum:
            raise CorruptTable(f"{path} does not match the log")
        return self._marked(vector, found)

    def _marked(self, vector: dict[str, Any], data: bytes) -> BitMap:
        rows = _bitmap(data)
        if len(rows) != vector["cardinality"]:
            raise CorruptTable(f"a deletion vector of {self.folder} marks {len(rows)} rows, unlike the log")
        return rows


def vector_path(table: Path, encoded: str) -> Path:
    """Return the file of a deletion vector whose name the log encodes."""
    text = _unz85(encoded[-20:]).hex()
    name = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))
    return table / encoded[:-20] / f"deletion_vector_{name}.bin"


def read_table(folder: Path, upto: int | None = None) -> Files | None:
    """Replay a log from its first commit to its last or to a version; None where there is no table. Raise
    `CorruptTable` where the files are inconsistent."""
    log = folder / "_delta_log"
    names = sorted(path.name for path in log.iterdir()) if log.is_dir() else []
    versions = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
    if not versions:
        return None
    if versions != list(range(len(versions))):
        raise CorruptTable(f"{log}: versions {versions} are not one after the other")
    table = Files(folder)
    sums = {int(found[1]): log / name for name in names if (found := _SUM.fullmatch(name))}
    for name in names:
        _verify_checksum(log / name)
    for version in versions if upto is None else versions[: upto + 1]:
        _apply(table, version, log / f"{version:020}.json")
        if version in sums:
            _compare(table, sums[version])
    pointer = log / "_last_checkpoint"
    if pointer.is_file():
        newest = json.loads(pointer.read_text())["version"]
        if newest not in sums:
            raise CorruptTable(f"{pointer} names version {newest}, which has no checkpoint")
    return table


def _verify_checksum(file: Path) -> None:
    """Check a file against the checksum file that Hadoop writes beside it, if there is one."""
    checksum_file = file.with_name(f".{file.name}.crc")
    stored = checksum_file.read_bytes() if checksum_file.is_file() else b""
    if not stored:
        return
    form, piece = struct.unpack_from(">4si", stored.ljust(8, b"\0"))
    content = file.read_bytes()
    sums = [zlib.crc32(content[at : at + piece]) for at in range(0, len(content), max(piece, 1))]
    if form != b"crc\0" or stored[8:] != struct.pack(f">{len(sums)}I", *sums):
        raise CorruptTable(f"{file} does not match {checksum_file.name}")


def _apply(table: Files, version: int, file: Path) -> None:
    try:
        actions = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    except ValueError as error:
        raise CorruptTable(f"{file} is not a commit: {error}") from error
    commit = Commit(version)
    for action in actions:
        if info := action.get("commitInfo"):
            commit.note, commit.operation = info.get("userMetadata"), info.get("operation", "")
            commit.at = info.get("timestamp", 0)
            commit.note = commit.note or (info.get("operationParameters") or {}).get("userMetadata")
        if txn := action.get("txn"):
            commit.sequences[txn["appId"]] = txn["version"]
    # Removals first: a file that is removed and added under the same name stays, with its new vector.
    for action in actions:
        if removed := action.get("remove"):
            table.live.pop(removed["path"], None)
    for action in actions:
        if added := action.get("add"):
            table.live[added["path"]] = added
    table.commits.append(commit)


def _compare(table: Files, checkpoint: Path) -> None:
    """Check that a checkpoint has the files of the log."""
    try:
        adds = [add for add in pq.ParquetFile(checkpoint).read(["add"]).column("add").to_pylist() if add]
    except Exception as error:
        raise CorruptTable(f"{checkpoint} cannot be read: {error}") from error
    found, expected = set(map(_named, adds)), set(map(_named, table.live.values()))
    if found != expected:
        raise CorruptTable(f"{checkpoint} names other files than the log: {sorted(found ^ expected)[:3]}")


def _named(add: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of a file and its deletion vector."""
    vector = add.get("deletionVector") or {}
    return add["path"], *(str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset"))


def _bitmap(data: bytes) -> BitMap:
    """Decode row numbers from the portable format: a sequence of 32-bit maps."""
    magic, count = struct.unpack_from("<iq", data, 0)
    if magic != _MAGIC:
        raise CorruptTable("a deletion vector of an unknown format")
    at, rows = 12, BitMap()
    for _ in range(count):
        (high,) = struct.unpack_from("<i", data, at)
        if high:
            raise CorruptTable("a deletion vector of a file with more than four billion rows")
        part = BitMap.deserialize(data[at + 4 :])
        at += 4 + len(part.serialize())
        rows |= part
    return rows


def _unz85(text: str) -> bytes:
    """Decode base85 in the alphabet that Delta uses."""
    ours = "".join(_B85[_Z85.index(letter)] for letter in text)
    return base64.b85decode(ours)


_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
