"""Counts a batch: how many rows came, which rules they broke, and what the batch rules found."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.quality import Rules
from lakesmith.quality.rules import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many rows came, and how many broke which rule."""

    came: int
    refused: int
    broken: Mapping[str, int]
    expected: Mapping[str, bool]
    observed: Mapping[str, str]


class Watch:
    """Counts rows while they are written, so that counting costs no pass of its own."""

    def __init__(self, rules: Rules) -> None:
        from pyspark.sql import Observation

        self._rules = rules
        self._came: Observation = Observation(f"came-{uuid.uuid4().hex}")
        self._good: Observation | None = Observation(f"good-{uuid.uuid4().hex}") if rules.batch else None

    def good(self, checked: DataFrame) -> DataFrame:
        rows = good_rows(_observed(checked, self._came, _row_metrics(self._rules)), self._rules)
        return _observed(rows, self._good, _batch_metrics(self._rules)) if self._good else rows

    def counts(self) -> Counts:
        return _counts(self._rules, self._came.get, self._good.get if self._good else {})


def count(checked: DataFrame, rules: Rules) -> Counts:
    """Count a batch that is held, in one job: row rules on all rows, batch rules on the good ones."""
    from pyspark.sql import Observation

    came = Observation(f"came-{uuid.uuid4().hex}")
    rows = good_rows(_observed(checked, came, _row_metrics(rules)), rules)
    metrics = {"good": "count(*)", **_batch_metrics(rules)}
    found = rows.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in metrics.items())).collect()[0]
    return _counts(rules, came.get, found.asDict())


def _observed(rows: DataFrame, observation: Observation, metrics: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.observe(observation, *(F.expr(sql).alias(name) for name, sql in metrics.items()))


def _row_metrics(rules: Rules) -> dict[str, str]:
    broken = {f"rule_{index}": rules.broken(rule) for index, rule in enumerate(rules.rows)}
    return {"came": "count(*)", "refused": f"count_if({rules.refused()})", **broken}


def _batch_metrics(rules: Rules) -> dict[str, str]:
    metrics = {}
    for index, rule in enumerate(rules.batch):
        metrics[f"expect_{index}"] = f"coalesce({rule.condition}, false)"
        for number, sql in enumerate(rule.aggregates()):
            metrics[f"value_{index}_{number}"] = f"CAST({sql} AS string)"
    return metrics


def _counts(rules: Rules, rows: Mapping[str, object], batch: Mapping[str, object]) -> Counts:
    # Spark may leave out the metrics of a plan that it found to be empty.
    numbers = {name: int(str(value)) for name, value in rows.items()}
    return Counts(
        came=numbers.get("came", 0),
        refused=numbers.get("refused", 0),
        broken={rule.name: numbers.get(f"rule_{index}", 0) for index, rule in enumerate(rules.rows)},
        expected={rule.name: bool(batch.get(f"expect_{index}")) for index, rule in enumerate(rules.batch)},
        observed={
            rule.name: ", ".join(
                f"{sql} = {batch.get(f'value_{index}_{number}')}" for number, sql in enumerate(rule.aggregates())
            )
            for index, rule in enumerate(rules.batch)
        },
    )


def good_rows(checked: DataFrame, rules: Rules) -> DataFrame:
    """The rows that no rule refuses."""
    return checked.where(f"NOT ({rules.refused()})")
