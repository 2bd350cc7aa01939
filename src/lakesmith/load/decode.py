"""Decode nodes into model values, and collect every error with its file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, assert_never, cast

from lakesmith.declare.checks import Limit
from lakesmith.declare.forms import Excludes, Form, NamesFrom, Needs, Relation
from lakesmith.errors import Place, did_you_mean
from lakesmith.load import field_types
from lakesmith.load.field_types import B, Block, FieldType, keys_of
from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.nodes import BOOLEANS, Entries, Items, Node, Scalar
from lakesmith.load.problems import ProblemList
from lakesmith.load.rules import RULES
from lakesmith.load.variables import Variables

_WHOLE = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")
_SHARE = re.compile(r"([0-9]{0,3}(?:\.[0-9]{1,6})?)\s*(%?)")
_READ_AS = {
    "boolean": "true or false",
    "number": "a number",
    "null": "nothing",
    "date": "a date",
    "other": "something else",
}


class _Undecoded:
    """Marks a value that could not be read; the reason is in `problems`."""


UNDECODED: Final = _Undecoded()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decodes nodes by the field types of a model, with the variables in scope."""

    variables: Variables
    problems: ProblemList

    def block(self, model: type[B], node: Node, label: str) -> B | None:
        """Return the block, or None when a required key is missing or the node is not a mapping."""
        value = self._block(field_types.Blocks(model), node, label)
        return None if isinstance(value, _Undecoded) else cast(B, value)

    def value(self, kind: FieldType, node: Node, label: str) -> object:
        """Return the value of any field type, or `UNDECODED`."""
        match kind:
            case Form.SETTING:
                return self._setting(node, label)
            case Form.VALUE:
                return self._any(node, label)
            case Form() if kind in _UNQUOTED:
                return self._unquoted(kind, node, label)
            case Form():
                return self._text(kind, node, label)
            case field_types.Words():
                return self._word(kind, node, label)
            case field_types.Lists():
                return self._list(kind, node, label)
            case field_types.Named():
                return self._named(kind, node, label)
            case field_types.Blocks():
                return self._block(kind, node, label)
            case field_types.WordOrBlock():
                return self._word_or_block(kind, node, label)
            case field_types.Optional():
                empty = isinstance(node, Scalar) and node.sort == "null"
                return None if empty else self.value(kind.value, node, label)
            case field_types.Later():
                return node
            case _:
                assert_never(kind)

    def _block(self, kind: field_types.Blocks, node: Node, label: str) -> object:
        keys = keys_of(kind.model)
        if kind.short is not None and _is_short(node, keys[kind.short].kind):
            short = self.value(keys[kind.short].kind, node, label)
            if isinstance(short, _Undecoded):
                return UNDECODED
            return kind.make(node.at, {kind.short: node.at}, {kind.short: short})
        if not isinstance(node, Entries):
            return self._mistyped(node, label, f"{', '.join(keys)} with values", f"{label}: {{{next(iter(keys))}: …}}")
        places: dict[str, Place] = {}
        values: dict[str, object] = {}
        for key, item in self._unique(node):
            name = key.text
            if name not in keys:
                hint = did_you_mean(name, keys, label="keys")
                if name == "<<":
                    hint = "YAML merge keys are not supported; write the keys out, or use `defaults` in lakesmith.yml"
                self._problem(key.at, "unknown-key", f"'{_shown(name)}' is not a key of {label}", hint)
                continue
            places[name] = key.at
            value = self.value(keys[name].kind, item, name)
            if not isinstance(value, _Undecoded):
                values[name] = value
        missing = [name for name, key in keys.items() if key.required and name not in places]
        for name in missing:
            about = keys[name].about
            self._problem(
                node.at, "missing-key", f"{label} needs the key '{name}'", f"{name}: {about[0].lower()}{about[1:]}"
            )
        if kind.one_key and len(node.entries) != 1:
            self._problem(node.at, "one-of", f"{label} needs exactly one key", f"write one of {', '.join(keys)}")
        if any(key.required and name not in values for name, key in keys.items()):
            return UNDECODED
        for name, at in places.items():
            for relation in keys[name].relations:
                self._check_relation(relation, name, at, places, values)
        # A block shows which of its keys could not be read, and a declaration cannot.
        if places.keys() > values.keys() and not issubclass(kind.model, Block):
            return UNDECODED
        return kind.make(node.at, places, values)

    def _check_relation(
        self, relation: Relation, key: str, at: Place, places: Mapping[str, Place], values: Mapping[str, object]
    ) -> None:
        other = relation.key
        match relation:
            case Needs(value=None) if other not in places:
                hint = f"add {other}: …, or remove {key}"
                self._problem(at, "missing-key", f"{key} needs {other}, {relation.why}", hint)
            case Needs(value=str() as value) if other not in places or values.get(other, value) != value:
                hint = f"add {other}: {value}, or remove {key}"
                self._problem(at, "missing-key", f"{key} needs {other}: {value}, {relation.why}", hint)
            case Excludes() if other in places:
                hint = f"remove {key} or {other}"
                self._problem(at, "one-of", f"{key} and {other} exclude each other: {relation.why}", hint)
            case NamesFrom():
                names = cast(Mapping[str, object], values.get(key, {}))
                known = cast(tuple[str, ...], values[other])
                for name in names:
                    if name.lower() not in map(str.lower, known):
                        hint = f"{key}: {{{other} column: …}}; {did_you_mean(name, known, label=other)}"
                        self._problem(at, "not-a-key", f"{key} names '{name}', which is not a {other} column", hint)

    def _named(self, kind: field_types.Named, node: Node, label: str) -> object:
        if not isinstance(node, Entries):
            return self._mistyped(node, label, "names with values", f"{label}: {{name: …}}")
        values: dict[object, object] = {}
        for key, item in self._unique(node, fold=kind.name is Form.COLUMN):
            name = self._key(kind.name, key, label)
            value = self.value(kind.value, item, f"{label}.{_shown(key.text)}")
            if not isinstance(name, _Undecoded) and not isinstance(value, _Undecoded):
                values[name] = value
        return values

    def _key(self, kind: FieldType, key: Scalar, label: str) -> object:
        """Return a name as written: variables are only filled into values."""
        return Decoder(variables=Variables(folder="", strict=False), problems=self.problems).value(
            kind, key, f"a name in {label}"
        )

    def _unique(self, node: Entries, *, fold: bool = False) -> list[tuple[Scalar, Node]]:
        """Return the entries, each key once. With `fold`, letter case is ignored, as in Spark."""
        first: dict[str, Scalar] = {}
        entries: list[tuple[Scalar, Node]] = []
        for key, item in node.entries:
            before = first.setdefault(key.text.lower() if fold else key.text, key)
            if before is key:
                entries.append((key, item))
                continue
            duplicate = "" if before.text == key.text else f" of '{_shown(before.text)}'"
            what = f"'{_shown(key.text)}' is a duplicate{duplicate}; the first is on line {before.at.line}"
            self._problem(key.at, "duplicate-key", what, "remove one of the two")
        return entries

    def _list(self, kind: field_types.Lists, node: Node, label: str) -> object:
        items = node.items if isinstance(node, Items) else (node,)
        if not items:
            hint = "write at least one: [a, b]; or remove the key"
            return self._problem(node.at, "wrong-type", f"the list for {label} is empty", hint)
        values = [self.value(kind.item, item, label) for item in items]
        return UNDECODED if any(isinstance(value, _Undecoded) for value in values) else tuple(values)

    def _word_or_block(self, kind: field_types.WordOrBlock, node: Node, label: str) -> object:
        if not isinstance(node, Scalar):
            return self._block(kind.block, node, label)
        keys = keys_of(kind.block.model)
        if node.text in keys and node.text not in kind.words.words:
            what = f"'{node.text}' needs keys of its own"
            return self._problem(node.at, "wrong-type", what, _block_hint(label, node.text, keys[node.text].kind))
        return self._word(kind.words, node, label, also=tuple(keys))

    def _word(self, kind: field_types.Words, node: Node, label: str, also: tuple[str, ...] = ()) -> object:
        known = tuple(dict.fromkeys((*kind.words, *also)))
        text = self._filled(node, label, f"one of {', '.join(known)}")
        if not isinstance(text, str) or text in kind.words:
            return text
        hint = did_you_mean(text, known, label=f"values of {label}")
        return self._problem(node.at, "unknown-word", f"'{_shown(text)}' is not a valid value of {label}", hint)

    def _text(self, form: Form, node: Node, label: str) -> object:
        text, rule = self._filled(node, label, "text"), RULES.get(form)
        if not isinstance(text, str) or rule is None:
            return text
        return self._checked(node.at, label, lambda: rule.read(text))

    def _setting(self, node: Node, label: str) -> object:
        if isinstance(node, Scalar) and (_WHOLE.fullmatch(node.text) or node.text in ("true", "false")):
            return node.text
        if not isinstance(node, Scalar):
            return self._mistyped(node, label, "text", f"write {label}: followed by text")
        if node.sort != "text":
            # The text is not shown: it may be a secret.
            what = f"{label} must be text, but YAML can read it as {_READ_AS[node.sort]}"
            return self._problem(node.at, "needs-quotes", what, "write it in quotes")
        return self._checked(node.at, label, lambda: self.variables.setting(node.text))

    def _filled(self, node: Node, label: str, expected: str) -> object:
        scalar = self._scalar(node, label, expected)
        if not isinstance(scalar, Scalar):
            return scalar
        return self._checked(node.at, label, lambda: self.variables.fill(scalar.text))

    def _scalar(self, node: Node, label: str, expected: str) -> Scalar | _Undecoded:
        """Return a scalar that every YAML parser reads as text."""
        if not isinstance(node, Scalar) or node.sort == "null" or (node.sort == "other" and " " in node.text):
            return self._mistyped(node, label, expected, f"write {label}: followed by {expected}")
        if node.sort != "text":
            what = f"{label} must be {expected}, but YAML can read {_shown(node.text)} as {_READ_AS[node.sort]}"
            return self._problem(node.at, "needs-quotes", what, f'write it in quotes: "{_shown(node.text)}"')
        return node

    def _any(self, node: Node, label: str) -> object:
        if isinstance(node, Scalar) and node.sort in ("number", "boolean"):
            if node.text in BOOLEANS:
                return BOOLEANS[node.text]
            number = _number_of(node.text)
            return node.text if number is None else number
        if isinstance(node, Scalar) and node.sort == "date":
            return node.text
        return self._filled(node, label, "a value")

    def _unquoted(self, form: Form, node: Node, label: str) -> object:
        """Return a number, a share or a boolean, which is written without quotes or filled in from a variable."""
        text = self._variable_text(node, label)
        if isinstance(text, _Undecoded):
            return text
        read, expected, example = _UNQUOTED[form]
        if text is None and read in (_share_of, _limit_of) and isinstance(node, Scalar) and node.text.endswith("%"):
            text = node.text
        value = None if text is None else read(text)
        if value is None:
            return self._mistyped(node, label, expected, example.format(label=label))
        return value

    def _variable_text(self, node: Node, label: str) -> str | _Undecoded | None:
        """Return the text of a scalar that is not quoted, or that a variable was filled into."""
        if not isinstance(node, Scalar):
            return None
        if node.sort != "text":
            return node.text
        if "${" not in node.text:
            return None
        filled = self._checked(node.at, label, lambda: self.variables.fill(node.text))
        if not self.variables.strict and filled == node.text:
            return UNDECODED
        return filled if isinstance(filled, str | _Undecoded) else None

    def _checked(self, at: Place, label: str, read: Callable[[], object]) -> object:
        try:
            return read()
        except InvalidText as invalid:
            return self._problem(at, invalid.code, f"{label}: {invalid.what}", invalid.hint)

    def _mistyped(self, node: Node, label: str, expected: str, hint: str) -> _Undecoded:
        return self._problem(node.at, "wrong-type", f"{label} must be {expected}, found {_describe(node)}", hint)

    def _problem(self, at: Place, code: str, what: str, hint: str) -> _Undecoded:
        self.problems.add_error(code, what, at, hint)
        return UNDECODED


def _is_short(node: Node, kind: FieldType) -> bool:
    """Whether the node is the short form of a block, with the value of one key alone."""
    if isinstance(node, Items):
        return isinstance(kind, field_types.Lists)
    return isinstance(node, Scalar) and node.sort != "null"


def _whole_of(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) and int(text) > 0 else None


def _number_of(text: str) -> int | Decimal | None:
    if not _DECIMAL.fullmatch(text):
        return None
    return int(text) if "." not in text and "e" not in text.lower() else Decimal(text)


def _share_of(text: str) -> float | None:
    match = _SHARE.fullmatch(text)
    share = float(match[1]) / (100 if match[2] else 1) if match and match[1] else 0.0
    return share if 0 < share < 1 else None


def _limit_of(text: str) -> Limit | None:
    if _WHOLE.fullmatch(text):
        return Limit(rows=int(text))
    share = _share_of(text)
    return None if share is None else Limit(share=share)


_UNQUOTED: Mapping[Form, tuple[Callable[[str], object], str, str]] = {
    Form.NUMBER: (_whole_of, "a whole number of at least 1", "write it without quotes: {label}: 4"),
    Form.AMOUNT: (_number_of, "a number", "write it without quotes: {label}: 0.5"),
    Form.SHARE: (_share_of, "a fraction between 0 and 1, or a percentage", "{label}: 20%, or {label}: 0.2"),
    Form.LIMIT: (_limit_of, "a fraction between 0 and 1, or a percentage", "{label}: 20%, or {label}: 0.2"),
    Form.BOOLEAN: (BOOLEANS.get, "true or false", "write it without quotes: {label}: true"),
}
"""How texts without quotes are read, what they must be, and an example."""


def _describe(node: Node) -> str:
    match node:
        case Items():
            return "a list"
        case Entries():
            return "keys with values"
        case Scalar(sort="null"):
            return "nothing"
        case Scalar(sort="text"):
            return f"the text '{_shown(node.text)}'"
        case Scalar():
            return _shown(node.text)


def _block_hint(label: str, word: str, kind: FieldType) -> str:
    """Return an example of a block with its required keys."""
    keys = keys_of(kind.model) if isinstance(kind, field_types.Blocks) else {}
    needed = ", ".join(f"{name}: …" for name, key in keys.items() if key.required) or "…"
    others = [name for name, key in keys.items() if not key.required]
    return f"{label}: {{{word}: {{{needed}}}}}" + (f"  (also: {', '.join(others)})" if others else "")


def _shown(text: str) -> str:
    text = text if len(text) <= 60 else text[:57] + "…"
    return "".join(character if character.isprintable() else "�" for character in text)
