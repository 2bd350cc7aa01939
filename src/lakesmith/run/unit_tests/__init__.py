"""Runs unit tests for tables: on the rows of a test, or on empty tables."""

from lakesmith.run.unit_tests.empty_tables import check_empty_tables
from lakesmith.run.unit_tests.runner import run_unit_tests

__all__ = ["check_empty_tables", "run_unit_tests"]
