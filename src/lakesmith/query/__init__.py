"""Runs SQL over the lake's tables without a JVM: one module per engine, all behind `ports.QueryEngine`."""

from lakesmith.query.at import At, parse_at
from lakesmith.query.duckdb import DuckDB
from lakesmith.query.names import match_tables
from lakesmith.query.profile import ProfileInput, profile

__all__ = ["At", "DuckDB", "ProfileInput", "match_tables", "parse_at", "profile"]
