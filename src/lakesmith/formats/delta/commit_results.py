"""What commits did, read back from the log: a reply can be lost, the log cannot."""

from __future__ import annotations

from collections.abc import Mapping

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.commit import sync_log
from lakesmith.formats.delta.commits import table_commits
from lakesmith.ports import CommitFact, CommitResult, TableFolder, Write, find_commit


def commit_result(commit: CommitFact) -> CommitResult:
    """What a commit did, from its metrics."""
    # A commit that replaces a part of the rows rewrites the others in the same files. A merge counts these too, and
    # reports separately which rows are new.
    output = _count(commit.metrics, "numOutputRows") - _count(commit.metrics, "numCopiedRows")
    is_merge = "numTargetRowsInserted" in commit.metrics
    return CommitResult(
        version=commit.version,
        considered=_count(commit.metrics, "numSourceRows"),
        inserted=_count(commit.metrics, "numTargetRowsInserted") if is_merge else max(output, 0),
        updated=_count(commit.metrics, "numTargetRowsUpdated"),
        deleted=_count(commit.metrics, "numTargetRowsDeleted", "numDeletedRows"),
        bytes=_count(commit.metrics, "numTargetBytesAdded", "numOutputBytes"),
        files=_count(commit.metrics, "numTargetFilesAdded", "numFiles"),
    )


def batch_result(folder: TableFolder, write: Write) -> CommitResult:
    """What the commit with this writer's note did; raises where another writer committed the batch. Also writes the
    checksums that a killed writer did not."""
    sync_log(folder)
    write_checksums(folder)
    commit = find_commit(table_commits(folder), write.flow, write.sequence, write.note)
    if commit is None:
        raise committed_by_another_run(write)
    return commit_result(commit)


def committed_by_another_run(write: Write) -> InfrastructureError:
    """The error for a batch number that another run has committed."""
    return InfrastructureError(
        "commit-lost",
        f"another run committed batch {write.sequence} of {write.flow} first",
        hint="nothing is lost: run again when the other run has ended",
    )


def _count(metrics: Mapping[str, str], *names: str) -> int:
    """The first of these metrics that is a count; other writers may put anything there."""
    counts = (metrics.get(name, "") for name in names)
    return next((int(count) for count in counts if count.isascii() and count.isdecimal()), 0)
