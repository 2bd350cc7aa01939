"""The bytes of a file: decompressed by content, converted to UTF-8, counted."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
from typing import BinaryIO

import pyarrow as pa
import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.intake import stream
from lakesmith.intake.rows import Broken
from lakesmith.intake.stream import Counted, chunks

TEXT = b'{"id": 1}\n{"id": 2}\n' * 100


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def text(data: bytes, encoding: str = "utf-8") -> bytes:
    raw = Counted(io.BytesIO(data), len(data))
    found = b"".join(chunks(raw, encoding))
    raw.check_size()
    return found


@pytest.mark.parametrize("size", [4, 7, 4096])
@pytest.mark.parametrize("packed", [TEXT, gzip.compress(TEXT, mtime=0), bz2.compress(TEXT), zstd(TEXT)])
def test_a_file_is_decompressed_by_its_content(packed: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "CHUNK", size)
    assert text(packed) == TEXT


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstd])
def test_a_file_can_have_several_compressed_members(pack: object) -> None:
    assert callable(pack)
    assert text(pack(b"a\n") + pack(b"b\n")) == b"a\nb\n"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstd])
@pytest.mark.parametrize("cut", [1, 5, 9])
def test_a_truncated_compressed_file_is_rejected(pack: object, cut: int) -> None:
    assert callable(pack)
    with pytest.raises(Broken, match=r"^truncated: the compressed data cannot be read to its end"):
        text(pack(TEXT)[:-cut])


@pytest.mark.parametrize(("pack", "place"), [(gzip.compress, 100), (bz2.compress, 100), (zstd, 8)])
def test_a_corrupt_compressed_file_is_rejected(pack: object, place: int) -> None:
    assert callable(pack)
    packed = bytearray(pack(bytes(range(256)) * 20))
    packed[place] ^= 0xFF
    with pytest.raises(Broken, match=r"^(corrupt-compression|truncated): "):
        text(bytes(packed))


def test_bytes_after_a_compressed_text_are_not_ignored() -> None:
    with pytest.raises(Broken, match=r"^corrupt-compression: "):
        text(gzip.compress(TEXT) + b"garbage")


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("size", [5, 4096])
def test_a_byte_order_mark_sets_the_encoding(
    mark: bytes, encoding: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHUNK", size)
    assert text(mark + "é€\U0001f600\n".encode(encoding), "latin-1").decode() == "é€\U0001f600\n"


def test_an_encoding_can_be_set() -> None:
    assert text("é".encode("latin-1"), "latin-1") == "é".encode()


def test_utf8_is_passed_through_unchanged() -> None:
    assert text(b"a\xffb", "UTF8") == b"a\xffb"


@pytest.mark.parametrize(
    ("data", "encoding"), [(b"a\x00b", "utf-16"), (b"\x00\xd8\x00\x00", "utf-16-le"), (b"\xff", "ascii")]
)
def test_a_file_with_a_wrong_encoding_is_rejected(data: bytes, encoding: str) -> None:
    with pytest.raises(Broken, match=r"^bad-encoding: the file is not "):
        text(data, encoding)


def test_an_empty_file_has_no_text() -> None:
    assert text(b"") == b""


def test_a_decompression_bomb_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_FREE", 1 << 20)
    monkeypatch.setattr(stream, "CHUNK", 1 << 16)
    with pytest.raises(
        Broken, match=r"^expands-too-much: [\d,]+ bytes expand to more than 1,[\d,]+; the maximum is 200"
    ):
        text(gzip.compress(bytes(4 << 20)))


def test_a_small_file_with_a_high_compression_ratio_is_accepted() -> None:
    assert len(text(gzip.compress(bytes(1 << 20)))) == 1 << 20


def test_a_file_with_another_size_than_listed_has_changed() -> None:
    for listed in (3, 5):
        raw = Counted(io.BytesIO(b"abcd"), listed)
        with pytest.raises(
            Broken, match=f"^changed-while-read: the file was {listed} bytes .* and 4 were read"
        ) as caught:
            raw.check_size()
        assert caught.value.passing


def test_the_size_of_a_randomly_read_file_is_checked() -> None:
    raw = Counted(io.BytesIO(b"abcd"), 4)
    raw.whole().seek(2)
    raw.check_size()
    assert raw.count == 4


class Failing(io.RawIOBase):
    """A stream of some bytes and then an error."""

    def __init__(self, data: bytes, error: Exception) -> None:
        self._data, self._error = io.BytesIO(data), error

    def read(self, size: int = -1) -> bytes:
        if data := self._data.read(size):
            return data
        raise self._error


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, zstd])
@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), InfrastructureError("store-failed", "503", hint="")]
)
def test_an_error_of_the_store_does_not_reject_the_file(pack: object, error: Exception) -> None:
    assert callable(pack)
    packed = pack(TEXT)[:-3]
    file: BinaryIO = Failing(packed, error)  # type: ignore[assignment]
    with pytest.raises(Broken, match=r"^unreadable-file: reading stopped after ") as caught:
        list(chunks(Counted(file, len(packed)), "utf-8"))
    assert caught.value.passing


def test_zlib_errors_are_reported() -> None:
    packed = gzip.compress(TEXT)
    with pytest.raises(Broken, match=r"^corrupt-compression: "):
        text(packed[:10] + b"\xff" * 20 + packed[30:])
