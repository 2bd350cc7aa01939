"""Load YAML, SQL and Python files into declarations, and report their problems."""

from lakesmith.load.lake import load_lake
from lakesmith.load.python import call_function, call_predicate, import_function
from lakesmith.load.schema import json_schema
from lakesmith.load.tests import load_tests

__all__ = ["call_function", "call_predicate", "import_function", "json_schema", "load_lake", "load_tests"]
