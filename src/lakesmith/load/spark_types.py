"""Spark SQL types as people write them, read and spelt in the one way that Spark itself shows them."""

from __future__ import annotations

import re

from lakesmith.declare.names import is_identifier
from lakesmith.errors import did_you_mean
from lakesmith.load.unfit import Unfit

_SIMPLE = (
    "bigint",
    "int",
    "smallint",
    "tinyint",
    "string",
    "boolean",
    "double",
    "float",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
)
_ALIASES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
}
_ELSEWHERE = {
    "varchar": "string",
    "char": "string",
    "text": "string",
    "str": "string",
    "bool": "boolean",
    "datetime": "timestamp",
    "number": "decimal(p,s)",
    "json": "string",
    "uuid": "string",
    "list": "array<…>",
    "object": "struct<…>",
}
_WORDS = (*_SIMPLE, *_ALIASES, "decimal", "array", "map", "struct")
_TOKEN = re.compile(r"\s*(\w+|[<>(),:])")
_MAX_DEPTH = 20


def spark_type(text: str) -> str:
    """The type that `text` spells, as Spark shows it: `STRUCT<a: INTEGER>` is `struct<a:int>`."""
    reading = _Reading(text)
    found = reading.type(0)
    if reading.next is not None:
        raise reading.unfit(f"'{reading.next}' follows the type '{found}'")
    return found


class _Reading:
    """One pass over the words of a type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[str] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.unfit(f"'{text[position:].strip()[0]}' has no place in it")
            self._words.append(match[1])
            position = match.end()
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def unfit(self, why: str) -> Unfit:
        return Unfit(
            "bad-type",
            f"'{_shortened(self._text)}' is not a type: {why}",
            "types are written as in Spark SQL, such as bigint, decimal(12,2), array<string>, struct<a: int>",
        )

    def type(self, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise self.unfit(f"it is nested more than {_MAX_DEPTH} levels deep")
        written = self._word("a type")
        word = _ALIASES.get(written.lower(), written.lower())
        if word in _SIMPLE:
            return word
        match word:
            case "decimal":
                return self._decimal()
            case "array":
                self._expect("<")
                item = self.type(depth + 1)
                self._expect(">")
                return f"array<{item}>"
            case "map":
                self._expect("<")
                key = self.type(depth + 1)
                self._expect(",")
                value = self.type(depth + 1)
                self._expect(">")
                return f"map<{key},{value}>"
            case "struct":
                return self._struct(depth)
        near = _ELSEWHERE.get(word)
        raise Unfit(
            "bad-type",
            f"'{_shortened(written)}' is not a type",
            f"in Spark SQL this is {near}" if near else did_you_mean(word, _WORDS, label="types"),
        )

    def _decimal(self) -> str:
        if self.next != "(":
            return "decimal(10,0)"
        self._expect("(")
        precision = self._number()
        scale = 0
        if self.next == ",":
            self._expect(",")
            scale = self._number()
        self._expect(")")
        if not (1 <= precision <= 38 and scale <= precision):
            raise self.unfit("a decimal has 1 to 38 digits, and no more of them after the point than in all")
        return f"decimal({precision},{scale})"

    def _struct(self, depth: int) -> str:
        self._expect("<")
        fields: list[str] = []
        names: set[str] = set()
        while True:
            name = self._word("a field's name")
            if not is_identifier(name):
                raise self.unfit(f"'{name}' is not a name")
            if name.lower() in names:
                raise self.unfit(f"the field '{name}' is there twice")
            names.add(name.lower())
            if self.next == ":":
                self._expect(":")
            fields.append(f"{name}:{self.type(depth + 1)}")
            if self.next != ",":
                break
            self._expect(",")
        self._expect(">")
        return f"struct<{','.join(fields)}>"

    def _word(self, wanted: str) -> str:
        word = self.next
        if word is None or not (word[0].isalnum() or word[0] == "_"):
            raise self.unfit(f"{wanted} is missing" + (f" before '{word}'" if word else " at the end"))
        self._at += 1
        return word

    def _number(self) -> int:
        word = self._word("a number")
        if not (word.isascii() and word.isdigit() and len(word) <= 3):
            raise self.unfit(f"'{_shortened(word)}' is not a number of digits")
        return int(word)

    def _expect(self, mark: str) -> None:
        if self.next != mark:
            found = f"'{self.next}'" if self.next else "the end"
            raise self.unfit(f"expected '{mark}', found {found}")
        self._at += 1


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
