"""Read declaration files: short UTF-8 texts. Anything else is an error before parsing."""

from __future__ import annotations

from lakesmith.errors import DeclarationError, Place

MAX_BYTES = 1_000_000


def read_text(path: str, file: str) -> str:
    """Return the text of a file; errors name it `file`."""
    try:
        with open(path, "rb") as content:
            data = content.read(MAX_BYTES + 1)
    except OSError as error:
        raise DeclarationError(
            "unreadable-file",
            f"the file cannot be read: {error.strerror}",
            at=Place(file),
            hint="check its permissions, and the target if it is a link",
        ) from None
    if len(data) > MAX_BYTES:
        raise DeclarationError(
            "too-large",
            f"the file is larger than {MAX_BYTES:,} bytes",
            at=Place(file),
            hint="a declaration is short; data files belong in the landing zone",
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
    """Return the error for an empty file."""
    return DeclarationError("empty-file", "the file is empty", at=Place(file), hint=f"it could start with {example}")
