"""Read XML files as records: each element of one name is a row, and its content are the fields.

Names are those of Spark's own reader. A child element is a field of its name, without its namespace; several of one
name are a list, and one with elements or attributes is a struct. An attribute gets the prefix `_`, and the suffix
`_attribute` where that name is in use. Text next to either is `_VALUE`. An element without content, or with `xsi:nil`,
is NULL. Values are text with their spaces; comments and everything outside of rows are ignored.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from xml.parsers import expat

import pyarrow as pa
from pyarrow import types as is_

from lakesmith.intake.rows import SHOWN, Broken, Target, Unreadable
from lakesmith.intake.shapes import STRING, one_each, storable, type_of
from lakesmith.intake.shapes import wider as wider_type
from lakesmith.intake.split import MAX_RECORD
from lakesmith.intake.stream import transcoded

TEXT = "_VALUE"
Value = str | dict[str, "Value"] | list["Value"] | None
_PIECE = 1 << 20
_DEEP = 200
_MAX_LISTED = 12
_CUT = (
    expat.errors.XML_ERROR_NO_ELEMENTS,
    expat.errors.XML_ERROR_UNCLOSED_TOKEN,
    expat.errors.XML_ERROR_PARTIAL_CHAR,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
)
_NIL = "http://www.w3.org/2001/XMLSchema-instance nil"
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\x00": "utf-16-le", b"\x00<": "utf-16-be"}


def records(
    chunks: Iterable[bytes], row_tag: str, *, encoding: str | None = None
) -> Iterator[tuple[int, bytes, dict[str, Value] | Unreadable]]:
    """Yield the line, text and value of each row. `encoding` overrides the declaration in the file."""
    rows = _Rows(row_tag.rpartition(":")[2])
    for piece in _as_utf8(chunks, encoding):
        rows.feed(piece)
        yield from rows.completed()
    rows.close()
    yield from rows.completed()


def shape(found: Iterable[Mapping[str, Value] | Unreadable]) -> pa.DataType:
    """Return the columns of records, as a struct. A field that is a list in any record is a list."""
    structs = (_struct_of(record) for record in found if isinstance(record, Mapping))
    return reduce(wider, structs, pa.struct([]))


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that fits the values of both; a single value may become a list or a struct."""
    if one == other or is_.is_null(one) or is_.is_null(other):
        return wider_type(one, other)
    if is_.is_list(one) or is_.is_list(other):
        return pa.list_(wider(*(type.value_type if is_.is_list(type) else type for type in (one, other))))
    if is_.is_struct(one) and is_.is_struct(other):
        return one_each([*one, *other], wider)
    if is_.is_struct(one) or is_.is_struct(other):
        return wider(*(type if is_.is_struct(type) else pa.struct([(TEXT, type)]) for type in (one, other)))
    return wider_type(one, other)


def _type_of(value: Value) -> pa.DataType:
    match value:
        case list():
            return pa.list_(reduce(wider, map(_type_of, value), pa.null()))
        case dict():
            struct = _struct_of(value)
            return struct if len(struct) else STRING
        case _:
            return type_of(value)


def _struct_of(fields: Mapping[str, Value]) -> pa.DataType:
    return pa.struct([(name, _type_of(value)) for name, value in fields.items() if storable(name)])


def normalise(record: Mapping[str, Value], target: Target) -> dict[str, Value]:
    """Return the record with single values wrapped in a list or struct, as their columns require."""
    types = target.schema.types
    normal: dict[str, Value] = {}
    for name, value in record.items():
        place = target.places.get(name, target.places.get(name.lower()))
        normal[name] = value if place is None else _normal(value, types[place])
    return normal


def _normal(value: Value, type: pa.DataType) -> Value:
    if value is None:
        return None
    if is_.is_list(type):
        return [_normal(item, type.value_type) for item in (value if isinstance(value, list) else [value])]
    if not is_.is_struct(type) or isinstance(value, list):
        return value
    if isinstance(value, str):
        return {TEXT: value} if type.get_field_index(TEXT) >= 0 else value
    types = {field.name.lower(): field.type for field in type}
    return {name: _normal(item, types[name.lower()]) if name.lower() in types else item for name, item in value.items()}


def _as_utf8(chunks: Iterable[bytes], encoding: str | None) -> Iterator[bytes]:
    pieces = iter(chunks)
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= 1024 or b">" in head:
            break
    decode, encoding = _decoder(head, encoding)
    for piece in chain([head], pieces):
        for start in range(0, len(piece), _PIECE):
            yield transcoded(decode, piece[start : start + _PIECE], encoding, last=False)
    yield transcoded(decode, b"", encoding, last=True)


def _decoder(head: bytes, encoding: str | None) -> tuple[codecs.IncrementalDecoder, str]:
    declared = _DECLARED.match(head)
    if encoding is None:
        encoding = _WIDE.get(head[:2]) or (declared[1].decode() if declared else "utf-8")
        # A declaration that is readable as single bytes is not in a wide encoding: it was converted to UTF-8 before.
        if declared and encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32", "ucs", "iso-10646")):
            encoding = "utf-8"
    try:
        "".encode(encoding)  # rejects codecs that are not for text
        codec = codecs.lookup("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
        return codec.incrementaldecoder("strict"), encoding
    except LookupError as error:
        raise Broken("bad-encoding", f"the encoding {encoding!r}, which the file declares, is unknown") from error


@dataclass(slots=True)
class _Element:
    """An open element."""

    fields: dict[str, Value] = field(default_factory=dict)
    original_names: dict[str, str] = field(default_factory=lambda: {TEXT.lower(): "its own text"})
    """By lower-case name, the name of each field in the file."""
    repeated: set[str] = field(default_factory=set)
    text: list[str] = field(default_factory=list)
    nil: bool = False

    def add(self, name: str, called: str, value: Value) -> Unreadable | None:
        """Add a field; return the problem when another field has its name."""
        first = self.original_names.setdefault(name.lower(), called)
        if first != called:
            return Unreadable("names-collide", f"{first!r} and {called!r} would both be the field {name!r}")
        if name in self.repeated:
            self.fields[name].append(value)  # type: ignore[union-attr]
        elif name in self.fields:
            self.repeated.add(name)
            self.fields[name] = [self.fields[name], value]
        else:
            self.fields[name] = value
        return None

    def struct(self) -> dict[str, Value]:
        text = "".join(self.text)
        return {**self.fields, TEXT: text} if text.strip() else self.fields

    def value(self) -> Value:
        return self.struct() if self.fields else None if self.nil else "".join(self.text) or None


class _Rows:
    """Parses rows from a text in pieces, and buffers no more than the current row."""

    def __init__(self, row_tag: str) -> None:
        self._row_tag = row_tag
        self._parser = expat.ParserCreate("utf-8", " ")
        self._parser.buffer_text = True
        self._parser.ordered_attributes = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = _no_doctype
        self._buffer = bytearray()
        self._buffer_start = 0
        self._began = self._line = 0
        self._open: list[_Element] = []
        self._depth = 0
        self._bare = False
        """Whether nothing followed the last start tag yet."""
        self._problem: Unreadable | None = None
        self._found: list[tuple[int, bytes, dict[str, Value] | Unreadable]] = []
        self._any = False
        self._others: dict[str, None] = {}

    def feed(self, piece: bytes) -> None:
        self._buffer += piece
        self._parse(piece, last=False)
        reached, size = self._parser.CurrentByteIndex, self._buffer_start + len(self._buffer)
        if size - reached > MAX_RECORD:
            raise Broken("not-xml", f"line {self._parser.CurrentLineNumber}: a tag is longer than {MAX_RECORD:,} bytes")
        if self._depth and size - self._began > MAX_RECORD:
            self._reject(Unreadable("record-too-long", f"the row is longer than {MAX_RECORD:,} bytes"))
            del self._buffer[SHOWN : reached - self._buffer_start]
            self._began = self._buffer_start = size - len(self._buffer)
        keep = self._began if self._depth else max(reached, 0)
        del self._buffer[: keep - self._buffer_start]
        self._buffer_start = keep

    def close(self) -> None:
        self._parse(b"", last=True)
        if not self._any and len(self._others) > 1:
            root, *within = self._others
            what = f"there is no element {self._row_tag!r}; the root is {root!r}, with the elements {', '.join(within)}"
            raise Broken("no-row-element", what)

    def completed(self) -> Iterator[tuple[int, bytes, dict[str, Value] | Unreadable]]:
        found, self._found = self._found, []
        return iter(found)

    def _parse(self, piece: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            if message in _CUT:
                raise Broken(
                    "truncated-xml", f"the file ends in line {error.lineno}, before its root is closed"
                ) from error
            raise Broken("not-xml", f"line {error.lineno}, column {error.offset + 1}: {message}") from error

    def _start(self, called: str, attributes: Sequence[str]) -> None:
        if not self._depth:
            local = _local(called)
            if local != self._row_tag:
                if len(self._others) < _MAX_LISTED:
                    self._others[local] = None
                return
            self._any = True
            self._began, self._line = self._parser.CurrentByteIndex, self._parser.CurrentLineNumber
            self._problem = None
            self._open.clear()
        self._depth += 1
        self._bare = True
        if self._problem is not None:
            return
        if self._depth > _DEEP:
            self._reject(Unreadable("too-deep", f"elements are nested more than {_DEEP} deep"))
            return
        element = _Element()
        for attribute, value in zip(attributes[::2], attributes[1::2], strict=True):
            if attribute == _NIL:
                element.nil = value.strip() in ("true", "1")
            else:
                self._add(element, _attribute(_local(attribute)), f"@{attribute}", value)
        self._open.append(element)

    def _text(self, text: str) -> None:
        self._bare = False
        if self._depth and self._problem is None:
            self._open[-1].text.append(text)

    def _end(self, called: str) -> None:
        if not self._depth:
            return
        self._depth -= 1
        if self._depth and self._problem is None:
            value = self._open.pop().value()
            self._add(self._open[-1], _local(called), called, value)
        if not self._depth:
            raw = self._raw()
            record = self._problem or self._open.pop().struct()
            self._found.append((self._line, raw, record))
        self._bare = False

    def _add(self, element: _Element, name: str, called: str, value: Value) -> None:
        problem = element.add(name, called, value)
        if problem is not None:
            self._reject(problem)

    def _reject(self, problem: Unreadable) -> None:
        self._problem = problem
        self._open.clear()

    def _raw(self) -> bytes:
        """Return the text of the row that ends here. Its end tag follows, unless it has none."""
        here = self._parser.CurrentByteIndex - self._buffer_start
        closed = self._bare and self._buffer.endswith(b"/>", 0, here)
        end = here if closed else self._buffer.index(b">", here) + 1
        return bytes(self._buffer[self._began - self._buffer_start : end])


def _no_doctype(*_: object) -> None:
    raise Broken("xml-entities", "the file has a DOCTYPE, which can define entities; this is not supported")


def _local(called: str) -> str:
    """Return a name without its namespace, which precedes a space."""
    return called.rpartition(" ")[2]


def _attribute(name: str) -> str:
    taken = not storable(f"_{name}") or f"_{name}".lower() == TEXT.lower()
    return f"_{name}_attribute" if taken else f"_{name}"
