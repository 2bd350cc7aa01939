"""How many requests a small run makes on S3. A store bills each of them, and each takes a round trip."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from tests.run.lakes import Written, place
from tests.servers.s3 import S3Server

from lakesmith.formats.delta.append_arrow import append_arrow
from lakesmith.formats.delta.snapshot import open_snapshot
from lakesmith.ports import TableFolder
from lakesmith.store import open_store

pytestmark = pytest.mark.servers

_LINE = re.compile(r"s3_(?P<operation>\w+) (?P<key>\S+) (?P<url>\S+) \d{3} ")
_KINDS = {
    "ListObjectsV2": "LIST",
    "GetObject": "GET",
    "HeadObject": "HEAD",
    "PutObject": "PUT",
    "DeleteObject": "DELETE",
    "DeleteObjects": "DELETE",
}


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A request, as the store counts it."""

    by: str
    """`Spark`, or `Lakesmith` for its own requests and those of delta-rs."""
    kind: str
    key: str
    """Relative to the warehouse; for a listing, the prefix."""

    @property
    def folder(self) -> str:
        """The folder that a table of requests names."""
        parts = self.key.split("/")
        if "_delta_log" in parts:
            return "/".join(parts[: parts.index("_delta_log") + 1])
        return "/".join(parts[: 3 if parts[0] == "quarantine" else 2])


@dataclass(slots=True)
class RequestLog:
    """The requests for one lake."""

    server: S3Server
    bucket: str
    _read: int = field(default=0)

    def take(self) -> list[StoreRequest]:
        """The requests since the last call."""
        lines = self.server.log.read_text().splitlines()
        taken, self._read = lines[self._read :], len(lines)
        found = []
        for line in taken:
            match = _LINE.search(line)
            if match is None or f"/{self.bucket}" not in match["url"]:
                continue
            prefix = parse_qs(urlsplit(match["url"]).query).get("prefix", [""])[0]
            key = (prefix if match["key"] == "-" else match["key"]).removeprefix("warehouse/")
            by = "Spark" if "hadoop" in line.lower() else "Lakesmith"
            found.append(StoreRequest(by, _KINDS.get(match["operation"], match["operation"]), key))
        return found


def shown(requests: Sequence[StoreRequest]) -> str:
    """A table of requests by folder."""
    kinds = tuple(dict.fromkeys([*_KINDS.values(), *(each.kind for each in requests)]))
    counts = Counter((each.folder, each.by, each.kind) for each in requests)
    lines = [f"{'folder':48}{'by':10}" + "".join(f"{kind:>8}" for kind in kinds)]
    for folder, by in sorted({(each.folder, each.by) for each in requests}):
        lines.append(f"{folder:48}{by:10}" + "".join(f"{counts[folder, by, kind] or '':>8}" for kind in kinds))
    return "\n".join([*lines, f"{len(requests)} requests"])


MOST = {"bronze.orders": 100, "silver.orders": 140, "gold.sales": 145}
"""The most requests that a run of one table may make, with its plan, its bookmarks and the system tables."""


@pytest.mark.spark
def test_a_small_append_merge_and_refresh_make_few_requests(
    orders: Written, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "server", s3)
    for day in (1, 2):
        orders.land(f"orders/{day}.json", {"id": day, "amount": 10, "day": "d1", "at": day})
        orders.run()
    log = RequestLog(s3, (orders.folder / ".lakesmith" / "warehouse").resolve().parent.name)
    log.take()
    orders.land("orders/3.json", {"id": 1, "amount": 11, "day": "d1", "at": 3})
    for table, most in MOST.items():
        assert list(orders.run(table)) == [table]
        requests = log.take()
        sys.stdout.write(f"\n{table}\n{shown(requests)}\n")
        assert len(requests) <= most, shown(requests)
        assert [each.key for each in requests if each.folder == "_lakesmith/probe"] == []
        own = re.compile(rf"{table.replace('.', '/')}/_delta_log/\d{{20}}\.json")
        assert sum(each.kind == "PUT" and own.fullmatch(each.key) is not None for each in requests) == 1


def test_a_known_table_is_opened_with_one_listing_and_reads_only_new_commits(s3: S3Server) -> None:
    bucket = s3.bucket()
    url = f"s3://{bucket}"
    store = open_store(f"{url}/warehouse", {url: s3.settings()})
    folder, log = TableFolder(store, "silver/orders"), RequestLog(s3, bucket)
    rows = pa.table({"id": pa.array([1], pa.int64())})
    for _ in range(3):
        append_arrow(folder, rows)
    assert open_snapshot(folder).version() == 2
    log.take()
    append_arrow(folder, rows)
    assert [each.kind for each in log.take() if each.folder.endswith("_delta_log")] == ["LIST", "PUT"]
    assert open_snapshot(folder).version() == 3
    listings_and_reads = Counter((each.kind, each.key.rpartition("/")[2]) for each in log.take())
    # One listing is Lakesmith's: it shows whether the table is still the same one. The other is of delta-rs.
    assert listings_and_reads == {("LIST", ""): 2, ("GET", f"{3:020}.json"): 2}
    assert open_snapshot(folder).version() == 3
    assert [each.kind for each in log.take()] == ["LIST"]
