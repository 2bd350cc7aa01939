"""A seal beside each file of a log, the checksum that Hadoop knows: a bit that flips is noticed before it is believed.

`.N.json.crc` seals `N.json`: four letters, how many bytes make a piece, and the CRC-32 of each piece. Spark reads a
local disk through Hadoop, which holds what it reads to such a seal; delta-rs neither writes nor reads one. It is put
there once its file has its name, by whoever won that name. A writer that was killed in between has left none: the file
is read as it is, and the next commit to the table makes up for it.
"""

from __future__ import annotations

import os
import struct
import time
import uuid
import zlib
from collections.abc import Set
from contextlib import suppress
from typing import BinaryIO

from lakesmith.disk import sync_all, write_new
from lakesmith.formats.delta.names import OF_LOG, files_of_version, log_of

_FORM = b"crc\0"
_PIECE = 512
"""What Hadoop takes where nobody says otherwise."""
_BLOCK = 1 << 20
_HEAD = len(_FORM) + 4
_MOST = 100
"""So many files are sealed at one time: a long log of others is not what a commit has to wait for."""
_LEFT = 86_400
"""After so many seconds nobody comes back for a file that was not given its name."""


def seal_of(path: str) -> str:
    """Where the seal of a file lies."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def seal_for(content: bytes) -> bytes:
    """The seal of a file that holds this."""
    return _told(_sums(content, _PIECE))


def breaks_seal(path: str, content: bytes | None = None) -> bool:
    """Whether a file, which is read unless its content is given, is not what its seal says. Without a seal there is
    nothing to say, nor with an empty one: a power cut leaves that of a file which was not brought to the disk."""
    try:
        with open(seal_of(path), "rb") as file:
            told = file.read()
    except FileNotFoundError:
        return False
    if not told:
        return False
    if len(told) < _HEAD or not told.startswith(_FORM):
        return True
    (piece,) = struct.unpack_from(">i", told, len(_FORM))
    if not 0 < piece <= _BLOCK:
        return True
    if content is not None:
        return _sums(content, piece) != told[_HEAD:]
    with open(path, "rb") as file:
        return _sums_in(file, piece) != told[_HEAD:]


def drop_stale_seals(location: str, version: int) -> None:
    """Before a version is made: a seal that an older file of the same name has left would make the new one unreadable.
    It is older if the file is not there after the seal was seen, because a file is sealed once it has its name."""
    for path in files_of_version(location, version):
        if os.path.exists(seal_of(path)) and not os.path.exists(path):
            with suppress(FileNotFoundError):
                os.remove(seal_of(path))


def seal_log(location: str) -> None:
    """Seal the newest files of a table's log that have no seal yet, as they are now, and take away what was left: seals
    of files that were cleaned up, and files that a killed writer gave no name. For whoever has just committed: that is
    done, so nothing is raised where there is no log any more or no room."""
    with suppress(OSError):
        log = log_of(location)
        names = set(os.listdir(log))
        plain = (name for name in names if name[0] != "." and f".{name}.crc" not in names and OF_LOG.fullmatch(name))
        for name in sorted(plain, reverse=True)[:_MOST]:
            with suppress(FileNotFoundError):  # cleaned up meanwhile
                _seal(os.path.join(log, name))
        for name in names:
            if name[0] == ".":
                _tidy(log, name, names)


def _tidy(log: str, name: str, names: Set[str]) -> None:
    path, of = os.path.join(log, name), name[1:].removesuffix(".crc")
    with suppress(FileNotFoundError):
        if name.endswith((".tmp", ".tmp.crc")):
            if time.time() - os.stat(path).st_mtime > _LEFT:
                os.remove(path)
        # A listing may show a seal and have passed the place of its file before that came.
        elif of not in names and OF_LOG.fullmatch(of) and not os.path.exists(os.path.join(log, of)):
            os.remove(path)


def _seal(path: str) -> None:
    temporary = f"{seal_of(path)}.{uuid.uuid4()}.tmp"
    try:
        with open(path, "rb") as file:
            write_new(temporary, _told(_sums_in(file, _PIECE)))
        sync_all([path, temporary])  # a seal that outlives the content of its file would report damage
        with suppress(FileExistsError):  # its writer was slow
            os.link(temporary, seal_of(path))
    finally:
        with suppress(FileNotFoundError):
            os.remove(temporary)


def _told(sums: bytes) -> bytes:
    return _FORM + struct.pack(">i", _PIECE) + sums


def _sums_in(file: BinaryIO, piece: int) -> bytes:
    found = bytearray()
    while block := file.read(_BLOCK // piece * piece):
        found += _sums(block, piece)
    return bytes(found)


def _sums(content: bytes, piece: int) -> bytes:
    whole = memoryview(content)
    sums = [zlib.crc32(whole[at : at + piece]) for at in range(0, len(content), piece)]
    return struct.pack(f">{len(sums)}I", *sums)
