"""The field types of a declaration, derived from the type annotations of the models."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from lakesmith.declare.forms import Form, Relation
from lakesmith.errors import Place

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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


LATER = object()
"""Marks a value that is decoded later, when the variables are known."""
B = TypeVar("B", bound="DataclassInstance")


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
    """The keys of a model: a block, or a declaration that is its own model."""

    model: type[DataclassInstance]

    @property
    def short(self) -> str | None:
        """The key that a value without keys is read as."""
        short: str | None = getattr(self.model, "SHORT", None)
        return short

    @property
    def one_key(self) -> bool:
        """Whether exactly one key must be written."""
        return issubclass(self.model, Block) and self.model.ONE_KEY

    def make(self, at: Place, places: Mapping[str, Place], values: Mapping[str, object]) -> object:
        """Return the model's value for the decoded keys."""
        # A key may be a reserved word of Python or of the block.
        names = {field.name for field in fields(self.model)}
        fitted = {f"{key}_" if f"{key}_" in names else key: value for key, value in values.items()}
        return self.model(**fitted, **({"at": at, "places": places} if issubclass(self.model, Block) else {}))


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


FieldType = Form | Words | Lists | Named | Blocks | WordOrBlock | Optional | Later


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a model."""

    kind: FieldType
    required: bool
    about: str
    relations: tuple[Relation, ...]


@cache
def keys_of(model: type[DataclassInstance]) -> Mapping[str, Key]:
    """Return the allowed keys, in the order of the model."""
    hints = get_type_hints(model, include_extras=True)
    found: dict[str, Key] = {}
    for item in fields(model):
        if item.name in ("at", "places"):
            continue
        required = item.default is MISSING and item.default_factory is MISSING
        about = next(note for note in hints[item.name].__metadata__ if isinstance(note, str))
        relations = tuple(note for note in hints[item.name].__metadata__ if isinstance(note, Relation))
        found[item.name.removesuffix("_")] = Key(field_type_of(hints[item.name]), required, about, relations)
    return found


def written_keys(block: DataclassInstance) -> dict[str, typing.Any]:
    """Return the keys of a block that have a value."""
    values = {key: getattr(block, key) for key in keys_of(type(block))}
    return {key: value for key, value in values.items() if value is not None}


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
        return Form.BOOLEAN
    if annotation is int:
        return Form.NUMBER
    if isinstance(annotation, type) and is_dataclass(annotation):
        return Blocks(annotation)
    assert annotation is str, annotation
    return Form.ANY_TEXT


def _marked_type(annotation: typing.Any) -> FieldType:
    for note in annotation.__metadata__:
        if isinstance(note, Form):
            return note
        if note is LATER:
            return Later(field_type_of(annotation.__origin__))
    return field_type_of(annotation.__origin__)
