"""Distinguish lack of memory, which is not the file's fault, from corrupt files that request absurd amounts."""

from __future__ import annotations

import os
import re
import resource

_REQUESTED = re.compile(r"size (\d+)")


class NoMemory(MemoryError):
    """This process, or a helper process, ran out of memory."""


def is_limited() -> bool:
    """Whether the address space of this process is limited; without a limit, Linux overcommits."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def check_memory(error: BaseException, *, limited: bool | None = None) -> None:
    """Raise `NoMemory` when the error is a lack of memory: the file is not skipped for it.

    A corrupt file that requests less than the machine has cannot be distinguished from a valid one: the run ends.
    """
    if isinstance(error, NoMemory):
        raise error
    if not isinstance(error, MemoryError) and "bad_alloc" not in str(error):
        return
    requested = _REQUESTED.search(str(error))
    if requested is not None:
        lacking = int(requested[1]) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        lacking = is_limited() if limited is None else limited
    if lacking:
        raise NoMemory(str(error)) from error
