"""Checks become SQL expressions that are judged in the pass that moves the rows anyway."""

from lakesmith.quality.judge import Found, Past, Verdict, alike, judge
from lakesmith.quality.measures import Measure
from lakesmith.quality.rules import UNREADABLE, RowRule, Rules, looked_up, only_readability, rules_of

__all__ = [
    "UNREADABLE",
    "Found",
    "Measure",
    "Past",
    "RowRule",
    "Rules",
    "Verdict",
    "alike",
    "judge",
    "looked_up",
    "only_readability",
    "rules_of",
]
