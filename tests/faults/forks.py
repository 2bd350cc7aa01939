"""Processes forked from one that has loaded their libraries, so that they start fast."""

from __future__ import annotations

from multiprocessing import get_context

FORKS = get_context("forkserver")
# One list for all users: only the last list that is set counts.
FORKS.set_forkserver_preload(
    [
        "tests.faults.suspendable_command",
        "tests.faults.lake_process",
        "deltalake",
        "duckdb",
        "pandas",
        "pyarrow.csv",
        "pyarrow.json",
        "pyarrow.parquet",
        "pyspark.sql.classic.dataframe",
        "sqlglot.dialects.spark",
        "lakesmith.intake",
        "lakesmith.sqlproof.statement",
        "lakesmith.run",
    ]
)
