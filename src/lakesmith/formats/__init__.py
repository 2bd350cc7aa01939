"""Table formats behind one port."""

from lakesmith.formats.delta import Delta, FactsCache

__all__ = ["Delta", "FactsCache"]
