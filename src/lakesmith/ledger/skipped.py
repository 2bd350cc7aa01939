"""The skipped landing entries that runs have reported, cached because every plan needs them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lakesmith.cache import read_cache, write_cache
from lakesmith.declare import TableName
from lakesmith.ledger.tables import Ledger
from lakesmith.ports import SkippedEntry, TableFacts

_Key = tuple[str, str, str]
"""Table, path and code: a path is reported again for another reason."""


class ReportedEntries:
    """The reported entries, in a cache file that follows the version of their table."""

    def __init__(self, ledger: Ledger, file: Path) -> None:
        self._ledger = ledger
        self._file = file

    def without(
        self, skipped: Mapping[TableName, tuple[SkippedEntry, ...]], facts: TableFacts | None
    ) -> Mapping[TableName, tuple[SkippedEntry, ...]]:
        """Return the entries that no run has reported; `facts` are those of the table that stores the reports."""
        if facts is None:
            return skipped
        reported = self._read(facts)
        return {
            name: tuple(entry for entry in entries if (str(name), entry.path, entry.code) not in reported)
            for name, entries in skipped.items()
        }

    def _read(self, facts: TableFacts) -> frozenset[_Key]:
        state = [facts.table_id, facts.version]
        cached = read_cache(self._file)
        try:
            if cached["state"] == state:
                return frozenset((table, file, code) for table, file, code in cached["reported"])
        except (KeyError, TypeError, ValueError):  # written by another version of Lakesmith
            pass
        reported = [(record.table, record.file, record.code) for record in self._ledger.skipped()]
        write_cache(self._file, {"state": state, "reported": reported})
        return frozenset(reported)
