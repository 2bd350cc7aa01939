"""Reads and writes deletion vectors: the numbers of a data file's deleted rows, in the format of Delta's protocol."""

from __future__ import annotations

import base64
import os
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakesmith.disk import write_new
from lakesmith.formats.delta.log_files import absolute

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


def write_vectors(location: str, rows: Mapping[str, BitMap64]) -> dict[str, dict[str, Any]]:
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
    write_new(_file(location, "", name), bytes(written))
    return descriptors


def read_vector(location: str, descriptor: Mapping[str, Any]) -> BitMap64:
    """The row numbers of a descriptor in the log."""
    from pyroaring import BitMap64

    where = descriptor["pathOrInlineDv"]
    if descriptor["storageType"] == "i":
        # Base85 pads to whole groups of characters.
        data = base64.b85decode(where.encode().translate(_FROM_Z85))[: descriptor["sizeInBytes"]]
    else:
        path = vector_file(location, descriptor)
        assert path is not None
        with open(path, "rb") as file:
            file.seek(descriptor.get("offset") or 1)
            (size,) = struct.unpack(">i", file.read(4))
            data = file.read(size)
            (checksum,) = struct.unpack(">I", file.read(4))
        if size != descriptor["sizeInBytes"] or zlib.crc32(data) != checksum:
            raise ValueError(f"{path} is corrupt")
    if data[:4] != _MAGIC:
        raise ValueError(f"the deletion vector of {where} has an unknown format")
    return BitMap64.deserialize(data[4:])


def vector_file(location: str, descriptor: Mapping[str, Any]) -> str | None:
    """The file of a vector; None for one inside the log."""
    where = descriptor["pathOrInlineDv"]
    if descriptor["storageType"] == "i":
        return None
    if descriptor["storageType"] == "u":
        name = uuid.UUID(bytes=base64.b85decode(where[-_UUID:].encode().translate(_FROM_Z85)))
        return _file(location, where[:-_UUID], name)
    return absolute(location, where)


def _file(location: str, folder: str, name: uuid.UUID) -> str:
    return os.path.join(location, folder, f"deletion_vector_{name}.bin")
