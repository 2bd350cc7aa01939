"""Commits the files of a checked batch to a table, beside its files or in place of them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakesmith.failpoints import failpoint
from lakesmith.formats.delta.actions import (
    add_actions,
    commit_actions,
    new_batch_folder,
    overwrite_metrics,
    remove_all_actions,
    row_count,
)
from lakesmith.formats.delta.add_files import add_files
from lakesmith.ports import DataFile, TableFolder, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable


def commit_folder(
    staged: TableFolder, columns: str, table: DeltaTable | None, folder: TableFolder, write: Write, *, overwrite: bool
) -> None:
    """Move the files of a folder into the table's folder and commit them; with `overwrite`, in place of all others."""
    own = new_batch_folder(write)
    if folder.disk is not None:
        folder.disk.make_folder(folder.path)
    os.rename(staged.url, os.path.join(folder.url, own))
    failpoint("files.moved", write.flow)
    added = add_actions(folder, own)
    if table is None or not overwrite:
        table_id = str(table.metadata().id) if table is not None else None
        files = [DataFile(unquote(add["path"]), add["size"], row_count([add]), stats=add["stats"]) for add in added]
        add_files(folder, files, columns, write, table_id)
        return
    removed = list(remove_all_actions(folder, table.version()))
    parameters = {"mode": "Overwrite", "partitionBy": json.dumps([])}
    actions = [*removed, *({"add": add} for add in added)]
    metrics = overwrite_metrics(added, removed)
    commit_actions(folder, table.version(), write, ("WRITE", parameters), metrics, actions)
