"""What a process says when it was in trouble is held to what errors are."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.faults.flows import Decided
from tests.faults.siege import Oracle, Siege, untyped
from tests.faults.victim import Answer

ERROR = {"code": "table-leased", "what": "another run works on it", "hint": "wait", "exit_code": 4}


def test_an_error_with_code_exit_code_and_hint_is_fine() -> None:
    assert untyped(Answer(errors=(ERROR,))) == []


@pytest.mark.parametrize(
    "lacking",
    [{"code": ""}, {"hint": None}, {"exit_code": 70}, {"code": "row-count-mismatch"}, {"code": "intervals-broken"}],
)
def test_an_error_that_lacks_something_or_tells_of_a_fault_is_not(lacking: dict[str, object]) -> None:
    [broken] = untyped(Answer(errors=({**ERROR, **lacking},)))
    assert broken.startswith("E ")


def test_a_rollback_may_lead_to_a_decision_that_was_interrupted_and_taken_again_for_more(tmp_path: Path) -> None:
    """It may have been released before it was cut short."""
    siege = Siege(tmp_path / "lake", "dedup", 1, Mock(Oracle))
    siege.acknowledged = 4
    siege.expect("discard")  # killed: nothing is heard of it
    siege.acknowledged = 5
    siege.expect("discard")
    siege.heard("discard", Answer())
    siege.expect("rollback")
    assert set(siege.taken_back) == {Decided(), Decided((("discard", 4),)), Decided((("discard", 5),))}
