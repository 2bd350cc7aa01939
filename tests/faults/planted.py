"""Planted bugs of the product, which fault injection must find."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesmith.failpoints import failpoint
from lakesmith.ledger.batches import flow
from lakesmith.ledger.lease import Leases

if TYPE_CHECKING:
    from lakesmith.ports import TableFolder
    from lakesmith.spark.write import BatchWriter


def plant(name: str) -> None:
    """Plant a bug in this process."""
    BUGS[name]()


def _no_fence() -> None:
    """Files are committed under a free sequence number, not under the pinned one."""
    from deltalake import DeltaTable

    from lakesmith.formats.delta import add_files as committer

    original: Any = vars(committer)["add_files"]

    def add_files(folder: TableFolder, files: Any, columns: str, write: Any, table_id: str | None, **how: Any) -> bool:
        seen = DeltaTable(folder.url).transaction_version(write.flow) or 0 if table_id else 0
        fenced: bool = original(
            folder, files, columns, replace(write, sequence=max(seen + 1, write.sequence)), table_id, **how
        )
        return fenced

    _put(committer, "add_files", add_files)


def _no_lock() -> None:
    """Runs take no leases."""

    @contextmanager
    def hold(self: Leases, *_: Any) -> Iterator[None]:
        yield

    _put(Leases, "hold", hold)


def _bookmark_first() -> None:
    """The sequence number is committed before the rows."""
    from lakesmith.spark.staged_files import StagedFiles

    writer = _writer()
    original = writer._commit

    def committed(self: BatchWriter, incoming: Any, good: Any, counts: Any) -> Any:
        if incoming.facts is None or isinstance(good, tuple):
            return original(self, incoming, good, counts)
        from lakesmith.ports import Write

        table_folder, batch = self._folder(incoming), incoming.batch
        self._format.advance(
            table_folder, Write(flow=flow(incoming.table.name), sequence=batch.sequence, note=batch.note)
        )
        failpoint("table.committing", incoming.table.name)
        rows = good.good() if isinstance(good, StagedFiles) else good.select(*incoming.payload)
        rows.write.format("delta").mode("append").option("userMetadata", batch.note).save(table_folder.url)
        failpoint("table.committed", incoming.table.name)
        return self._format.commit_result(next(iter(self._format.commits(table_folder))))

    _put(writer, "_commit", committed)


def _cleanup() -> None:
    """A writer without a reply assumes that its commit failed, and deletes its files."""
    writer = _writer()
    original = writer.write_batch

    def write_batch(self: BatchWriter, incoming: Any) -> Any:
        folder = Path(self._folder(incoming).url)
        before = set(folder.rglob("*.parquet"))
        try:
            return original(self, incoming)
        except Exception:
            for file in set(folder.rglob("*.parquet")) - before:
                file.unlink()
            raise

    _put(writer, "write_batch", write_batch)


def _vacuum_unlocked() -> None:
    """A vacuum takes no lease and does not fence the table, and a commit does not confirm that its files exist."""
    from lakesmith.run.maintenance import Maintenance, result_without_rows
    from lakesmith.store.local import LocalStore

    def vacuum(self: Maintenance, *_: Any) -> Any:
        for folder in self._folders():
            self.format.vacuum(self.session(), folder, 0.0)
        return result_without_rows(self.run_id, self.facts.version)

    _no_lock()
    _put(LocalStore, "_confirmed", lambda *_: ())
    _put(Maintenance, "vacuum", vacuum)


def _few_commits() -> None:
    """The search for a commit reads only the newest twenty."""
    from lakesmith.formats.delta import commit_results, commits

    original: Any = commits.table_commits

    def newest(*which: Any) -> Any:
        return tuple(islice(original(*which), 20))

    for module in (commits, commit_results):
        _put(module, "table_commits", newest)


def _jvm_death_escapes() -> None:
    """Closing the session ignores that the JVM may be dead."""
    from lakesmith.run import execute

    _put(execute, "close_session", lambda session: session.stop())


def _null_is_a_value() -> None:
    """Rows are accepted although a required column is NULL."""
    from lakesmith.quality import rules

    _put(rules, "_is_present", lambda *_: "true")


def _plain_names() -> None:
    """Files with odd names are not listed."""
    from lakesmith.store.local import LocalStore

    original: Any = LocalStore.list

    def listed(self: LocalStore, *which: Any, **how: Any) -> Iterator[Any]:
        return (file for file in original(self, *which, **how) if re.fullmatch(r"[\w./-]+", file.path))

    _put(LocalStore, "list", listed)


def _one_input() -> None:
    """A table with several inputs reads the changes of one of them only."""
    from lakesmith.run import build

    original: Any = vars(build)["inputs_with_changes"]

    def ahead(inputs: dict[str, Any], progress: Any) -> Any:
        return original({name: inputs[name] for name in sorted(inputs)[:1]}, progress)

    _put(build, "inputs_with_changes", ahead)


def _writer() -> type[BatchWriter]:
    from lakesmith.spark.write import BatchWriter

    return BatchWriter


def _put(owner: object, name: str, value: object) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} to replace"
    setattr(owner, name, value)


BUGS: dict[str, Callable[[], None]] = {
    "no fence": _no_fence,
    "no lock": _no_lock,
    "bookmark first": _bookmark_first,
    "cleanup on unknown": _cleanup,
    "vacuum unlocked": _vacuum_unlocked,
    "few commits": _few_commits,
    "jvm death escapes": _jvm_death_escapes,
    "null is a value": _null_is_a_value,
    "plain names": _plain_names,
    "one input": _one_input,
}
