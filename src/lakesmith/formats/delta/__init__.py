"""Delta Lake: its log is read by delta-rs without a JVM, its rows move on Spark."""

from __future__ import annotations

from lakesmith.formats.delta.memory import FactsMemory
from lakesmith.formats.delta.rows import DeltaRows
from lakesmith.ports import Capability


class Delta(DeltaRows):
    """The Delta adapter of the table port."""

    name = "delta"
    capabilities = frozenset(Capability)


__all__ = ["Delta", "FactsMemory"]
