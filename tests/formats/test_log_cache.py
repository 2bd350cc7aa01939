"""Commits in object stores are read once, until their table is dropped and created again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from tests.servers.s3 import S3Server

from lakesmith.formats.delta.append_arrow import append_arrow
from lakesmith.formats.delta.commits import table_commits
from lakesmith.formats.delta.log_cache import cached_commit
from lakesmith.formats.delta.snapshot import open_snapshot
from lakesmith.ports import TableFolder
from lakesmith.store import folder_at, open_store


@pytest.mark.servers
def test_a_table_that_was_dropped_and_created_again_has_its_own_commits(s3: S3Server) -> None:
    url = f"s3://{s3.bucket()}"
    folder = TableFolder(open_store(f"{url}/warehouse", {url: s3.settings()}), "silver/orders")
    for columns in ("first", "second"):
        append_arrow(folder, pa.table({columns: pa.array([1], pa.int64())}))
        (commit,) = table_commits(folder)
        assert open_snapshot(folder).schema().fields[0].name == columns
        assert cached_commit(folder, 0, lambda: b"").count(columns.encode()) > 0
        assert commit.version == 0
        folder.delete([file.key for file in folder.list()])


def test_commits_on_a_disk_are_read_and_checked_each_time(tmp_path: Path) -> None:
    folder = folder_at(str(tmp_path / "t"))
    assert [cached_commit(folder, 0, partial(bytes, found)) for found in (b"1", b"2")] == [b"1", b"2"]
