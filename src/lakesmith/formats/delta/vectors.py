"""Deletion vectors: which rows of a data file are no longer part of the table, as Delta's protocol writes them down."""

from __future__ import annotations

import base64
import os
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakesmith.disk import write_new
from lakesmith.formats.delta.names import absolute

if TYPE_CHECKING:
    from pyroaring import BitMap64

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)
_MAGIC = struct.pack("<i", 1681511377)
"""What stands before a set of row numbers in the portable form."""
_VERSION = b"\x01"
_UUID = 20
"""How many characters the encoded name of a file has."""


def write_vectors(location: str, rows: Mapping[str, BitMap64]) -> dict[str, dict[str, Any]]:
    """Write row numbers by data file down, all in one file; returns how the log tells of them."""
    name = uuid.uuid4()
    told, written = {}, bytearray(_VERSION)
    for path, numbers in rows.items():
        data = _MAGIC + numbers.serialize()
        told[path] = {
            "storageType": "u",
            "pathOrInlineDv": base64.b85encode(name.bytes).translate(_TO_Z85).decode(),
            "offset": len(written),
            "sizeInBytes": len(data),
            "cardinality": len(numbers),
        }
        written += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    write_new(_file(location, "", name), bytes(written))
    return told


def read_vector(location: str, told: Mapping[str, Any]) -> BitMap64:
    """The row numbers that the log tells of."""
    from pyroaring import BitMap64

    where = told["pathOrInlineDv"]
    if told["storageType"] == "i":
        # Padded to whole groups of characters; what is too much is not counted.
        data = base64.b85decode(where.encode().translate(_FROM_Z85))[: told["sizeInBytes"]]
    else:
        path = vector_file(location, told)
        assert path is not None
        with open(path, "rb") as file:
            file.seek(told.get("offset") or 1)
            (size,) = struct.unpack(">i", file.read(4))
            data = file.read(size)
            (sum_,) = struct.unpack(">I", file.read(4))
        if size != told["sizeInBytes"] or zlib.crc32(data) != sum_:
            raise ValueError(f"{path} is damaged")
    if data[:4] != _MAGIC:
        raise ValueError(f"the deletion vector of {where} is of an unknown form")
    return BitMap64.deserialize(data[4:])


def vector_file(location: str, told: Mapping[str, Any]) -> str | None:
    """The file that holds a vector; None for one that is in the log itself."""
    where = told["pathOrInlineDv"]
    if told["storageType"] == "i":
        return None
    if told["storageType"] == "u":
        name = uuid.UUID(bytes=base64.b85decode(where[-_UUID:].encode().translate(_FROM_Z85)))
        return _file(location, where[:-_UUID], name)
    return absolute(location, where)


def _file(location: str, folder: str, name: uuid.UUID) -> str:
    return os.path.join(location, folder, f"deletion_vector_{name}.bin")
