"""The recorded contract versions, cached because every plan needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from lakesmith.cache import read_cache, write_cache
from lakesmith.contracts import PublishedContract, published_from
from lakesmith.ledger.tables import Ledger
from lakesmith.ports import TableFacts
from lakesmith.records import ContractRecord


class RecordedContracts:
    """The recorded contract versions, in a cache file that follows the version of their table."""

    def __init__(self, ledger: Ledger, file: Path) -> None:
        self._ledger = ledger
        self._file = file

    def read(self, facts: TableFacts | None) -> Mapping[str, Sequence[PublishedContract]]:
        """Return the contract versions by table, the newest first; `facts` are those of the table that stores them."""
        if facts is None:
            return {}
        state = [facts.table_id, facts.version]
        cached = read_cache(self._file)
        try:
            if cached["state"] == state:
                return published_from(_decoded(record) for record in cached["records"])
        except (KeyError, TypeError, ValueError):  # written by another version of Lakesmith
            pass
        records = self._ledger.contracts()
        rows = [dataclasses.asdict(record) for record in records]
        write_cache(self._file, {"state": state, "records": rows}, default=datetime.isoformat)
        return published_from(records)


def _decoded(stored: dict[str, str]) -> ContractRecord:
    return ContractRecord(**{**stored, "recorded_at": datetime.fromisoformat(stored["recorded_at"])})  # type: ignore[arg-type]
