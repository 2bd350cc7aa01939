"""Rules for paths and URLs."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

_LONGEST = 2_000
_LONGEST_NAME = 255


def is_url(path: str) -> bool:
    return "://" in path


def path_problem(path: str) -> tuple[str, str, str] | None:
    """Return code, text and hint of what is wrong with a path or URL, without its text: that may be secret."""
    if "\x00" in path or not path.strip():
        return "bad-path", "the path is empty or contains a null character", "write a path or a URL"
    if len(path) > _LONGEST or any(len(part.encode("utf-8", "replace")) > _LONGEST_NAME for part in path.split("/")):
        return "bad-path", "the path is longer than any store allows", "write a shorter path"
    if is_url(path):
        try:
            parts = urlsplit(path)
            password = parts.password
        except ValueError:
            return "bad-path", "the URL is not valid", "write it like s3a://bucket/folder"
        if password is not None:
            return (
                "credentials-in-url",
                "the URL contains a password, and URLs are shown and stored",
                "give credentials below `storage` in lakesmith.yml, as env:NAME or file:PATH",
            )
        if ".." in parts.path.split("/"):
            return "path-escapes", "the URL points above its root with '..'", "write the URL without '..'"
        return None
    if not os.path.isabs(path) and os.path.normpath(path).split(os.sep)[0] == "..":
        return (
            "path-escapes",
            "the path points above its root with '..'",
            "write a path below the lake's folder, or an absolute path",
        )
    return None
