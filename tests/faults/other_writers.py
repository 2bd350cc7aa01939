"""Other writers that commit to a lake's tables: delta-rs, Spark with Delta's own log store, and a manual writer.

No commit changes the bag of rows of a table: the next commit deletes added rows. These writers can race with Lakesmith:

- delta-rs and the manual writer create a version's file with a hard link, so of two writers one wins. They commit at
  any moment, also while Lakesmith's processes run.
- Delta's own log store checks whether a version's file exists, and then renames over it. Two writers in two processes
  can both succeed, and one commit is lost. So Spark commits only while no process of Lakesmith can: each is dead, or
  stopped at a failpoint at which its JVM commits nothing.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.faults.foreign_log import Foreign, digest, log_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

BatchWriter = Literal["hand", "delta-rs", "spark"]
KINDS: dict[BatchWriter, tuple[str, ...]] = {
    "hand": ("bare", "info", "mixed"),
    "delta-rs": ("properties", "optimize", "pair", "empty"),
    "spark": ("properties", "optimize", "pair", "empty"),
}
RACED: dict[BatchWriter, tuple[str, ...]] = {"hand": KINDS["hand"], "delta-rs": ("properties", "empty")}
"""The commits that are possible while Lakesmith's processes run. An append and its delete are not: between them, a run
would read rows that the oracle does not know."""
_MARK = -1000
"""The value that marks a row that another writer adds and deletes."""
_MARKED = ("seq", "n", "left_n", "id")
_TRIES = 50


@dataclass(frozen=True, slots=True)
class Burst:
    """Commits of one writer to one table, one after the other."""

    writer: BatchWriter
    kind: str
    count: int
    table: str
    when: str

    def __str__(self) -> str:
        return f"{self.count} {self.kind} by {self.writer} to {self.table} {self.when}"


def draw_burst(choose: random.Random, table: str, when: str, *, spark: bool) -> Burst:
    """Draw a burst. The manual writer often commits twenty times or more, because that costs nothing."""
    if table.startswith("quarantine."):
        return Burst("hand", choose.choice(KINDS["hand"]), choose.choice((1, 5, 21, 40)), table, when)
    raced = when == "beside"
    writers: dict[BatchWriter, tuple[str, ...]] = RACED if raced else KINDS
    writer = choose.choice([each for each in writers if spark or each != "spark"])
    kind = choose.choice(writers[writer])
    most = {"hand": (1, 5, 21, 25, 40), "delta-rs": (1, 2, 5, 22), "spark": (1, 2, 3)}[writer]
    return Burst(writer, kind, choose.choice(most), table, when)


class Writers:
    """The other writers. Spark starts when it is first needed."""

    def __init__(self) -> None:
        self._spark: _Spark | None = None
        self.commits = 0

    def commit(self, warehouse: Path, burst: Burst) -> list[Foreign]:
        """Make the commits of a burst; do nothing if the table does not exist yet."""
        log = log_folder(warehouse, burst.table)
        if not (log / f"{0:020}.json").is_file():
            return []
        match burst.writer:
            case "hand":
                versions = [_by_hand(log, burst.kind, number) for number in range(burst.count)]
            case "delta-rs":
                versions = [v for number in range(burst.count) for v in _by_delta_rs(log.parent, burst.kind, number)]
            case "spark":
                self._spark = self._spark or _Spark()
                before = _newest(log)
                self._spark.commit(log.parent, burst.kind, burst.count)
                versions = list(range(before + 1, _newest(log) + 1))
        self.commits += len(versions)
        between = set(versions[:-1]) if burst.kind == "pair" else set()
        return [
            Foreign(burst.table, each, digest(log / f"{each:020}.json"), between=each in between) for each in versions
        ]

    def close(self) -> None:
        if self._spark is not None:
            self._spark.close()


def _newest(log: Path) -> int:
    return max(int(path.stem) for path in log.glob("*.json"))


def _by_hand(log: Path, kind: str, number: int) -> int:
    info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "MANUAL", "operationParameters": {}}}
    app = {"txn": {"appId": f"foreign-{uuid.uuid4()}", "version": number}}
    actions: Sequence[Any] = (app,) if kind == "bare" or (kind == "mixed" and number % 2) else (info,)
    temporary = log.parent / f".foreign-{uuid.uuid4()}"
    temporary.write_text("".join(json.dumps(action) + "\n" for action in actions))
    try:
        version = _newest(log) + 1
        while True:
            try:
                os.link(temporary, log / f"{version:020}.json")
            except FileExistsError:
                version += 1
                continue
            return version
    finally:
        temporary.unlink()


def _by_delta_rs(folder: Path, kind: str, number: int) -> list[int]:
    """Commit once, or twice for a pair; never if there is nothing to compact."""
    from deltalake import DeltaTable

    match kind:
        case "properties":
            properties = {"foreign.note": f"{number}"}
            return [_retried(folder, lambda table: table.alter.set_table_properties(properties, False))]
        case "optimize":
            before = DeltaTable(folder).version()
            version = _retried(folder, lambda table: table.optimize.compact())
            return [version] if version > before else []
        case "empty":
            return [_empty(folder)]
        case _:
            return _pair(folder)


def _empty(folder: Path) -> int:
    """Commit no action. delta-rs does not return the version, so the commit is found by its mark."""
    from deltalake import CommitProperties

    mark = str(uuid.uuid4())
    properties = CommitProperties(custom_metadata={"foreign": mark})
    before = _retried(
        folder, lambda table: table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
    )
    log = folder / "_delta_log"
    commits = (log / f"{version:020}.json" for version in range(before + 1, _newest(log) + 1))
    return next(int(commit.stem) for commit in commits if mark in commit.read_text())


def _retried(folder: Path, commit: Callable[[DeltaTable], object]) -> int:
    """Commit and return the version. Another writer may win the next version, so retry."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    for _ in range(_TRIES):
        table = DeltaTable(folder)
        try:
            commit(table)
        except CommitFailedError:
            continue
        return table.version()
    raise AssertionError(f"{folder}: no commit in {_TRIES} tries")


def _pair(folder: Path) -> list[int]:
    """Add a marked copy of a row, and delete it."""
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    table = DeltaTable(folder)
    rows = pa.table(QueryBuilder().register("rows", table).execute("SELECT * FROM rows LIMIT 1"))
    if rows.num_rows == 0:
        return []
    name = next(each for each in _MARKED if each in rows.column_names)
    at = rows.column_names.index(name)
    marked = rows.set_column(at, rows.schema.field(at), pa.array([_MARK], rows.schema.field(at).type))
    write_deltalake(table, marked, mode="append")
    added = DeltaTable(folder).version()
    return [added, _retried(folder, lambda newest: newest.delete(f"{name} = {_MARK}"))]


class _Spark:
    """A Spark with Delta's own log store, in its own process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.other_writers"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def commit(self, folder: Path, kind: str, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(folder), kind, count]) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "done\n", f"the other Spark has ended: {line}"

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    """Start Spark, and make the requested commits."""
    from lakesmith.jvm import session

    for key in [key for key in session.DELTA if "logStore" in key]:
        del session.DELTA[key]
    spark = session.open_session("foreign", {**session.BRIEF, "spark.driver.memory": "1g"}, ("delta",), brief=True)
    assert spark.conf.get("spark.delta.logStore.file.impl", None) is None
    # Otherwise an append without rows makes no commit.
    spark.conf.set("spark.databricks.delta.skipRecordingEmptyCommits", "false")
    _say_done()
    for line in sys.stdin:
        folder, kind, count = json.loads(line)
        for number in range(count):
            _by_spark(spark, folder, kind, number)
        _say_done()
    spark.stop()


def _say_done() -> None:
    sys.stdout.write("done\n")
    sys.stdout.flush()


def _by_spark(spark: Any, folder: str, kind: str, number: int) -> None:
    from pyspark.sql.functions import lit

    name = f"delta.`{folder}`"
    rows = spark.read.format("delta").load(folder)
    match kind:
        case "properties":
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('foreign.note' = '{number}')")
        case "optimize":
            spark.sql(f"OPTIMIZE {name}")
        case "empty":
            rows.limit(0).write.format("delta").mode("append").save(folder)
        case _:
            marked = next(each for each in _MARKED if each in rows.columns)
            value = lit(_MARK).cast(rows.schema[marked].dataType)
            rows.limit(1).withColumn(marked, value).write.format("delta").mode("append").save(folder)
            spark.sql(f"DELETE FROM {name} WHERE {marked} = {_MARK}")


if __name__ == "__main__":
    main()
