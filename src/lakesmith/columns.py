"""The names of columns that Lakesmith adds to rows: some are stored with them, some exist only on the way."""

HIDDEN = "_lakesmith_"
"""What the names of columns start with that exist only while rows are moved."""

SOURCE_FILE = "_source_file"
SOURCE_ROW = "_source_row"
RESCUED = "_rescued"
ROW_HASH = "_row_hash"
FILE_AUDIT = (SOURCE_FILE, SOURCE_ROW, "_source_modified")
KAFKA_AUDIT = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
CHANGE_AUDIT = ("_op", "_changed_at", "_change_position", "_before")
"""Of records that are changes of another database's table."""
AUDIT = (*FILE_AUDIT, *KAFKA_AUDIT, *CHANGE_AUDIT, "_ingested_at", "_run_id", ROW_HASH, RESCUED)
"""Columns of bronze tables that no source may bring itself."""

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
"""Of tables that hold every state of a key: from when until when it held."""
ENTRY = "_entry"
"""Of tables that keep what was corrected: whether a row is an entry, its correction or its reversal."""

CORRUPT = f"{HIDDEN}unreadable"
"""Holds a record's text when it could not be read."""
CODE = f"{HIDDEN}code"
"""Holds the reason why it could not."""
FILE = f"{HIDDEN}file"
"""The number of the file, in the order of the batch."""
END = f"{HIDDEN}end"
"""Not empty in the one row that follows a file's last: how many records and bytes were read from it."""
WRITTEN = f"{HIDDEN}written"
"""Not empty in a row that tells of a Parquet file which a reader has filled with rows."""
AGAIN = f"{HIDDEN}again"
"""True in a row that an earlier batch brought already: it is counted, not written."""
GONE = f"{HIDDEN}gone"
"""True in a row that stands for one which a merge takes away."""
GIVEN_UP = f"{HIDDEN}given_up"
"""True in a row that was discarded in quarantine before: it is counted, not written."""
FAILED = f"{HIDDEN}failed"
"""What the names of numbers start with whose bits are the rules that a row broke."""
FLAG = f"{HIDDEN}flag_"
"""What the names of columns start with that tell of a rule which one row alone cannot answer."""

KEY_TWICE = "lakesmith-key-twice"
"""What Spark is made to say when a query that should give one row a key gives two."""
OVERLAP = "lakesmith-intervals"
"""What Spark is made to say when intervals of one key overlap, or leave a gap."""
