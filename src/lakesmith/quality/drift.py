"""Compare the distribution of a column with earlier batches: PSI and the Kolmogorov-Smirnov distance.

Each batch stores 51 quantiles of its distribution. Values without an order are counted in 32 hash buckets instead. Both
are small and can be compared without the rows.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from lakesmith.quality.measures import POINTS

_LEAST = 1e-4
"""The smallest share of a bin: an empty bin would make the PSI infinite."""
_RESOLUTION = 0.01
"""The share of values that 51 quantiles cannot resolve."""
_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The distribution of a column in one batch."""

    count: int
    points: tuple[float, ...] = ()
    """For ordered values: the quantiles at `POINTS`."""
    buckets: tuple[tuple[int, float], ...] = ()
    """For other values: the number in each hash bucket."""

    @classmethod
    def from_metrics(cls, count: int, text: str | None) -> Distribution:
        """Read the JSON that the SQL aggregate returned."""
        metrics = json.loads(text) if text else []
        if metrics and isinstance(metrics[0], dict):
            return cls(count=count, buckets=tuple(sorted((round(each["x"]), each["y"]) for each in metrics)))
        return cls(count=count, points=tuple(float(each) for each in metrics))

    @classmethod
    def from_json(cls, text: str) -> Distribution:
        """Read what `to_json` wrote."""
        stored = json.loads(text)
        buckets = tuple((number, count) for number, count in stored["buckets"])
        return cls(count=stored["count"], points=tuple(stored["points"]), buckets=buckets)

    def to_json(self) -> str:
        """Return the distribution as JSON, to be stored with the check result."""
        return json.dumps({"count": self.count, "points": self.points, "buckets": self.buckets})

    def below(self, value: float) -> float:
        """Return the share of values that are not greater than `value`."""
        points = self.points
        at = bisect_right(points, value)
        if at == 0:
            return 0.0
        if at == len(points):
            return 1.0
        low, high = points[at - 1], points[at]
        return POINTS[at - 1] + (POINTS[at] - POINTS[at - 1]) * (value - low) / (high - low)

    def share(self, bucket: int) -> float:
        """Return the share of values in a bucket."""
        return dict(self.buckets).get(bucket, 0.0) / self.count if self.count else 0.0


def psi(now: Distribution, before: Sequence[Distribution]) -> float:
    """Return the population stability index. Below 0.1 means the same distribution, above 0.2 a different one."""
    if now.points:
        edges = _edges(before)
        least = min(each.points[0] for each in before)
        # Values below every earlier value have a bin of their own.
        under = sum(1 for point in now.points if point < least) / len(now.points)
        ours = [max(under, _RESOLUTION), *_bin_shares([now.below(edge) for edge in edges], under)]
        theirs = [_RESOLUTION, *_bin_shares([_pooled(before, edge) for edge in edges])]
    else:
        ours, theirs = _bucket_shares(now, before)
    pairs = [(max(our, _LEAST), max(their, _LEAST)) for our, their in zip(ours, theirs, strict=True)]
    return sum((our - their) * math.log(our / their) for our, their in pairs)


def ks(now: Distribution, before: Sequence[Distribution]) -> float:
    """Return the greatest distance between the two cumulative distributions, or between the bucket shares."""
    if now.points:
        every = sorted({*now.points, *(point for each in before for point in each.points)})
        return max((abs(now.below(point) - _pooled(before, point)) for point in every), default=0.0)
    ours, theirs = _bucket_shares(now, before)
    return max((abs(our - their) for our, their in zip(ours, theirs, strict=True)), default=0.0)


def _pooled(batches: Sequence[Distribution], value: float) -> float:
    """Return the share of all earlier values that are not greater than `value`."""
    total = sum(batch.count for batch in batches)
    return sum(batch.count * batch.below(value) for batch in batches) / total


def _edges(batches: Sequence[Distribution]) -> list[float]:
    """Return values that split the earlier batches into bins of about equal size."""
    every = sorted({point for batch in batches for point in batch.points})
    shares = [_pooled(batches, point) for point in every]
    edges = [
        next((point for point, share in zip(every, shares, strict=True) if share >= number / _BINS), every[-1])
        for number in range(1, _BINS)
    ]
    return sorted(set(edges))


def _bin_shares(shares: Sequence[float], start: float = 0.0) -> list[float]:
    """Return the share of each bin from the cumulative shares at its edges; `start` lies before the first bin."""
    return [max(high - low, 0.0) for low, high in zip([start, *shares], [*shares, 1.0], strict=True)]


def _bucket_shares(now: Distribution, before: Sequence[Distribution]) -> tuple[list[float], list[float]]:
    every = sorted({number for each in (now, *before) for number, _ in each.buckets})
    total = sum(batch.count for batch in before)
    theirs = [sum(batch.share(bucket) * batch.count for batch in before) / total for bucket in every]
    return [now.share(bucket) for bucket in every], theirs
