"""Errors of a process must have a code, an exit code and a hint."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.faults.attacked_lake import AttackedLake, Oracle, untyped
from tests.faults.flows import Decided
from tests.faults.lake_process import Answer

ERROR = {"code": "table-leased", "what": "another run works on it", "hint": "wait", "exit_code": 4}


def test_an_error_with_code_exit_code_and_hint_is_accepted() -> None:
    assert untyped(Answer(errors=(ERROR,))) == []


@pytest.mark.parametrize(
    "lacking",
    [{"code": ""}, {"hint": None}, {"exit_code": 70}, {"code": "row-count-mismatch"}, {"code": "intervals-broken"}],
)
def test_an_incomplete_error_or_one_that_reports_a_bug_is_not_accepted(lacking: dict[str, object]) -> None:
    [broken] = untyped(Answer(errors=({**ERROR, **lacking},)))
    assert broken.startswith("E ")


def test_a_rollback_may_restore_an_interrupted_decision_or_its_repetition(tmp_path: Path) -> None:
    """The interrupted decision may be part of a release."""
    lake = AttackedLake(tmp_path / "lake", "dedup", 1, Mock(Oracle))
    lake.acknowledged = 4
    lake.expect("discard")  # killed: it reports nothing
    lake.acknowledged = 5
    lake.expect("discard")
    lake.acknowledge("discard", Answer())
    lake.expect("rollback")
    assert set(lake.taken_back) == {Decided(), Decided((("discard", 4),)), Decided((("discard", 5),))}
