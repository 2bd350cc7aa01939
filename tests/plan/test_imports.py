"""What planning costs before there is SQL to read."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["graph", "select", "planner", "explain", "lineage", "query", "fingerprint"])
def test_sqlglot_is_not_imported_until_there_is_sql_to_read(module: str) -> None:
    told = f"import sys, lakesmith.plan.{module}; print([m for m in ('sqlglot', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
