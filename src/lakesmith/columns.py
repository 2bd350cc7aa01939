"""Names of the columns that Lakesmith adds to rows: stored ones, and hidden ones that exist only while a batch runs."""

HIDDEN = "_lakesmith_"
"""Prefix of hidden columns. They are never stored."""

SOURCE_FILE = "_source_file"
SOURCE_ROW = "_source_row"
RESCUED = "_rescued"
ROW_HASH = "_row_hash"
FILE_AUDIT = (SOURCE_FILE, SOURCE_ROW, "_source_modified")
KAFKA_AUDIT = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
CHANGE_AUDIT = ("_op", "_changed_at", "_change_position", "_before")
"""Columns of records that describe changes to another database's table (CDC)."""
CHANGE_FEED = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns of a Delta change feed."""
AUDIT = (*FILE_AUDIT, *KAFKA_AUDIT, *CHANGE_AUDIT, "_ingested_at", "_run_id", ROW_HASH, RESCUED)
"""Audit columns of bronze tables. A source must not have columns with these names."""

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
"""Columns of SCD2 tables: when a row was valid, and whether it still is."""
ENTRY = "_entry"
"""Column of tables that store corrections as rows: `entry`, `correction` or `reversal`."""

CORRUPT = f"{HIDDEN}unreadable"
"""The raw text of a record that could not be parsed."""
ERROR_CODE = f"{HIDDEN}code"
"""Why the record could not be parsed: an error code, or a code and a text."""
FILE_NUMBER = f"{HIDDEN}file"
"""The index of the row's file in the batch."""
FILE_END = f"{HIDDEN}end"
"""Set only in the marker row after a file's last row: how many records and bytes were read from the file."""
WRITTEN_FILE = f"{HIDDEN}written"
"""Set only in a marker row that describes a Parquet file which a reader wrote into the table's folder."""
ALREADY_INGESTED = f"{HIDDEN}again"
"""True in a row that an earlier batch ingested. The row is counted, not written."""
DELETE_ROW = f"{HIDDEN}delete_row"
"""True in a row of an upsert whose match in the table is deleted."""
DISCARDED = f"{HIDDEN}discarded"
"""True in a row that was discarded from the quarantine before. The row is counted, not written."""
FAILED_RULES = f"{HIDDEN}failed"
"""Prefix of the bit mask columns that record which rules a row failed."""
RULE_FLAG = f"{HIDDEN}flag_"
"""Prefix of the columns that hold the result of a rule which needs more than the row itself."""

DUPLICATE_KEY = "lakesmith-key-twice"
"""Message of the `raise_error` for a query that returns two rows for one key."""
BROKEN_INTERVALS = "lakesmith-intervals"
"""Message of the `raise_error` for intervals of one key that overlap or leave a gap."""
