"""Files that hold a batch which was checked become part of the table, or the whole of it, in one commit."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakesmith.disk import make_folders
from lakesmith.failpoints import reach
from lakesmith.formats.delta.actions import additions, commit_actions, everything, fresh_folder, rows_in
from lakesmith.formats.delta.committable import committable
from lakesmith.formats.delta.files import add_files
from lakesmith.ports import DataFile, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame


def takes_rows(rows: DataFrame, table: DeltaTable | None, location: str) -> bool:
    """Whether files of such rows can be committed to the table as it is, or make one."""
    return table is None or committable(table, rows, location)


def take_folder(
    folder: str, columns: str, table: DeltaTable | None, location: str, write: Write, *, whole: bool
) -> None:
    """Move the files of a folder into the table's, and commit them; with `whole`, in the place of all others."""
    own = fresh_folder(write)
    make_folders(location)
    os.rename(folder, os.path.join(location, own))
    reach("files.moved", write.flow)
    added = list(additions(location, own))
    if table is None or not whole:
        made_for = str(table.metadata().id) if table is not None else None
        files = [DataFile(unquote(add["path"]), add["size"], rows_in([add]), stats=add["stats"]) for add in added]
        add_files(location, files, columns, write, made_for)
        return
    removed = list(everything(location, table.version()))
    counts = {
        "numFiles": len(added),
        "numOutputRows": rows_in(added),
        "numOutputBytes": sum(add["size"] for add in added),
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(each["remove"]["size"] for each in removed),
    }
    told = {"mode": "Overwrite", "partitionBy": json.dumps([])}
    actions = [*removed, *({"add": add} for add in added)]
    commit_actions(location, table.version(), write, ("WRITE", told), counts, actions)
