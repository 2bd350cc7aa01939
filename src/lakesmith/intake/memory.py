"""Want of memory is no fault of a file, though Arrow tells of it as of bytes that ask for an absurd amount."""

from __future__ import annotations

import os
import re
import resource

_ASKED = re.compile(r"size (\d+)")


class NoMemory(MemoryError):
    """This process had too little memory, or one that works for it."""


def is_limited() -> bool:
    """Whether this process may map only so much; without a limit, Linux gives whatever the machine could have."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def check_memory(error: BaseException, *, limited: bool | None = None) -> None:
    """Raise `NoMemory` when that is what the error tells of: no file is put aside for it.

    A damaged file that asks for less than the machine has cannot be told from a sound one: it ends the run.
    """
    if isinstance(error, NoMemory):
        raise error
    if not isinstance(error, MemoryError) and "bad_alloc" not in str(error):
        return
    asked = _ASKED.search(str(error))
    if asked is not None:
        lacking = int(asked[1]) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        lacking = is_limited() if limited is None else limited
    if lacking:
        raise NoMemory(str(error)) from error
