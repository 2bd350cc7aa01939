"""What has changed between two definitions of a contract, and which readers can live with it.

`backward`: the new definition can read old data. `forward`: the old definition can read new data. Both follow the
rules by which Avro fits a reader's schema to a writer's, and go beyond them where a table is read by SQL: a column that
is gone breaks whoever names it, whether or not it had to have a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesmith.contracts.published import Definition, PromisedColumn
from lakesmith.contracts.types import Array, Leaf, Map, Struct, Type, read_type, reads
from lakesmith.declare.contract import Compatibility

Kind = Literal["added", "removed", "type", "required", "key", "unique", "meaning", "terms", "words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One change."""

    kind: Kind
    path: str
    """The column, or below it by dots: a field's name, `element` of an array, `key` and `value` of a map. Empty for
    what is not of a column; the columns of a key are separated by commas."""
    what: str
    """In words."""
    backward: bool
    forward: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return tuple(name.partition(".")[0] for name in self.path.split(", ") if name)

    def breaks(self, compatibility: Compatibility) -> bool:
        """Whether it needs a new major version."""
        match compatibility:
            case "backward":
                return not self.backward
            case "forward":
                return not self.forward
            case "full":
                return not (self.backward and self.forward)
            case "none":
                return False


def differences(old: Definition, new: Definition) -> tuple[Difference, ...]:
    """Every change, in the order of the columns; the order itself is no part of a contract."""
    return tuple(_differences(old, new))


def type_differences(path: str, old: str, new: str) -> tuple[Difference, ...]:
    """Every change from one type to another."""
    return tuple(_of_type(path, read_type(old), read_type(new)))


def _differences(old: Definition, new: Definition) -> Iterator[Difference]:
    before = {column.name: column for column in old.columns}
    after = {column.name: column for column in new.columns}
    for name, column in before.items():
        if name not in after:
            yield _removed(name)
        else:
            yield from _of_column(column, after[name])
    for name, column in after.items():
        if name not in before:
            yield _added(name, required=column.has_value)
    yield from _of_key(before, after, _key(old.columns), _key(new.columns))
    for term, value in sorted(new.terms.items()):
        was = old.terms.get(term)
        if was is not None and was != value:
            yield Difference(kind="terms", path="", what=f"{term} is {value}, was {was}", backward=True, forward=True)


def _removed(path: str) -> Difference:
    return Difference(kind="removed", path=path, what=f"{path} is gone", backward=True, forward=False)


def _added(path: str, *, required: bool) -> Difference:
    # Old rows have no value for it, and columns have no defaults.
    what = f"{path} is new and required" if required else f"{path} is new"
    return Difference(kind="added", path=path, what=what, backward=not required, forward=True)


def _of_column(old: PromisedColumn, new: PromisedColumn) -> Iterator[Difference]:
    name = new.name
    if old.type is None or new.type is None:
        yield from _promise("type", name, "type", old.type, new.type)
    else:
        yield from type_differences(name, old.type, new.type)
    yield from _flag("required", name, "required", old.has_value, new.has_value)
    yield from _flag("unique", name, "unique", old.unique, new.unique)
    yield from _promise("meaning", name, "currency", old.currency, new.currency)
    yield from _promise("meaning", name, "timezone", old.timezone, new.timezone)
    for word in ("description", "tags", "since", "deprecated"):
        if getattr(old, word) != getattr(new, word):
            yield Difference(kind="words", path=name, what=f"{word} of {name} changed", backward=True, forward=True)


def _of_type(path: str, old: Type, new: Type) -> Iterator[Difference]:
    match old, new:
        case Struct(), Struct():
            before, after = dict(old.fields), dict(new.fields)
            for name, type in before.items():
                below = f"{path}.{name}"
                if name in after:
                    yield from _of_type(below, type, after[name])
                else:
                    yield _removed(below)
            for name in after:
                if name not in before:
                    yield _added(f"{path}.{name}", required=False)
        case Array(), Array():
            yield from _of_type(f"{path}.element", old.element, new.element)
        case Map(), Map():
            yield from _of_type(f"{path}.key", old.key, new.key)
            yield from _of_type(f"{path}.value", old.value, new.value)
        case _ if old != new:
            leaves = isinstance(old, Leaf) and isinstance(new, Leaf)
            yield Difference(
                kind="type",
                path=path,
                what=f"{path} is {new}, was {old}",
                backward=leaves and reads(str(new), str(old)),
                forward=leaves and reads(str(old), str(new)),
            )


def _promise(kind: Kind, path: str, word: str, old: str | None, new: str | None) -> Iterator[Difference]:
    """A word that readers count on: told for the first time it binds old data, no longer told it fails old readers,
    and another word means something else to both."""
    if old == new:
        return
    what = f"{word} of {path} is {new or 'not told any more'}, was {old or 'not told'}"
    yield Difference(kind=kind, path=path, what=what, backward=new is None, forward=old is None)


def _flag(kind: Kind, path: str, word: str, old: bool, new: bool) -> Iterator[Difference]:
    if old != new:
        what = f"{path} is {word}, was not" if new else f"{path} is not {word} any more"
        yield Difference(kind=kind, path=path, what=what, backward=not new, forward=new)


def _of_key(
    before: dict[str, PromisedColumn], after: dict[str, PromisedColumn], old: Sequence[str], new: Sequence[str]
) -> Iterator[Difference]:
    """Rows that differ in some columns differ in more of them too: a key that grows promises less, not more."""
    if set(old) == set(new):
        return
    changed = [name for name in dict.fromkeys((*before, *after)) if (name in old) != (name in new)]
    yield Difference(
        kind="key",
        path=", ".join(changed),
        what=f"the key is {_told(new)}, was {_told(old)}",
        backward=not new or (bool(old) and set(old) <= set(new)),
        forward=not old or (bool(new) and set(new) <= set(old)),
    )


def _key(columns: Sequence[PromisedColumn]) -> tuple[str, ...]:
    return tuple(column.name for column in columns if column.key)


def _told(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if key else "not told"
