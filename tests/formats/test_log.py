"""What Delta's log is asked without a JVM."""

from __future__ import annotations

import pytest

from lakesmith.formats.delta.log import whole_hours


@pytest.mark.parametrize(
    ("minutes", "hours"),
    [(0, 0), (30, 0.5), (60, 1), (80, 2), (168 * 60, 168), (168 * 60 + 0.5, 168), (168 * 60 + 9, 169)],
)
def test_no_file_is_deleted_that_is_younger_than_was_asked(minutes: float, hours: float) -> None:
    assert whole_hours(minutes * 60) == hours * 3600
