"""Compile checks to SQL expressions that Spark evaluates in the same pass that writes the rows."""

from lakesmith.quality.judge import CheckVerdict, Measurements, PastResult, judge
from lakesmith.quality.measures import Measure
from lakesmith.quality.rules import UNREADABLE, RowRule, Rules, checks_only_readability, referenced_tables, rules_of

__all__ = [
    "UNREADABLE",
    "CheckVerdict",
    "Measure",
    "Measurements",
    "PastResult",
    "RowRule",
    "Rules",
    "checks_only_readability",
    "judge",
    "referenced_tables",
    "rules_of",
]
