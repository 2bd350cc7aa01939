"""Split a SQL file into its header and its one SELECT; the planner analyses the SELECT."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesmith.errors import DeclarationError, LakesmithError, Place, raise_all
from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.variables import USE, Variables

_HEADER = re.compile(r"/\*\s*lakesmith\b:?", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<comment> --[^\n]* | /\*.*?\*/ )
      | (?P<quoted> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` )
      | (?P<open> /\* | ['"`] )
      | (?P<end> ; )
      | (?P<space> \s+ )
      | (?P<word> \w+ | . )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """The header and the query of a SQL file."""

    header: str | None
    header_line: int
    query: str
    query_at: Place


def read_sql(text: str, file: str, variables: Variables) -> SqlText:
    """Split the text, and fill in the query's variables."""
    header, header_line, start = _header(text, file)
    first: int | None = None
    last = 0
    ended = False

    def place(match: re.Match[str]) -> Place:
        return Place(file, _line(text, match.start()))

    for match in _TOKEN.finditer(text, start):
        match match.lastgroup:
            case "open":
                what = f"{'a comment' if match[0] == '/*' else 'a quote'} starts here and is not closed"
                raise DeclarationError("sql-syntax", what, at=place(match), hint="close it")
            case "comment" if _HEADER.match(match[0]):
                hint = "write one /* lakesmith … */ at the top of the file"
                raise DeclarationError(
                    "sql-header", "the header must come first, and only once", at=place(match), hint=hint
                )
            case "end":
                ended = True
            case "word" | "quoted":
                if ended:
                    hint = "a table is one SELECT; use one file per table, or WITH"
                    raise DeclarationError(
                        "sql-several", "the file has more than one statement", at=place(match), hint=hint
                    )
                first = match.start() if first is None else first
                last = match.end()
    if first is None:
        at, hint = (
            Place(file, _line(text, len(text.rstrip()))),
            "write the query below the header: SELECT … FROM layer.table",
        )
        raise DeclarationError("sql-empty", "the file has no SELECT", at=at, hint=hint)
    query_at = Place(file, _line(text, first))
    word = re.match(r"\(*\s*(\w*)", text[first:])
    if word is None or word[1].upper() not in ("SELECT", "WITH"):
        start_word = word[1].upper() if word and word[1] else text[first]
        hint = "write only the query; Lakesmith creates, inserts and merges (see `load`)"
        what = f"the statement starts with {start_word}, not with SELECT or WITH"
        raise DeclarationError("sql-not-select", what, at=query_at, hint=hint)
    query = _filled(text[first:last], query_at, variables)
    return SqlText(header=header, header_line=header_line, query=query, query_at=query_at)


def _header(text: str, file: str) -> tuple[str | None, int, int]:
    """Return the header's text, its first line, and the offset of the rest."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup not in ("comment", "space", "open"):
            break
        start = _HEADER.match(text, match.start())
        if start is not None:
            line = _line(text, start.end())
            if match.lastgroup == "open":
                raise DeclarationError(
                    "sql-header", "the header is not closed", at=Place(file, line), hint="end it with */"
                )
            return text[start.end() : match.end() - 2], line, match.end()
        if match.lastgroup == "open":
            break
    return None, 1, 0


def _filled(query: str, at: Place, variables: Variables) -> str:
    """Return the query with its variables filled in, except in comments."""
    if "${" not in query:
        return query
    comments = [match.span() for match in _TOKEN.finditer(query) if match.lastgroup == "comment"]
    problems: list[LakesmithError] = []

    def fill(use: re.Match[str]) -> str:
        if any(start <= use.start() < end for start, end in comments):
            return use[0]
        try:
            return variables.fill(use[0])
        except InvalidText as invalid:
            place = Place(at.file, at.line + query.count("\n", 0, use.start()))
            problems.append(DeclarationError(invalid.code, invalid.what, at=place, hint=invalid.hint))
            return use[0]

    filled = USE.sub(fill, query)
    raise_all(problems)
    return filled


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
