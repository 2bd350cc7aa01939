"""Want of memory is no fault of a file, though Arrow tells of it as of bytes that ask for an absurd amount."""

from __future__ import annotations

import os
import re

_ASKED = re.compile(r"size (\d+)")
_LITTLE = 256 << 20
"""What reading a sound file may ask for at once."""


class NoMemory(MemoryError):
    """This process had too little memory, or one that works for it."""


def check_memory(error: BaseException) -> None:
    """Raise `NoMemory` when that is what the error tells of: no file is put aside for it."""
    if isinstance(error, NoMemory):
        raise error
    if not isinstance(error, MemoryError) and "bad_alloc" not in str(error):
        return
    asked = _ASKED.search(str(error))
    if asked is not None:
        lacking = int(asked[1]) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        lacking = not _can_have(_LITTLE)
    if lacking:
        raise NoMemory(str(error)) from error


def _can_have(size: int) -> bool:
    try:
        bytearray(size)
    except MemoryError:
        return False
    return True
