"""Runs the steps of a plan: several tables at a time, each table's batch pinned, committed and recorded."""

from lakesmith.run.execute import Executor

__all__ = ["Executor"]
