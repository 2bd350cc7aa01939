"""Table formats behind one port."""

from lakesmith.formats.delta import Delta, FactsMemory

__all__ = ["Delta", "FactsMemory"]
