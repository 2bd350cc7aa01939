"""The reported state of tables."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from tests.plan.lakes import bronze

from lakesmith.declare import Load, Table
from lakesmith.load.field_types import keys_of
from lakesmith.load.models import LoadBlock
from lakesmith.monitor import load_name


def with_load(load: type) -> Table:
    return replace(bronze("orders"), load=object.__new__(load))


def test_every_load_has_its_declared_name() -> None:
    names = {load_name(with_load(load)) for load in get_args(Load)}
    assert names == {*keys_of(LoadBlock), "replace"}
