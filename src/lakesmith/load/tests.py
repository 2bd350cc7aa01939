"""Load test files into tests: rows in YAML or CSV, with the place of every value."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, cast

from lakesmith.declare import LAYERS, Source, Table, TableName, UnrunPython
from lakesmith.declare.forms import Form, TableReference, Text
from lakesmith.declare.names import is_identifier
from lakesmith.declare.tests import Batch, RejectedRow, Row, Rows, TableTest, Value, Word
from lakesmith.errors import Place, did_you_mean, raise_all
from lakesmith.load import field_types as kinds
from lakesmith.load.decode import Decoder
from lakesmith.load.field_types import LATER, Block
from lakesmith.load.files import empty_file, read_text
from lakesmith.load.nodes import Entries, Items, Node, Scalar
from lakesmith.load.problems import ProblemList
from lakesmith.load.variables import Variables
from lakesmith.load.yaml_text import read_yaml

ENDINGS = (".test.yml", ".test.yaml")
FOLDER = "tests"
_RULES = "rules"

LaterRows = Annotated[str, LATER]
"""Rows, or the CSV file with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestBlock(Block):
    """Input rows and expected rows of a table."""

    table: Annotated[TableReference | None, "The tested table; in a file next to a declaration, that table."] = None
    description: Annotated[Text | None, "A description of the test."] = None
    given: Annotated[
        Mapping[TableReference, LaterRows],
        "By input table, its rows or a CSV file; for the tested table, its rows before the run.",
    ] = field(default_factory=dict)
    then: Annotated[
        tuple[Mapping[TableReference, LaterRows], ...], "Later batches of rows, each followed by a run."
    ] = ()
    expect: Annotated[str | None, "The expected rows of the table, or a CSV file.", LATER] = None
    exactly: Annotated[bool, "Columns that are not named must be NULL; by default they are not compared."] = False
    quarantine: Annotated[str | None, "All quarantined rows, with their `rules`.", LATER] = None
    fails: Annotated[Text | None, "The code of the expected error, such as `gate-failed`."] = None


def is_test_file(name: str) -> bool:
    """Whether a file next to declarations is a test file."""
    return name.endswith(ENDINGS)


def load_tests(
    folder: str, tables: Mapping[TableName, Table], unrun: UnrunPython | None = None
) -> tuple[TableTest, ...]:
    """Return every test of a lake, in the order of files. Raise all problems at once.

    Skip tests and rows of tables that may be declared in Python files that were not run.
    """
    problems = ProblemList()
    tests: list[TableTest] = []
    for file in _files(folder):
        with problems.collecting():
            test_file = _TestFile(
                folder=folder, file=file, tables=tables, unrun=unrun or UnrunPython(), problems=problems
            )
            tests += test_file.read()
    raise_all(problems)
    return tuple(tests)


def _files(folder: str) -> Iterator[str]:
    """Yield the paths of test files, relative to the lake's folder."""
    for layer in LAYERS:
        if os.path.isdir(os.path.join(folder, layer)):
            yield from (f"{layer}/{name}" for name in sorted(os.listdir(os.path.join(folder, layer))) if _is_read(name))
    for parent, folders, names in os.walk(os.path.join(folder, FOLDER)):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        where = os.path.relpath(parent, folder).replace(os.sep, "/")
        for name in sorted(names):
            if name.endswith((".yml", ".yaml")) and not name.startswith((".", "_")):
                yield f"{where}/{name}"


def _is_read(name: str) -> bool:
    return is_test_file(name) and not name.startswith((".", "_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _TestFile:
    """One test file."""

    folder: str
    file: str
    tables: Mapping[TableName, Table]
    unrun: UnrunPython
    problems: ProblemList

    def read(self) -> Iterator[TableTest]:
        node = read_yaml(read_text(os.path.join(self.folder, self.file), self.file), self.file)
        if node is None:
            raise empty_file(self.file, "latest_wins: {given: {bronze.orders: [...]}, expect: [...]}")
        # Values are data: `${name}` in them is not filled in.
        decoder = Decoder(variables=Variables(folder="", strict=False), problems=self.problems)
        named = kinds.Named(Form.ANY_TEXT, kinds.Blocks(TestBlock))
        blocks = decoder.value(named, node, FOLDER)
        if not isinstance(node, Entries) or not isinstance(blocks, dict):
            return
        places = {key.text: key.at for key, _ in node.entries}
        for name, block in cast(dict[str, TestBlock], blocks).items():
            before = len(self.problems)
            test = self._test(name, block, places[name])
            if test is not None and len(self.problems) == before:
                yield test

    def _test(self, name: str, block: TestBlock, at: Place) -> TableTest | None:
        table = self._table(name, block, block.places.get("table", at))
        if table is None:
            return None
        given = self._batch(cast(Mapping[TableName, Node], block.given))
        then = tuple(self._batch(cast(Mapping[TableName, Node], batch)) for batch in block.then)
        expect = self._rows(cast(Node, block.expect), "expect") if "expect" in block.places else None
        rejected = self._rejected(cast(Node, block.quarantine)) if "quarantine" in block.places else None
        if expect is None and rejected is None and block.fails is None:
            hint = "write expect, quarantine or fails; expect: [] means no rows"
            self.problems.add_error("missing-key", f"{FOLDER}.{name} has no expectation", at, hint)
        return TableTest(
            name=name,
            table=table,
            description=block.description,
            given=given,
            then=then,
            expect=expect,
            exactly=block.exactly,
            quarantine=rejected,
            fails=block.fails,
            declared_at=at,
        )

    def _table(self, name: str, block: TestBlock, at: Place) -> TableName | None:
        table = block.table
        if table is None and "table" in block.places:
            return None
        if table is None:
            layer, _, file = self.file.partition("/")
            stem = next((file.removesuffix(ending) for ending in ENDINGS if file.endswith(ending)), "")
            table = TableName(layer, stem)
            if layer not in LAYERS or (table not in self.tables and not self.unrun.may_declare(table)):
                known = [str(each) for each in self.tables]
                hint = f"write table: …;  {did_you_mean(str(table), known, label='tables')}"
                self.problems.add_error("missing-key", f"{FOLDER}.{name} has no table", at, hint)
                return None
        if not self._is_known(table, at):
            return None
        if isinstance(self.tables[table].origin, Source):
            hint = f"test a table that reads {table}, with its rows below `given`"
            self.problems.add_error("not-testable", f"{table} has no query: its rows come from a source", at, hint)
            return None
        return table

    def _is_known(self, table: TableName, at: Place) -> bool:
        if table not in self.tables and not self.unrun.may_declare(table):
            hint = did_you_mean(str(table), map(str, self.tables), label="tables")
            self.problems.add_error("unknown-table", f"there is no table {table}", at, hint)
        return table in self.tables

    def _batch(self, written: Mapping[TableName, Node]) -> Batch:
        return {name: self._rows(node, str(name)) for name, node in written.items() if self._is_known(name, node.at)}

    def _rejected(self, node: Node) -> tuple[RejectedRow, ...]:
        found = []
        for row in self._rows(node, "quarantine"):
            value = row.values.get(_RULES)
            rules = (value,) if isinstance(value, Word) else value
            if rules is not None and not (isinstance(rules, tuple) and all(isinstance(rule, Word) for rule in rules)):
                self.problems.add_error("wrong-type", "rules must be a list of names", row.at, "rules: [amount.check]")
                continue
            names = tuple(word.text for word in cast(tuple[Word, ...], rules)) if rules is not None else None
            values = {name: value for name, value in row.values.items() if name != _RULES}
            found.append(RejectedRow(row=Row(values=values, at=row.at), rules=names))
        return tuple(found)

    def _rows(self, node: Node, label: str) -> Rows:
        match node:
            case Items(items=items):
                return tuple(row for item in items if (row := self._row(item, label)) is not None)
            case Scalar(sort="text", text=text) if text.endswith(".csv"):
                return self._csv(text, node.at)
            case _:
                hint = f"{label}: [{{column: value}}], or a CSV file next to this one; [] means no rows"
                self.problems.add_error("wrong-type", f"{label} must be a list of rows, or a CSV file", node.at, hint)
                return ()

    def _row(self, node: Node, label: str) -> Row | None:
        if not isinstance(node, Entries):
            what = f"a row of {label} must be columns with values"
            self.problems.add_error("wrong-type", what, node.at, "- {column: value}")
            return None
        values: dict[str, Value] = {}
        for key, item in node.entries:
            if self._column(key.text, key.at, values):
                values[key.text] = _value(item)
        return Row(values=values, at=node.at)

    def _column(self, name: str, at: Place, before: Mapping[str, Value]) -> bool:
        if not is_identifier(name):
            hint = "letters, digits and underscores only"
            self.problems.add_error("bad-identifier", f"{name!r} is not a column name", at, hint)
        elif name.lower() in (each.lower() for each in before):
            self.problems.add_error(
                "duplicate-key", f"the row has the column '{name}' twice", at, "remove one of the two"
            )
        else:
            return True
        return False

    def _csv(self, path: str, at: Place) -> Rows:
        """Read the rows of a CSV file: the header names the columns, and an empty field is NULL."""
        beside = os.path.join(self.folder, os.path.dirname(self.file))
        whole = os.path.normpath(os.path.join(beside, path))
        file = os.path.relpath(whole, self.folder).replace(os.sep, "/")
        if not os.path.isfile(whole):
            near = [name for name in os.listdir(beside) if name.endswith(".csv")]
            self.problems.add_error(
                "bad-csv", f"there is no file {file}", at, did_you_mean(path, near, label="CSV files")
            )
            return ()
        rows: list[Row] = []
        try:
            lines = csv.reader(io.StringIO(read_text(whole, file), newline=""), strict=True)
            header = next(lines, [])
            columns: dict[str, Value] = {}
            for name in header:
                if self._column(name, Place(file), columns):
                    columns[name] = None
            for cells in lines:
                here = Place(file, lines.line_num)
                if cells and len(cells) != len(header):
                    what = f"the line has {len(cells)} values, and the header {len(header)}"
                    self.problems.add_error("bad-csv", what, here, "put a value with a comma in double quotes")
                elif cells:
                    words = [Word(cell, True, here) if cell else None for cell in cells]
                    rows.append(Row(values=dict(zip(header, words, strict=True)), at=here))
        except csv.Error as error:
            at = Place(file, lines.line_num)
            self.problems.add_error("bad-csv", f"CSV syntax error: {error}", at, "look for an open quote")
        return tuple(rows)


def _value(node: Node) -> Value:
    match node:
        case Scalar(sort="null"):
            return None
        case Scalar(text=text, sort=sort, at=at):
            # Plain numbers, booleans and dates get their type from their column.
            return Word(text, sort in ("number", "boolean", "date"), at)
        case Items(items=items):
            return tuple(map(_value, items))
        case Entries(entries=entries):
            return {key.text: _value(item) for key, item in entries}
