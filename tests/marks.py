"""Marks that divide tests between `make test` and `make verify`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_only(cases: Iterable[Any]) -> list[Any]:
    """Return the cases: the first runs in `make test`, the others in `make verify`."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.verify) for case in others)]
