"""Named places where a test can observe a run, or kill its process.

Between two failpoints in sequence, a run makes one thing durable: a file, a commit, a lease. So they cover every state
that a later run can find. Only archived, returned and vacuumed files are many, and each can be moved or deleted again.
A failpoint that nobody watches costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

FAILPOINTS: Mapping[str, str] = MappingProxyType(
    {
        "lease.taken": "the table's lease is taken, and nothing was read yet",
        "finish.started": "an interrupted batch is about to be completed",
        "batch.pinned": "the inputs of the batch are pinned",
        "batch.staged": "its rows are written to files that no version names, and not checked yet",
        "batch.held": "a gate holds the batch, and its rows are stored for inspection",
        "table.committing": "it passed its checks, and none of it is in the table",
        "deleted_keys.stored": "the keys that it deletes are stored, and its rows are not",
        "feature.enabled": "a table feature that the commit needs is enabled",
        "log.linked": "the commit is in the log, and may not survive a power cut yet",
        "log.checkpointing": "a checkpoint of the log is about to be written",
        "table.committed": "its rows are in the table, and its rejected rows are not stored yet",
        "quarantine.committed": "its rejected rows are in quarantine",
        "decisions.committed": "the decisions about quarantined rows are stored, and the rows are still in quarantine",
        "files.compacted": "one of the table and its side tables is compacted, and others may not be",
        "table.fenced": "suspended runs can no longer commit to the side tables",
        "files.vacuumed": "one of the table and its side tables is vacuumed, and others may not be",
        "batch.finishing": "every part of the batch is committed, and that is not recorded yet",
        "batch.done": "the batch is recorded as complete",
        "files.archiving": "ingested files are about to be moved to the archive",
        "files.returning": "files that a restore removed are about to be moved out of the archive",
        "lease.released": "the table's lease is released",
        "ledger.recording": "all steps are done, and the ledger has none of them",
        "ledger.appended": "one of the system tables has its records, and others may not",
        "ledger.recorded": "the ledger has the run",
    }
)
"""By name, what has happened at a failpoint."""

Watch = Callable[[str, str], None]
"""Called with the failpoint and its subject: a table name, the application id of a table, or a folder."""

_watch: Watch | None = None


def failpoint(name: str, subject: object = "") -> None:
    """Call the watcher, if there is one."""
    if _watch is not None:
        _watch(name, str(subject))


def watch(watcher: Watch | None) -> None:
    """Call `watcher` at every failpoint; with None, stop watching."""
    global _watch
    _watch = watcher
