"""How far the values of a batch are spread from those of the batches before: PSI and Kolmogorov and Smirnov's distance.

A batch is remembered by 51 points of its distribution, or by how many of its values fall into each of 32 buckets where
they have no order. Both are small, and can be compared without the rows.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from lakesmith.quality.measures import POINTS

_LEAST = 1e-4
"""A share is never taken for less: a bin that was empty once would else be infinitely far away."""
_HALF_A_POINT = 0.01
"""Less of a distribution than lies between two points of it is not seen."""
_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of a column in one batch."""

    count: int
    points: tuple[float, ...] = ()
    """Of values in order, those at the parts `POINTS` of them."""
    buckets: tuple[tuple[int, float], ...] = ()
    """Of others, how many fall into each bucket."""

    @classmethod
    def read(cls, count: int, text: str | None) -> Spread:
        found = json.loads(text) if text else []
        if found and isinstance(found[0], dict):
            return cls(count=count, buckets=tuple(sorted((round(each["x"]), each["y"]) for each in found)))
        return cls(count=count, points=tuple(float(each) for each in found))

    @classmethod
    def kept(cls, text: str) -> Spread:
        told = json.loads(text)
        return cls(
            count=told["count"],
            points=tuple(told["points"]),
            buckets=tuple((number, count) for number, count in told["buckets"]),
        )

    def keep(self) -> str:
        """As text, which `kept` reads."""
        return json.dumps({"count": self.count, "points": self.points, "buckets": self.buckets})

    def below(self, value: float) -> float:
        """Which part of the values is not greater."""
        points = self.points
        at = bisect_right(points, value)
        if at == 0:
            return 0.0
        if at == len(points):
            return 1.0
        low, high = points[at - 1], points[at]
        return POINTS[at - 1] + (POINTS[at] - POINTS[at - 1]) * (value - low) / (high - low)

    def share(self, bucket: int) -> float:
        return dict(self.buckets).get(bucket, 0.0) / self.count if self.count else 0.0


def psi(now: Spread, before: Sequence[Spread]) -> float:
    """The population stability index: under 0.1 is taken for the same, over 0.2 for another distribution."""
    if now.points:
        edges = _edges(before)
        least = min(each.points[0] for each in before)
        # What lies under all that was seen has a bin of its own.
        under = sum(1 for point in now.points if point < least) / len(now.points)
        ours = [max(under, _HALF_A_POINT), *_parts([now.below(edge) for edge in edges], under)]
        theirs = [_HALF_A_POINT, *_parts([_together(before, edge) for edge in edges])]
    else:
        ours, theirs = _bucket_shares(now, before)
    pairs = [(max(our, _LEAST), max(their, _LEAST)) for our, their in zip(ours, theirs, strict=True)]
    return sum((our - their) * math.log(our / their) for our, their in pairs)


def ks(now: Spread, before: Sequence[Spread]) -> float:
    """The greatest distance between the two cumulative distributions; of buckets, between their shares."""
    if now.points:
        every = sorted({*now.points, *(point for each in before for point in each.points)})
        return max((abs(now.below(point) - _together(before, point)) for point in every), default=0.0)
    ours, theirs = _bucket_shares(now, before)
    return max((abs(our - their) for our, their in zip(ours, theirs, strict=True)), default=0.0)


def _together(batches: Sequence[Spread], value: float) -> float:
    total = sum(batch.count for batch in batches)
    return sum(batch.count * batch.below(value) for batch in batches) / total


def _edges(batches: Sequence[Spread]) -> list[float]:
    """Values that part the batches before into bins of about the same size."""
    every = sorted({point for batch in batches for point in batch.points})
    shares = [_together(batches, point) for point in every]
    edges = [
        next((point for point, share in zip(every, shares, strict=True) if share >= number / _BINS), every[-1])
        for number in range(1, _BINS)
    ]
    return sorted(set(edges))


def _parts(shares: Sequence[float], start: float = 0.0) -> list[float]:
    """The shares between edges, of which those up to each are given; `start` of them lie before the first bin."""
    return [max(high - low, 0.0) for low, high in zip([start, *shares], [*shares, 1.0], strict=True)]


def _bucket_shares(now: Spread, before: Sequence[Spread]) -> tuple[list[float], list[float]]:
    every = sorted({number for each in (now, *before) for number, _ in each.buckets})
    total = sum(batch.count for batch in before)
    theirs = [sum(batch.share(bucket) * batch.count for batch in before) / total for bucket in every]
    return [now.share(bucket) for bucket in every], theirs
