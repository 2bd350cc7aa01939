"""Sources name connections of the environment; a missing one is reported before any connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesmith.errors import LakesmithError
from lakesmith.lake import Lake


@pytest.mark.parametrize("source", ["kafka: orders", "jdbc: public.orders"])
def test_a_missing_connection_is_reported_by_validate_and_plan(tmp_path: Path, source: str) -> None:
    (tmp_path / "lakesmith.yml").write_text(
        "name: shop\nenvironments: {dev: {connections: {shop: {brokers: x, url: jdbc:x}}}}\n"
    )
    (tmp_path / "bronze").mkdir()
    (tmp_path / "bronze/orders.yml").write_text(f"source: {{{source}, connection: shpo}}\n")
    for check in (Lake.open(tmp_path).validate, Lake.open(tmp_path).plan):
        with pytest.raises(LakesmithError) as caught:
            check()
        assert (caught.value.code, str(caught.value.at)) == ("unknown-connection", "bronze/orders.yml:1")
        assert "did you mean 'shop'?" in str(caught.value.hint)
