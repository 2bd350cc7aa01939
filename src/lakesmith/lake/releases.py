"""Releases: versions of all tables that were made from each other."""

from __future__ import annotations

from lakesmith.errors import UsageError, did_you_mean
from lakesmith.lake.open_lake import OpenLake
from lakesmith.records import ReleaseRecord
from lakesmith.reports import Release

LATEST = "latest"
"""Names the newest release."""


def releases(lake: OpenLake, *, limit: int = 20) -> tuple[Release, ...]:
    """The newest releases. A run that succeeds records one when all tables are made from each other's versions."""
    records_of: dict[str, list[ReleaseRecord]] = {}
    for record in lake.ledger.releases(limit):
        records_of.setdefault(record.release, []).append(record)
    return tuple(
        Release(
            release=release,
            released_at=records[0].released_at,
            tables={record.table: record.version for record in records},
        )
        for release, records in records_of.items()
    )


def released_tables(lake: OpenLake, release: str) -> dict[str, ReleaseRecord]:
    """The tables of a release by name; `latest` is the newest release."""
    records = lake.ledger.releases(1) if release == LATEST else lake.ledger.release(release)
    if not records:
        newest = [each.release for each in releases(lake, limit=12)]
        raise UsageError(
            "unknown-release",
            f"there is no release {release!r}",
            hint=did_you_mean(release, newest, label="newest releases")
            if newest
            else "a successful run creates one when every table is up to date",
        )
    return {record.table: record for record in records}
