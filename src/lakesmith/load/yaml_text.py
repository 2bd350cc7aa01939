"""Parse YAML into nodes with places, from parser events, so that no object is ever constructed."""

from __future__ import annotations

import yaml

from lakesmith.errors import DeclarationError, Place
from lakesmith.load.nodes import Entries, Items, Node, Scalar, plain_sort

MAX_DEPTH = 20
MAX_ALIASED = 1_000
"""The maximum number of nodes that aliases may expand to in one file."""

# The C parser is ten times faster; PyYAML builds without it read the same language.
_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str, file: str, first_line: int = 1) -> Node | None:
    """Return the only document in `text`, or None when there is none; `first_line` is its line in the file."""
    try:
        return _Document(text, file, first_line).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        at = Place(file, min(first_line + line, first_line + text.count("\n")))
        message = " ".join(part for part in (error.context, error.problem) if part) or "it cannot be read"
        what, hint = f"YAML syntax error: {message}", _hint(error, text, line)
        raise DeclarationError("yaml-syntax", what, at=at, hint=hint) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) if isinstance(error.position, int) else 0
        what, hint = (
            "the text contains a control character",
            "remove the character; in quotes it can be written as \\x07",
        )
        raise DeclarationError("yaml-syntax", what, at=Place(file, first_line + line), hint=hint) from None


class _Document:
    """One pass over the events of one text."""

    def __init__(self, text: str, file: str, first_line: int) -> None:
        self._events = _Parser(text)
        self._file = file
        self._first_line = first_line
        self._anchors: dict[str, Node | None] = {}
        self._aliased = 0

    def read(self) -> Node | None:
        self._events.get_event()
        if self._events.check_event(yaml.StreamEndEvent):
            return None
        self._events.get_event()
        node = self._node(0)
        self._events.get_event()
        if not self._events.check_event(yaml.StreamEndEvent):
            at, hint = (
                self._place(self._events.peek_event()),
                "remove the line '---', or put each document into its own file",
            )
            raise DeclarationError("several-documents", "the text has more than one YAML document", at=at, hint=hint)
        if isinstance(node, Scalar) and node.sort == "null" and not node.text:
            return None
        return node

    def _node(self, depth: int) -> Node:
        event = self._events.get_event()
        at = self._place(event)
        if depth > MAX_DEPTH:
            what = f"the YAML is nested more than {MAX_DEPTH} levels deep"
            raise DeclarationError("too-deep", what, at=at, hint="no declaration needs more than five levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor or "", at)
        if event.tag is not None:
            what = f"the YAML tag {event.tag.replace('tag:yaml.org,2002:', '!!')} is not supported here"
            hint = "remove the tag; quote text that YAML could read as something else"
            raise DeclarationError("yaml-tag", what, at=at, hint=hint)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(event.value, plain_sort(event.value) if event.implicit[0] else "text", at)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._items(at, depth)
        else:
            node = self._entries(at, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _items(self, at: Place, depth: int) -> Items:
        items: list[Node] = []
        while not self._events.check_event(yaml.SequenceEndEvent):
            items.append(self._node(depth + 1))
        self._events.get_event()
        return Items(tuple(items), at, 1 + sum(item.size for item in items))

    def _entries(self, at: Place, depth: int) -> Entries:
        entries: list[tuple[Scalar, Node]] = []
        while not self._events.check_event(yaml.MappingEndEvent):
            key = self._node(depth + 1)
            if not isinstance(key, Scalar):
                what, hint = (
                    "a key must be a scalar, not a list or a mapping",
                    "put a value like {name} in quotes if it is text",
                )
                raise DeclarationError("yaml-key", what, at=key.at, hint=hint)
            entries.append((key, self._node(depth + 1)))
        self._events.get_event()
        return Entries(tuple(entries), at, 1 + sum(1 + value.size for _, value in entries))

    def _alias(self, anchor: str, at: Place) -> Node:
        if anchor not in self._anchors:
            what, hint = f"there is no anchor &{anchor} before this alias", "put text that starts with * in quotes"
            raise DeclarationError("yaml-alias", what, at=at, hint=hint)
        node = self._anchors[anchor]
        if node is None:
            what = f"the alias *{anchor} refers to its own parent"
            raise DeclarationError("yaml-alias", what, at=at, hint="write the value out")
        # Counted by stored sizes: a bomb of nested aliases is found without expanding it.
        self._aliased += node.size
        if self._aliased > MAX_ALIASED:
            what = f"the aliases of this file expand to more than {MAX_ALIASED} values"
            hint = "write the values out, or use `defaults` in lakesmith.yml"
            raise DeclarationError("alias-bomb", what, at=at, hint=hint)
        return node

    def _place(self, event: yaml.Event) -> Place:
        return Place(self._file, self._first_line + (event.start_mark.line if event.start_mark else 0))


def _hint(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    lines = text.split("\n")
    content = lines[line] if line < len(lines) else ""
    problem = error.problem or ""
    if "\t" in content:
        return "this line contains a tab; indent YAML with spaces"
    if "cannot start any token" in problem:
        return "put text that starts with @, ` or % in quotes"
    if "mapping values are not allowed" in problem:
        return "put text with ': ' in quotes, and indent all keys of a block equally"
    if "unexpected end of stream" in problem:
        return "a quote or bracket is not closed"
    return "check for a missing quote, bracket or colon, and for uneven indentation, here or just above"
