"""Regular expressions and formats of Python in the spelling of Java and Spark, or None where they have none."""

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
    """The expression of Python's `re` as Java reads it."""
    try:
        with warnings.catch_warnings():
            # What Python may read in another way one day is judged below.
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
    named = _AGAIN.sub(r"\\k<\1>", _GROUP.sub(r"(?<\1>", pattern))
    if "(?P" in named or "(?(" in named:
        return None
    told = [_java_token(token) for token in _TOKEN.findall(named)]
    return None if None in told else "".join(part for part in told if part is not None)


def _java_token(token: str) -> str | None:
    if token == r"\Z":
        return r"\z"
    if token == "{,":
        return "{0,"
    if len(token) > 2 and token.startswith("["):
        inside = token[1:-1]
        # Java takes a bracket inside of a class for a class of its own, and && for what two have in common.
        plain = re.sub(r"\\.", "", inside, flags=re.DOTALL)
        return None if "[" in plain or "&&" in plain or plain.lstrip("^").startswith("]") else token
    return token


def spark_format(strftime: str) -> str | None:
    """The format of Python's `strftime` as Spark parses it."""
    parts: list[str] = []
    for found in re.finditer(r"%(.)|([A-Za-z]+)|(')|([^%A-Za-z']+)", strftime, re.DOTALL):
        directive, letters, quote, others = found.groups()
        if directive == "%":
            parts.append("%")
        elif directive:
            if directive not in _FORMATS:
                return None
            parts.append(_FORMATS[directive])
        else:
            parts.append(f"'{letters}'" if letters else "''" if quote else others)
    told = "".join(parts)
    # Brackets and these signs mean something in Spark's formats.
    return None if not told or re.search(r"[\[\]{}#]", told) or strftime.replace("%%", "").endswith("%") else told
