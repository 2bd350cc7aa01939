"""The only wiring: a lake that was opened answers every verb. The CLI and the integrations call nothing else."""

from lakesmith.lake.whole import Lake

__all__ = ["Lake"]
