"""The imports of planning before there is SQL to read."""

from __future__ import annotations

import subprocess
import sys

import pytest

_MODULES = [
    "plan.graph",
    "plan.select",
    "plan.planner",
    "plan.explain",
    "plan.lineage",
    "plan.fingerprint",
    "sqlproof.query",
]


@pytest.mark.parametrize("module", _MODULES)
def test_sqlglot_is_not_imported_until_there_is_sql_to_read(module: str) -> None:
    code = f"import sys, lakesmith.{module}; print([m for m in ('sqlglot', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
