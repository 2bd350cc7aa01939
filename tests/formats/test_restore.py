"""Tables that cannot be restored, and their hints."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.restore import restore_actions
from lakesmith.store import folder_at


@pytest.mark.parametrize(
    ("version", "statement"), [(0, "RESTORE delta.`{}` TO VERSION AS OF 0"), (None, "DELETE FROM delta.`{}`")]
)
def test_the_hint_for_an_unsupported_table_has_the_statement_for_spark(
    tmp_path: Path, version: int | None, statement: str
) -> None:
    place = str(tmp_path / "table")
    write_deltalake(place, pa.table({"id": [1]}), configuration={"delta.appendOnly": "true"})
    with pytest.raises(InfrastructureError) as caught:
        restore_actions(DeltaTable(place), folder_at(place), version)
    assert (caught.value.code, caught.value.hint) == ("restore-unable", f"in Spark: {statement.format(place)}")
