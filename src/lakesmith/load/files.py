"""Declaration files are short UTF-8 texts; anything else is told before it is looked into."""

from __future__ import annotations

from lakesmith.errors import DeclarationError, Place

MAX_BYTES = 1_000_000


def read_text(path: str, file: str) -> str:
    """The text of a file, which errors call `file`."""
    try:
        with open(path, "rb") as content:
            data = content.read(MAX_BYTES + 1)
    except OSError as error:
        raise DeclarationError(
            "unreadable-file",
            f"the file cannot be read: {error.strerror}",
            at=Place(file),
            hint="look at its permissions, and where it leads to if it is a link",
        ) from None
    if len(data) > MAX_BYTES:
        raise DeclarationError(
            "too-large",
            f"the file is larger than {MAX_BYTES:,} bytes",
            at=Place(file),
            hint="a declaration is short; rows belong into the landing zone",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DeclarationError(
            "not-utf8",
            "the file is not UTF-8 text",
            at=Place(file, data.count(b"\n", 0, error.start) + 1),
            hint="save it as UTF-8",
        ) from None


def empty_file(file: str, example: str) -> DeclarationError:
    """The error for a file with nothing in it."""
    return DeclarationError("empty-file", "the file is empty", at=Place(file), hint=f"it could start with {example}")
