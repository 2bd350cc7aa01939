"""Compare two definitions of a contract, and classify each change as backward and forward compatible.

`backward`: the new definition can read old data. `forward`: the old definition can read new data. Both follow Avro's
rules for reader and writer schemas. They are stricter where SQL reads a table: a removed column breaks every query
that names it, required or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesmith.contracts.published import Definition
from lakesmith.declare import Column
from lakesmith.declare.contract import Compatibility
from lakesmith.declare.spark_type import ArrayType, DecimalType, MapType, SimpleType, SparkType, StructType, read_type
from lakesmith.plan.widening import widens

Kind = Literal["added", "removed", "type", "required", "key", "unique", "meaning", "terms", "documentation"]
_PROMOTED = {
    "tinyint": ("float", "double"),
    "smallint": ("float", "double"),
    "int": ("float", "double"),
    "bigint": ("float", "double"),
    "string": ("binary",),
    "binary": ("string",),
}
"""What Avro lets a reader promote, besides a wider type of the same kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One change."""

    kind: Kind
    path: str
    """The column, then after dots: a field's name, `element` of an array, `key` or `value` of a map. Empty for a change
    without a column. The columns of a key are separated by commas."""
    what: str
    """The change as a sentence."""
    backward: bool
    forward: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that change."""
        return tuple(name.partition(".")[0] for name in self.path.split(", ") if name)

    def breaks(self, compatibility: Compatibility) -> bool:
        """Whether the change needs a new major version."""
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
    """Return every change, in the order of the columns. A contract does not promise the order itself."""
    return tuple(_differences(old, new))


def type_differences(path: str, old: str, new: str) -> tuple[Difference, ...]:
    """Return every change from one type to another."""
    return tuple(_of_type(path, read_type(old), read_type(new)))


def _can_read(reader: SparkType, writer: SparkType) -> bool:
    """Whether a reader of the one simple type can read values that were written as the other."""
    return str(reader) in _PROMOTED.get(str(writer), ()) or widens(writer, reader)


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
            yield _added(name, required=column.is_required)
    yield from _of_key(old.columns, new.columns)
    for term, value in sorted(new.terms.items()):
        was = old.terms.get(term)
        if was is not None and was != value:
            yield Difference(kind="terms", path="", what=f"{term} is {value}, was {was}", backward=True, forward=True)


def _removed(path: str) -> Difference:
    return Difference(kind="removed", path=path, what=f"{path} was removed", backward=True, forward=False)


def _added(path: str, *, required: bool) -> Difference:
    # It is NULL in old rows: columns have no defaults.
    what = f"{path} is new and required" if required else f"{path} is new"
    return Difference(kind="added", path=path, what=what, backward=not required, forward=True)


def _of_column(old: Column, new: Column) -> Iterator[Difference]:
    name = new.name
    if old.type is None or new.type is None:
        yield from _promise("type", name, "type", old.type, new.type)
    else:
        yield from type_differences(name, old.type, new.type)
    yield from _flag("required", name, old.is_required, new.is_required)
    yield from _flag("unique", name, old.unique, new.unique)
    yield from _promise("meaning", name, "currency", old.currency, new.currency)
    yield from _promise("meaning", name, "timezone", old.timezone, new.timezone)
    for word in ("description", "tags", "since", "deprecated"):
        if getattr(old, word) != getattr(new, word):
            what = f"{word} of {name} changed"
            yield Difference(kind="documentation", path=name, what=what, backward=True, forward=True)


def _of_type(path: str, old: SparkType, new: SparkType) -> Iterator[Difference]:
    match old, new:
        case StructType(), StructType():
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
        case ArrayType(), ArrayType():
            yield from _of_type(f"{path}.element", old.element, new.element)
        case MapType(), MapType():
            yield from _of_type(f"{path}.key", old.key, new.key)
            yield from _of_type(f"{path}.value", old.value, new.value)
        case _ if old != new:
            simple = all(isinstance(type, SimpleType | DecimalType) for type in (old, new))
            yield Difference(
                kind="type",
                path=path,
                what=f"{path} is {new}, was {old}",
                backward=simple and _can_read(new, old),
                forward=simple and _can_read(old, new),
            )


def _promise(kind: Kind, path: str, word: str, old: str | None, new: str | None) -> Iterator[Difference]:
    """Compare a property that readers rely on. Declaring it binds old data, removing it fails old readers, and
    changing it breaks both."""
    if old == new:
        return
    what = f"{word} of {path} is {new or 'no longer declared'}, was {old or 'not declared'}"
    yield Difference(kind=kind, path=path, what=what, backward=new is None, forward=old is None)


def _flag(kind: Kind, path: str, old: bool, new: bool) -> Iterator[Difference]:
    if old != new:
        what = f"{path} is {kind}, was not" if new else f"{path} is no longer {kind}"
        yield Difference(kind=kind, path=path, what=what, backward=not new, forward=new)


def _of_key(before: Sequence[Column], after: Sequence[Column]) -> Iterator[Difference]:
    """Compare the keys. Rows that differ in some columns also differ in a superset: a larger key promises less."""
    old, new = ([column.name for column in columns if column.key] for columns in (before, after))
    if set(old) == set(new):
        return
    names = dict.fromkeys(column.name for column in (*before, *after))
    changed = [name for name in names if (name in old) != (name in new)]
    yield Difference(
        kind="key",
        path=", ".join(changed),
        what=f"the key is {_key_text(new)}, was {_key_text(old)}",
        backward=not new or (bool(old) and set(old) <= set(new)),
        forward=not old or (bool(new) and set(new) <= set(old)),
    )


def _key_text(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if key else "not declared"
