"""Checks become SQL expressions that are judged in the pass that moves the rows anyway."""

from lakesmith.quality.rules import UNREADABLE, Expectation, RowRule, Rules, only_readability, rules_of

__all__ = ["UNREADABLE", "Expectation", "RowRule", "Rules", "only_readability", "rules_of"]
