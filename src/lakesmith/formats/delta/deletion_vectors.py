"""Reads and writes deletion vectors: the numbers of a data file's deleted rows, in the format of Delta's protocol."""

from __future__ import annotations

import base64
import errno
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakesmith.formats.delta.log_files import data_file_key
from lakesmith.ports import TableFolder

if TYPE_CHECKING:
    from pyroaring import BitMap64

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)
_MAGIC = struct.pack("<i", 1681511377)
"""The first bytes of a serialized set of row numbers."""
_VERSION = b"\x01"
_UUID = 20
"""The number of characters of an encoded file name."""


def write_vectors(folder: TableFolder, rows: Mapping[str, BitMap64]) -> dict[str, dict[str, Any]]:
    """Write the row numbers of all data files to one file; return their descriptors for the log."""
    name = uuid.uuid4()
    descriptors, written = {}, bytearray(_VERSION)
    for path, numbers in rows.items():
        data = _MAGIC + numbers.serialize()
        descriptors[path] = {
            "storageType": "u",
            "pathOrInlineDv": base64.b85encode(name.bytes).translate(_TO_Z85).decode(),
            "offset": len(written),
            "sizeInBytes": len(data),
            "cardinality": len(numbers),
        }
        written += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    with folder.create(_vector_name(name)) as file:
        file.write(written)
    return descriptors


def read_vector(folder: TableFolder, descriptor: Mapping[str, Any]) -> BitMap64:
    """The row numbers of a descriptor in the log."""
    from pyroaring import BitMap64

    where = descriptor["pathOrInlineDv"]
    if descriptor["storageType"] == "i":
        # Base85 pads to whole groups of characters.
        data = base64.b85decode(where.encode().translate(_FROM_Z85))[: descriptor["sizeInBytes"]]
    else:
        key = vector_file(folder, descriptor)
        assert key is not None
        first, size = descriptor.get("offset") or 1, descriptor["sizeInBytes"]
        found = folder.store.read(key, (first, first + size + 8))
        path = folder.store.location(key)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "the file is gone", path)
        data = found[4:-4]
        if found[:4] + found[-4:] != struct.pack(">iI", size, zlib.crc32(data)):
            raise ValueError(f"{path} is corrupt")
    if data[:4] != _MAGIC:
        raise ValueError(f"the deletion vector of {where} has an unknown format")
    return BitMap64.deserialize(data[4:])


def vector_file(folder: TableFolder, descriptor: Mapping[str, Any]) -> str | None:
    """The key of a vector's file; None for one inside the log."""
    where = descriptor["pathOrInlineDv"]
    if descriptor["storageType"] == "i":
        return None
    if descriptor["storageType"] == "u":
        name = uuid.UUID(bytes=base64.b85decode(where[-_UUID:].encode().translate(_FROM_Z85)))
        below = where[:-_UUID]
        return folder.key(f"{below}/{_vector_name(name)}" if below else _vector_name(name))
    return data_file_key(folder, where)


def _vector_name(name: uuid.UUID) -> str:
    return f"deletion_vector_{name}.bin"
