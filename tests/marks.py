"""Marks that divide tests between `make test` and `make verify`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_only(cases: Iterable[Any]) -> list[Any]:
    """Return the cases: the first runs in `make test`, the others in `make verify`."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.verify) for case in others)]


def chosen_only(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """Return the cases: the chosen ones run in `make test`, the others in `make verify`.

    A tuple has the values of several arguments.
    """
    listed = list(cases)
    assert all(case in listed for case in chosen), chosen
    return [case if case in chosen else pytest.param(*_values(case), marks=pytest.mark.verify) for case in listed]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
