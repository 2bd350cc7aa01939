"""The table that is furthest behind in reading another: files that it still needs must not be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from lakesmith.declare import TableName
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ports import Store, TableFacts, TableFolder, TableFormat

_MARGIN = 3600.0
"""How many seconds files may be older than the commit that adds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestReader:
    """The table that has read the least of another table."""

    reader: TableName
    version: int
    """The last version that it has read."""
    since: datetime
    """When that version was committed: newer files are needed."""

    def age(self, now: float) -> float:
        """Return for how many seconds files must be retained."""
        return now - self.since.timestamp() + _MARGIN


def slowest_reader(
    format: TableFormat,
    store: Store,
    source: TableFacts,
    name: TableName,
    readers: Iterable[tuple[TableName, TableFolder]],
) -> SlowestReader | None:
    """Return which of the readers, given with their folders, is furthest behind; None when they need no older
    files that they could still read."""
    behind = {
        version: reader
        for reader, folder in readers
        if (version := _needed(format, Batches(store, reader), folder, reader, name, source)) is not None
    }
    if not behind:
        return None
    moments = {commit.version: commit.committed_at for commit in format.commits(source.folder)}
    known = [version for version in behind if version in moments]
    if not known:
        return None
    least = min(known)
    return SlowestReader(reader=behind[least], version=least, since=moments[least])


def _needed(
    format: TableFormat, batches: Batches, folder: TableFolder, reader: TableName, name: TableName, source: TableFacts
) -> int | None:
    """Return the version of the source that the reader will read from."""
    facts = format.facts(folder, flow(reader))
    commits = partial(format.commits, folder)
    progress = batches.progress(facts, commits)
    if progress.unfinished is not None:
        # Its checks run again, on the very versions that it was made from.
        batch = batches.committed(progress.unfinished, commits)
        read = {key: position.version for key, position in (*batch.inputs.items(), *batch.lookups.items())}
        needed = [version for version in (read.get(str(name)), batch.since.get(str(name))) if version is not None]
        return min(needed, default=None)
    position = progress.positions.get(str(name))
    if position is None or position.table_id != source.table_id or position.version >= source.changed:
        return None
    return position.version
