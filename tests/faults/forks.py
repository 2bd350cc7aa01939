"""Processes that are forked from one that knows their libraries already, so that each begins at once."""

from __future__ import annotations

from multiprocessing import get_context

FORKS = get_context("forkserver")
# One list for all: the last one that is set counts, whoever sets it.
FORKS.set_forkserver_preload(
    [
        "tests.faults.sleeper",
        "tests.faults.victim",
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
