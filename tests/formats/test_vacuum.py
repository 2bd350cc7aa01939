"""The retention time of a vacuum."""

from __future__ import annotations

import pytest

from lakesmith.formats.delta.vacuum import whole_hours


@pytest.mark.parametrize(
    ("minutes", "hours"),
    [(0, 0), (30, 0.5), (60, 1), (80, 2), (168 * 60, 168), (168 * 60 + 0.5, 168), (168 * 60 + 9, 169)],
)
def test_no_file_younger_than_the_retention_time_is_deleted(minutes: float, hours: float) -> None:
    assert whole_hours(minutes * 60) == hours * 3600
