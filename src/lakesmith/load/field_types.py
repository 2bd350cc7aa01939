"""The field types of a declaration, derived from the type annotations of the models."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from lakesmith.errors import Place
from lakesmith.load.rules import AMOUNT, LATER, LIMIT, SETTING, SHARE, VALUE, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The base class of the models: the allowed keys and their values."""

    SHORT: ClassVar[str | None] = None
    """The key that a value without keys is read as."""
    ONE_KEY: ClassVar[bool] = False
    """Exactly one key must be written."""
    at: Place
    places: Mapping[str, Place]
    """The place of each written key, whether or not its value could be read."""


B = TypeVar("B", bound=Block)


@dataclass(frozen=True, slots=True)
class Texts:
    """A text that follows a rule."""

    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class SettingTexts:
    """A text that may hold a secret by reference; numbers and true/false are read as text."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A whole number, at least 1."""


@dataclass(frozen=True, slots=True)
class Shares:
    """A fraction between 0 and 1: 0.2 or 20%."""


@dataclass(frozen=True, slots=True)
class Values:
    """A single value: text, a number, true or false."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """A number, which may be negative or have a fraction."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A share of the rows (2%) or a number of rows (100)."""


@dataclass(frozen=True, slots=True)
class Booleans:
    """true or false."""


@dataclass(frozen=True, slots=True)
class Words:
    """One of several words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lists:
    """A list; a single value needs no brackets."""

    item: FieldType


@dataclass(frozen=True, slots=True)
class Named:
    """Names with values."""

    name: FieldType
    value: FieldType


@dataclass(frozen=True, slots=True)
class Blocks:
    """The keys of a model."""

    model: type[Block]


@dataclass(frozen=True, slots=True)
class WordOrBlock:
    """One of several words, or the keys of a model."""

    words: Words
    block: Blocks


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be left empty."""

    value: FieldType


@dataclass(frozen=True, slots=True)
class Later:
    """A value that stays a node until the variables are known."""

    value: FieldType


FieldType = (
    Texts
    | SettingTexts
    | Numbers
    | Shares
    | Values
    | Amounts
    | Limits
    | Booleans
    | Words
    | Lists
    | Named
    | Blocks
    | WordOrBlock
    | Optional
    | Later
)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a model."""

    kind: FieldType
    required: bool
    about: str


_keys: dict[type[Block], Mapping[str, Key]] = {}


def keys_of(model: type[Block]) -> Mapping[str, Key]:
    """Return the allowed keys, in the order of the model."""
    if model not in _keys:
        _keys[model] = _read_keys(model)
    return _keys[model]


def _read_keys(model: type[Block]) -> Mapping[str, Key]:
    hints = get_type_hints(model, include_extras=True)
    found: dict[str, Key] = {}
    for item in fields(model):
        if item.name in ("at", "places"):
            continue
        required = item.default is MISSING and item.default_factory is MISSING
        about = next(note for note in hints[item.name].__metadata__ if isinstance(note, str))
        # A key may be a reserved word of Python or of the block.
        found[item.name.removesuffix("_")] = Key(field_type_of(hints[item.name]), required, about)
    return found


@cache
def field_type_of(annotation: typing.Any) -> FieldType:
    """Return the field type for a type annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _marked_type(annotation)
    if origin in (types.UnionType, typing.Union):
        rest = [argument for argument in arguments if argument is not type(None)]
        if len(rest) == 2:
            words, block = field_type_of(rest[0]), field_type_of(rest[1])
            assert isinstance(words, Words)
            assert isinstance(block, Blocks)
            return WordOrBlock(words, block)
        return field_type_of(rest[0])
    if origin is Literal:
        return Words(arguments)
    if origin is tuple:
        return Lists(field_type_of(arguments[0]))
    if origin is Mapping:
        optional = type(None) in get_args(arguments[1])
        value = field_type_of(arguments[1])
        return Named(field_type_of(arguments[0]), Optional(value) if optional else value)
    if annotation is bool:
        return Booleans()
    if annotation is int:
        return Numbers()
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return Blocks(annotation)
    assert annotation is str, annotation
    return Texts()


_MARKED: Mapping[object, FieldType] = {SHARE: Shares(), VALUE: Values(), AMOUNT: Amounts(), LIMIT: Limits()}


def _marked_type(annotation: typing.Any) -> FieldType:
    for note in annotation.__metadata__:
        if isinstance(note, Rule):
            return Texts(note)
        if note is SETTING:
            return SettingTexts()
        if note in _MARKED:
            return _MARKED[note]
        if note is LATER:
            return Later(field_type_of(annotation.__origin__))
    return field_type_of(annotation.__origin__)
