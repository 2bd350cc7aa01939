"""Named places at which a run may be cut short. A test can watch them, and kill the process there.

Between two places that follow each other, one thing is made to last: a file, a commit, a lease. So the places are the
moments that differ for whoever comes after. Only files that are archived, returned or vacuumed are many, and each of
them can be moved or deleted again. Where nobody watches, reaching one costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

FAILPOINTS: Mapping[str, str] = MappingProxyType(
    {
        "lease.taken": "the table's lease is taken, and nothing was looked at yet",
        "finish.started": "a batch that was cut short is about to be seen through to its end",
        "batch.pinned": "what the batch is made from is written down",
        "batch.staged": "its rows are written to files, and not judged yet",
        "batch.held": "a gate has refused it, and its rows are kept to be looked at",
        "table.committing": "it may pass, and nothing of it is in the table",
        "deleted_keys.stored": "the keys that end with it are kept, and its rows are not",
        "files.moved": "its files are in the table's folder, and not in the table's log",
        "feature.enabled": "the table may use a feature that the commit needs",
        "log.linked": "the commit is in the log, and its name may not survive a power cut yet",
        "log.checkpointing": "the log is about to be summed up",
        "table.committed": "its rows are in the table, and its refused rows nowhere",
        "quarantine.committed": "its refused rows are in the quarantine",
        "decisions.committed": "what became of replayed rows is kept, and they are still in the quarantine",
        "files.compacted": "files are put together, in the table or beside it, and others are not yet",
        "table.fenced": "no run that was suspended can add to what is kept beside the table any more",
        "files.vacuumed": "files are deleted, in the table or beside it, and others are not yet",
        "batch.finishing": "everything is where it belongs, and that is not written down yet",
        "batch.done": "it is written down that the batch is done",
        "files.archiving": "files that were taken in are about to be moved to the archive",
        "files.returning": "files that were rolled back are about to be moved out of the archive",
        "lease.released": "the table is given back",
        "ledger.recording": "all steps are taken, and the ledger knows of none",
        "ledger.appended": "one of the system tables has its records, and others do not",
        "ledger.recorded": "the ledger knows the run",
    }
)
"""By name, what has happened when the place is reached."""

Watch = Callable[[str, str], None]
"""Told the place, and what it is about: a table, by its name or its writer's, or the folder that it lies in."""

_watch: Watch | None = None


def failpoint(place: str, about: object = "") -> None:
    """A run has come to a place."""
    if _watch is not None:
        _watch(place, str(about))


def watch(told: Watch | None) -> None:
    """From now on call `told` at every place; with None, nobody is told any more."""
    global _watch
    _watch = told
