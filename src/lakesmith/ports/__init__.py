"""The ports to table formats, stores and query engines, with the values that they exchange.

An adapter declares what it supports in `capabilities`; a plan that needs more fails before any I/O. Every adapter of a
port passes the suite in `tests/conformance`.
"""

from lakesmith.ports.formats import (
    BATCH_FOLDER,
    BROADCAST_ROWS,
    MAINTENANCE_NOTE,
    Capability,
    ColumnFact,
    CommitFact,
    CommitResult,
    DataFile,
    ReplaceWhere,
    TableFacts,
    TableFormat,
    Upsert,
    Write,
    find_commit,
    in_commit_order,
    new_batch_folder,
)
from lakesmith.ports.queries import (
    Answer,
    QueryEngine,
    View,
    ViewColumn,
)
from lakesmith.ports.stores import (
    DiskStore,
    EngineAccess,
    EngineName,
    FileFact,
    ObjectFact,
    SkippedEntry,
    Slice,
    Store,
    StoreCapability,
    TableFolder,
    names_in_folder,
)

__all__ = [
    "BATCH_FOLDER",
    "BROADCAST_ROWS",
    "MAINTENANCE_NOTE",
    "Answer",
    "Capability",
    "ColumnFact",
    "CommitFact",
    "CommitResult",
    "DataFile",
    "DiskStore",
    "EngineAccess",
    "EngineName",
    "FileFact",
    "ObjectFact",
    "QueryEngine",
    "ReplaceWhere",
    "SkippedEntry",
    "Slice",
    "Store",
    "StoreCapability",
    "TableFacts",
    "TableFolder",
    "TableFormat",
    "Upsert",
    "View",
    "ViewColumn",
    "Write",
    "find_commit",
    "in_commit_order",
    "names_in_folder",
    "new_batch_folder",
]
