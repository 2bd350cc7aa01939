"""The classification of errors of stores."""

from __future__ import annotations

import pytest
from remote_store import NotFound, PermissionDenied

from lakesmith.store.failures import Kind, failure_kind


def raised(outer: Exception, inner: Exception) -> Exception:
    """An error as remote-store raises it, with a hidden cause."""
    outer.__context__ = inner
    return outer


@pytest.mark.parametrize(
    ("outer", "inner", "kind"),
    [
        (NotFound("in/a"), ConnectionResetError("http://127.0.0.1:40463/in/a"), "transient"),
        (
            PermissionDenied("in/a"),
            OSError("closed before a response: http://host/in/403.json"),
            "transient",
        ),
        (NotFound("in/a"), FileNotFoundError("in/a"), "missing"),
        (PermissionDenied("in/a"), PermissionError("in/a"), "denied"),
    ],
)
def test_a_library_s_guess_from_text_is_ignored(outer: Exception, inner: Exception, kind: Kind) -> None:
    assert failure_kind(raised(outer, inner)) == kind


def test_an_error_without_a_cause_is_not_a_guess() -> None:
    assert failure_kind(NotFound("in/a")) == "missing"
