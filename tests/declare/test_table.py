"""The declared properties of columns."""

from __future__ import annotations

import pytest

from lakesmith.declare import Column
from lakesmith.errors import Place


def tagged(*tags: str) -> Column:
    return Column(name="a", tags=tags, declared_at=Place("silver/a.sql"))


@pytest.mark.parametrize("tag", ["pii", "PII", "secret", "confidential", "sensitive", "pii:email", "secret:key"])
def test_a_column_with_a_private_tag_is_private(tag: str) -> None:
    assert tagged("other", tag).is_private


@pytest.mark.parametrize("tag", ["pi", "piis", "pii_free", "public:pii", "secretary", "money"])
def test_no_other_tag_makes_a_column_private(tag: str) -> None:
    assert not tagged(tag).is_private
