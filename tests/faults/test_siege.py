"""What a process says when it was in trouble is held to what errors are."""

from __future__ import annotations

import pytest
from tests.faults.siege import untyped
from tests.faults.victim import Answer

ERROR = {"code": "table-leased", "what": "another run works on it", "hint": "wait", "exit_code": 4}


def test_an_error_with_code_exit_code_and_hint_is_fine() -> None:
    assert untyped(Answer(errors=(ERROR,))) == []


@pytest.mark.parametrize(
    "lacking", [{"code": ""}, {"hint": None}, {"exit_code": 70}, {"code": "books-open"}, {"code": "intervals-broken"}]
)
def test_an_error_that_lacks_something_or_tells_of_a_fault_is_not(lacking: dict[str, object]) -> None:
    [broken] = untyped(Answer(errors=({**ERROR, **lacking},)))
    assert broken.startswith("E ")
