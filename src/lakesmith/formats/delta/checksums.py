"""Checksum files beside the files of a log, on stores that have no checksums of their own: they detect flipped bits
before a reader uses them. Elsewhere these functions do nothing, without a request.
"""

from __future__ import annotations

from lakesmith.formats.delta.log_files import LOG, LOG_FILE
from lakesmith.ports import TableFolder


def checksum_name(name: str) -> str:
    """The name of a file's checksum file."""
    return f".{name.rpartition('/')[2]}.crc"


def is_corrupt(folder: TableFolder, name: str, content: bytes | None = None) -> bool:
    """Whether a file, or its content where given, does not match its checksums."""
    return folder.disk is not None and folder.disk.is_corrupt(folder.key(name), content)


def write_checksums(folder: TableFolder) -> None:
    """Write the missing checksums of the newest files of a table's log, and remove leftovers."""
    if folder.disk is not None:
        folder.disk.write_checksums(folder.key(LOG), LOG_FILE)
