"""Put files into landing folders, and adopt folders of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lakesmith.declare import Files
from lakesmith.errors import UsageError
from lakesmith.lake.open_lake import OpenLake
from lakesmith.reports import Adopted
from lakesmith.store import LandingProgress, LandingReport
from lakesmith.store import land as storage_land


def land_files(
    lake: OpenLake,
    files: Sequence[str | Path],
    *,
    to: str,
    name: str | None = None,
    on_progress: Callable[[LandingProgress], None] | None = None,
) -> LandingReport:
    """Copy files into a bronze table's landing folder. A reader sees each file complete or not at all."""
    table = lake.tables[lake.table_name(to)]
    if not isinstance(table.origin, Files):
        raise UsageError(
            "no-landing-zone",
            f"{to} does not read files",
            table=to,
            hint="name a bronze table with the source `files`",
        )
    storage, glob = lake.landings[table.name]
    return storage_land(storage, glob, files, table=to, name=name, on_progress=on_progress)


def adopt(lake: OpenLake, table: str) -> Adopted:
    """Turn the folder of Parquet files that a bronze table adopts into a Delta table. Writes a log and moves no row."""
    name = lake.table_name(table)
    location = lake.tables[name].adopted
    if location is None:
        raise UsageError(
            "not-adopting",
            f"{name} does not adopt a table",
            hint=f"only a table with the source `adopt: PATH` does; see {lake.tables[name].declared_at.file}",
        )
    if facts := lake.table_facts(name):
        return Adopted(table=str(name), location=location, files=facts.files, rows=facts.rows, created=False)
    lake.format.adopt(lake.warehouse.table(name))
    facts = lake.table_facts(name)
    assert facts is not None
    return Adopted(table=str(name), location=location, files=facts.files, rows=facts.rows, created=True)
