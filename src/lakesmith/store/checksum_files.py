"""Checksum files on local disks, in Hadoop's format: they detect flipped bits before a reader uses them.

`.NAME.crc` holds the checksums of `NAME`: four letters, the chunk size, and the CRC-32 of each chunk. Spark reads local
disks through Hadoop, which verifies these files; delta-rs neither writes nor reads them. A writer writes the checksum
file once its file has its name. One that was killed in between leaves none: the file is read unverified, until another
writer in the folder adds the missing checksums.
"""

from __future__ import annotations

import os
import re
import struct
import time
import zlib
from collections.abc import Set
from contextlib import suppress
from typing import BinaryIO

from lakesmith.disk import sync_all, write_new
from lakesmith.store.skipped import is_temporary, temporary_name

_MAGIC = b"crc\0"
_CHUNK = 512
"""Hadoop's default chunk size."""
_BLOCK = 1 << 20
_HEADER = len(_MAGIC) + 4
_MAX_FILES = 100
"""The most files that one call writes checksums for: a commit must not wait for the long log of another writer."""
_ABANDONED_AFTER = 86_400
"""The age in seconds after which a temporary file is a leftover of a killed writer."""


def checksum_path(path: str | os.PathLike[str]) -> str:
    """The path of a file's checksum file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def checksums_of(content: bytes) -> bytes:
    """The content of the checksum file for this content."""
    return _with_header(_crcs(content, _CHUNK))


def is_corrupt(path: str, content: bytes | None = None) -> bool:
    """Whether a file, or its content where given, does not match its checksums. A missing checksum file proves nothing,
    nor does an empty one, which a power cut leaves where a file was not synced."""
    try:
        with open(checksum_path(path), "rb") as file:
            stored = file.read()
    except FileNotFoundError:
        return False
    if not stored:
        return False
    if len(stored) < _HEADER or not stored.startswith(_MAGIC):
        return True
    (chunk,) = struct.unpack_from(">i", stored, len(_MAGIC))
    if not 0 < chunk <= _BLOCK:
        return True
    if content is not None:
        return _crcs(content, chunk) != stored[_HEADER:]
    with open(path, "rb") as file:
        return _crcs_of_file(file, chunk) != stored[_HEADER:]


def drop_stale_checksums(path: str) -> None:
    """Before a file is created: remove the checksum file of a deleted file of the same name, which would make the new
    one unreadable. It is stale if the file is missing after its checksum file was seen, because a checksum file is
    written after its file has its name."""
    if os.path.exists(checksum_path(path)) and not os.path.exists(path):
        with suppress(FileNotFoundError):
            os.remove(checksum_path(path))


def write_checksums(folder: str, names: re.Pattern[str]) -> None:
    """Write the missing checksums of the newest of the named files in a folder, from their present content. Also remove
    leftovers: checksums of deleted files, and temporary files of killed writers. The caller's work is done before, so
    nothing is raised where the folder is gone or the disk is full."""
    with suppress(OSError):
        found = set(os.listdir(folder))
        missing = (name for name in found if name[0] != "." and f".{name}.crc" not in found and names.fullmatch(name))
        for name in sorted(missing, reverse=True)[:_MAX_FILES]:
            with suppress(FileNotFoundError):  # deleted meanwhile
                _write_checksums(os.path.join(folder, name))
        for name in found:
            if name[0] == ".":
                _remove_leftover(folder, name, found, names)


def _remove_leftover(folder: str, name: str, found: Set[str], names: re.Pattern[str]) -> None:
    path, of = os.path.join(folder, name), name[1:].removesuffix(".crc")
    with suppress(FileNotFoundError):
        if name.endswith((".tmp", ".tmp.crc")) or is_temporary(name):
            if time.time() - os.stat(path).st_mtime > _ABANDONED_AFTER:
                os.remove(path)
        # A listing may contain a checksum file and miss its file, which was created after the listing had passed it.
        elif of not in found and names.fullmatch(of) and not os.path.exists(os.path.join(folder, of)):
            os.remove(path)


def _write_checksums(path: str) -> None:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, temporary_name(name))
    try:
        with open(path, "rb") as file:
            write_new(temporary, _with_header(_crcs_of_file(file, _CHUNK)))
        sync_all([path, temporary])  # checksums that outlive the content of their file would report corruption
        with suppress(FileExistsError):  # its writer was slow
            os.link(temporary, checksum_path(path))
    finally:
        with suppress(FileNotFoundError):
            os.remove(temporary)


def _with_header(crcs: bytes) -> bytes:
    return _MAGIC + struct.pack(">i", _CHUNK) + crcs


def _crcs_of_file(file: BinaryIO, chunk: int) -> bytes:
    found = bytearray()
    while block := file.read(_BLOCK // chunk * chunk):
        found += _crcs(block, chunk)
    return bytes(found)


def _crcs(content: bytes, chunk: int) -> bytes:
    view = memoryview(content)
    crcs = [zlib.crc32(view[at : at + chunk]) for at in range(0, len(content), chunk)]
    return struct.pack(f">{len(crcs)}I", *crcs)
