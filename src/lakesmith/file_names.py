"""Names of files: bytes, which Python shows as text even where they are not UTF-8."""

from __future__ import annotations


def is_utf8(name: str) -> bool:
    """Whether a name is UTF-8: other bytes appear as lone surrogates."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(name: str) -> str:
    """A name that can be stored and printed: bytes that are not UTF-8 appear as `\\xe9`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
