"""A seal beside each file of a log, the checksum that Hadoop knows: a bit that flips is noticed before it is believed.

`.N.json.crc` seals `N.json`: four letters, how many bytes make a piece, and the CRC-32 of each piece. Spark reads a
local disk through Hadoop, which holds what it reads to such a seal; delta-rs neither writes nor reads one. It is put
there once its file has its name, by whoever won that name. A writer that was killed in between has left none: the file
is read as it is, and the next commit to the table makes up for it.
"""

from __future__ import annotations

import os
import re
import struct
import uuid
import zlib
from contextlib import suppress
from typing import BinaryIO

from lakesmith.disk import write_synced

_FORM = b"crc\0"
_PIECE = 512
"""What Hadoop takes where nobody says otherwise."""
_BLOCK = 1 << 20
_HEAD = len(_FORM) + 4
_OF_LOG = r"\d{20}\.(?:json|checkpoint\..*parquet)"
_FILE, _SEAL = re.compile(_OF_LOG), re.compile(rf"\.({_OF_LOG})\.crc")


def seal_of(path: str) -> str:
    """Where the seal of a file lies."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def seal_for(content: bytes) -> bytes:
    """The seal of a file that holds this."""
    return _FORM + struct.pack(">i", _PIECE) + _sums(content, _PIECE)


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


def seal_log(location: str) -> None:
    """Seal the files of a table's log that have no seal yet, as they are now, and take away the seals of files that
    were cleaned up. For whoever has just committed: that is done, so nothing is raised where a disk is full."""
    log = os.path.join(location, "_delta_log")
    names = set(os.listdir(log))
    for name in sorted(names):
        if _FILE.fullmatch(name) and f".{name}.crc" not in names:
            with suppress(OSError):
                _seal(os.path.join(log, name))
        # A listing may show a seal and have passed the place of its file before that came.
        elif (of := _SEAL.fullmatch(name)) and of[1] not in names and not os.path.exists(os.path.join(log, of[1])):
            with suppress(OSError):
                os.remove(os.path.join(log, name))


def _seal(path: str) -> None:
    with open(path, "rb") as file:
        content = file.read()
    temporary = f"{seal_of(path)}.{uuid.uuid4()}.tmp"
    try:
        write_synced(temporary, seal_for(content))
        with suppress(FileExistsError):  # its writer was slow
            os.link(temporary, seal_of(path))
    finally:
        with suppress(OSError):
            os.remove(temporary)


def _sums_in(file: BinaryIO, piece: int) -> bytes:
    found = bytearray()
    while block := file.read(_BLOCK // piece * piece):
        found += _sums(block, piece)
    return bytes(found)


def _sums(content: bytes, piece: int) -> bytes:
    whole = memoryview(content)
    sums = [zlib.crc32(whole[at : at + piece]) for at in range(0, len(content), piece)]
    return struct.pack(f">{len(sums)}I", *sums)
