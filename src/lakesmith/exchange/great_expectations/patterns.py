"""Translate Python regular expressions and time formats to Java and Spark, where they have an equivalent."""

from __future__ import annotations

import re
import warnings

_GROUP = re.compile(r"\(\?P<([A-Za-z][A-Za-z0-9]*)>")
_AGAIN = re.compile(r"\(\?P=([A-Za-z][A-Za-z0-9]*)\)")
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{,|.", re.DOTALL)
_FORMATS = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "d": "dd",
    "H": "HH",
    "I": "hh",
    "M": "mm",
    "S": "ss",
    "f": "SSSSSS",
    "j": "DDD",
    "b": "MMM",
    "B": "MMMM",
    "p": "a",
    "z": "xx",
    "F": "yyyy-MM-dd",
    "T": "HH:mm:ss",
}


def java_regex(pattern: str) -> str | None:
    """Return the expression of Python's `re` in Java's syntax."""
    try:
        with warnings.catch_warnings():
            # Ambiguous syntax that Python warns of is handled below.
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
    named = _AGAIN.sub(r"\\k<\1>", _GROUP.sub(r"(?<\1>", pattern))
    if "(?P" in named or "(?(" in named:
        return None
    tokens = [_java_token(token) for token in _TOKEN.findall(named)]
    return None if None in tokens else "".join(token for token in tokens if token is not None)


def _java_token(token: str) -> str | None:
    if token == r"\Z":
        return r"\z"
    if token == "{,":
        return "{0,"
    if len(token) > 2 and token.startswith("["):
        inside = token[1:-1]
        # In a Java character class, a bracket starts a nested class and && is an intersection.
        plain = re.sub(r"\\.", "", inside, flags=re.DOTALL)
        return None if "[" in plain or "&&" in plain or plain.lstrip("^").startswith("]") else token
    return token


def spark_format(strftime: str) -> str | None:
    """Return the format of Python's `strftime` in Spark's syntax."""
    parts: list[str] = []
    for match in re.finditer(r"%(.)|([A-Za-z]+)|(')|([^%A-Za-z']+)", strftime, re.DOTALL):
        directive, letters, quote, others = match.groups()
        if directive == "%":
            parts.append("%")
        elif directive:
            if directive not in _FORMATS:
                return None
            parts.append(_FORMATS[directive])
        else:
            parts.append(f"'{letters}'" if letters else "''" if quote else others)
    pattern = "".join(parts)
    # These characters have a meaning in Spark's formats.
    if not pattern or re.search(r"[\[\]{}#]", pattern) or strftime.replace("%%", "").endswith("%"):
        return None
    return pattern
