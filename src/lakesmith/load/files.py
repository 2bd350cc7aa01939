"""Read declaration files: short UTF-8 texts. Anything else is an error before parsing."""

from __future__ import annotations

import errno
import os
import stat

from lakesmith.errors import DeclarationError, Place

MAX_BYTES = 1_000_000


def read_text(path: str, file: str) -> str:
    """Return the text of a file; errors name it `file`."""
    try:
        data = read_start(path)
    except OSError as error:
        what, hint = (
            f"the file cannot be read: {error.strerror}",
            "check its permissions, and the target if it is a link",
        )
        raise DeclarationError("unreadable-file", what, at=Place(file), hint=hint) from None
    if len(data) > MAX_BYTES:
        what = f"the file is larger than {MAX_BYTES:,} bytes"
        hint = "a declaration is short; data files belong in the landing zone"
        raise DeclarationError("too-large", what, at=Place(file), hint=hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = Place(file, data.count(b"\n", 0, error.start) + 1)
        raise DeclarationError("not-utf8", "the file is not UTF-8 text", at=at, hint="save it as UTF-8") from None


def read_start(path: str) -> bytes:
    """The bytes of a regular file, at most one more than a declaration may have. Opening a FIFO would block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read(MAX_BYTES + 1)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one. A link that loops is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def empty_file(file: str, example: str) -> DeclarationError:
    """Return the error for an empty file."""
    return DeclarationError("empty-file", "the file is empty", at=Place(file), hint=f"it could start with {example}")
