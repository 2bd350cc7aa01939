"""Load a lake's folder into one declaration, and report the problems of all files at once."""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakesmith.declare import (
    LAYERS,
    LakeDeclaration,
    OtherTable,
    PythonQuery,
    Query,
    SqlQuery,
    Table,
    TableName,
    UnrunPython,
)
from lakesmith.declare.names import is_table_identifier
from lakesmith.declare.python import Ref, WrittenTable
from lakesmith.errors import DeclarationError, LakesmithError, Place, raise_all
from lakesmith.load.decode import Decoder
from lakesmith.load.files import empty_file, is_folder, read_start, read_text
from lakesmith.load.lake_file import LAKE_FILE, EnvironmentSettings, LakeFile
from lakesmith.load.models import TableBlock
from lakesmith.load.nodes import Entries, Node, from_python
from lakesmith.load.paths import is_url
from lakesmith.load.problems import ProblemList
from lakesmith.load.python import PythonFile, parse_python, read_python, relative_path
from lakesmith.load.sql_text import read_sql
from lakesmith.load.static import StaticTable, declaring_modules, read_static
from lakesmith.load.tables import TableBuilder
from lakesmith.load.tests import is_test_file
from lakesmith.load.yaml_text import read_yaml

_ENDINGS = (".yml", ".yaml", ".sql", ".py")
_ACCESS = "access"
_RULES = (".yml", ".yaml", ".json")
_NOT_PLAIN = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def load_lake(
    path: str | Path,
    *,
    environment: str | None = None,
    variables: Mapping[str, str] | None = None,
    run_python: bool = True,
) -> LakeDeclaration:
    """Read the lake in a folder for one environment. Raise all problems at once, in the order of files.

    Run Python files. With `run_python` false, parse them instead and use only literal declarations.
    """
    folder = os.path.abspath(path)
    problems = ProblemList()
    settings = LakeFile(folder=folder, problems=problems).read(environment, variables or {})
    reader = _LayerReader(folder, settings, problems)
    for layer, file in _files(folder, problems):
        with problems.collecting():
            reader.read(layer, file, run_python=run_python)
    for problem in problems:
        settings.environment.mask(problem)
    raise_all(sorted(problems, key=_problem_order))
    landing = settings.environment.landing
    return LakeDeclaration(
        name=settings.name,
        path=folder,
        environment=settings.environment,
        environments=settings.environments,
        tables={
            name: _resolve_location(reader.tables[name], landing) for name in sorted(reader.tables, key=_table_order)
        },
        declared_at=settings.declared_at,
        unrun=UnrunPython(files=tuple(reader.unrun), tables=reader.computed, layers=frozenset(reader.open_layers)),
    )


def _files(folder: str, problems: ProblemList) -> Iterator[tuple[str, str]]:
    """Yield the declaration files as layer and file name; report other files as problems."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if _is_access(entry):
            what = f"{entry.name} has no effect: access rules are not supported yet"
            hint = "remove it, and protect the warehouse with storage permissions"
            problems.add_error("access-unsupported", what, Place(entry.name), hint)
        elif is_folder(entry) and entry.name not in LAYERS:
            _report_misspelled_layer(entry, problems)
    for layer in LAYERS:
        path = os.path.join(folder, layer)
        if os.path.isdir(path):
            yield from _files_of_layer(layer, path, problems)
        elif os.path.lexists(path):
            what = f"{layer} is not a folder, so its tables cannot be read"
            hint = "check the target of the link, or replace it with a folder of declarations"
            problems.add_error("unreadable-file", what, Place(layer), hint)


def _report_misspelled_layer(entry: os.DirEntry[str], problems: ProblemList) -> None:
    near = next((layer for layer in LAYERS if _is_near(entry.name.lower(), layer)), None)
    if near is not None and any(name.endswith(_ENDINGS) for name in os.listdir(entry.path)):
        what = f"the folder {entry.name}/ has declarations but is not a layer"
        hint = f"did you mean '{near}'?  layers: {', '.join(LAYERS)}"
        problems.add_error("unknown-folder", what, Place(entry.name), hint)


def _files_of_layer(layer: str, path: str, problems: ProblemList) -> Iterator[tuple[str, str]]:
    entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith((".", "_")) or is_test_file(entry.name) or _is_test_data(entry, entries):
            continue
        at = Place(f"{layer}/{entry.name}")
        if is_folder(entry):
            what = f"a layer's folder cannot have subfolders, and {entry.name}/ is one"
            hint = f"move its tables up to {layer}/; names that start with _ are ignored"
            problems.add_error("nested-folder", what, at, hint)
        elif not entry.name.endswith(_ENDINGS):
            hint = "declarations end in .yml, .yaml, .sql or .py; move this file elsewhere"
            problems.add_error("unknown-file", f"'{entry.name}' is not a declaration file", at, hint)
        else:
            yield layer, entry.name


class _LayerReader:
    """Reads the declaration files of one lake."""

    def __init__(self, folder: str, settings: EnvironmentSettings, problems: ProblemList) -> None:
        self._folder = folder
        self._problems = problems
        self._decoder = Decoder(variables=settings.variables, problems=problems)
        self._builder = TableBuilder(defaults=settings.defaults, folder=folder, problems=problems)
        self._places: dict[TableName, Place] = {}
        self.tables: dict[TableName, Table] = {}
        self.unrun: list[str] = []
        self.computed: dict[TableName, Place] = {}
        """Tables of Python files that were not run, whose declarations are computed."""
        self.open_layers: set[str] = set()
        """Layers in which such files may declare further tables."""

    def read(self, layer: str, entry: str, *, run_python: bool) -> None:
        file = f"{layer}/{entry}"
        path = os.path.join(self._folder, layer, entry)
        stem, ending = os.path.splitext(entry)
        text = read_text(path, file)
        if ending == ".py":
            (self._read_python if run_python else self._read_unrun)(layer, path, file, text)
            return
        name = TableName(layer, stem)
        valid = self._has_valid_name(name, Place(file), "rename the file")
        query: Query | None = None
        if ending == ".sql":
            sql = read_sql(text, file, self._decoder.variables)
            query = SqlQuery(text=sql.query, declared_at=sql.query_at)
            node = read_yaml(sql.header, file, sql.header_line) if sql.header is not None else None
            node = node or Entries((), Place(file, sql.header_line))
        else:
            node = read_yaml(text, file)
            if node is None:
                raise empty_file(file, f"source: {{files: landing/{stem}/*.json}}")
        self._declare(name, node, query, valid=valid)

    def _read_python(self, layer: str, path: str, file: str, text: str) -> None:
        python = read_python(path, text, self._folder)
        if not python.tables:
            raise _no_tables(layer, file)
        for written in python.tables:
            with self._problems.collecting():
                signature = _signature(written.function, python) if written.function is not None else None
                self._read_written(layer, written, signature, path)

    def _read_unrun(self, layer: str, path: str, file: str, text: str) -> None:
        """Read the literal declarations of a Python file, and record which tables are computed."""
        tree = parse_python(path, text, self._folder)
        static = read_static(tree, file, declaring_modules(self._folder))
        self.unrun.append(file)
        if not static.complete:
            self.open_layers.add(layer)
        elif not static.tables and not static.computed:
            raise _no_tables(layer, file)
        for called, at in static.computed:
            name, place = TableName(layer, called), self._place(at)
            self._add(None, name, place)
            self.computed.setdefault(name, place)
        for table in static.tables:
            with self._problems.collecting():
                signature = _static_signature(table, text) if table.function is not None else None
                self._read_written(layer, table.written, signature, path)

    def _place(self, at: Place) -> Place:
        """Return a place recorded by the constructors, with its file relative to the lake."""
        return Place(relative_path(at.file, self._folder), at.line)

    def _read_written(self, layer: str, written: WrittenTable, signature: _Signature | None, path: str) -> None:
        at = self._place(written.at)
        called = written.name if written.name is not None or signature is None else signature.name
        if not isinstance(called, str):
            what = f"the {written.layer} table decorates no function and has no name"
            hint = f"write @lake.{written.layer}(…), with parentheses, above the function that returns the rows"
            raise DeclarationError("no-query", what, at=at, hint=hint)
        name = TableName(layer, called)
        if written.layer != layer:
            what = f"'{called}' is declared in layer {written.layer}, but its file is in {layer}/"
            hint = f"use @lake.{layer}, or move it to a file in {written.layer}/"
            raise DeclarationError("wrong-layer", what, at=at, table=str(name), hint=hint)
        valid = self._has_valid_name(name, at, "rename the function, or pass a name as first argument")
        query = self._python_query(written, called, signature, path, at) if signature is not None else None
        self._declare(name, from_python(written.keys, at, self._place), query, valid=valid)

    def _python_query(
        self, written: WrittenTable, called: str, signature: _Signature, path: str, at: Place
    ) -> PythonQuery:
        if not signature.plain:
            what = f"'{called}' must be a plain function that returns a DataFrame"
            hint = "use def without async, yield or *args, with the lake's decorator outermost"
            raise DeclarationError("wrong-type", what, at=at, hint=hint)
        refs: list[tuple[str, TableName]] = []
        for parameter in signature.parameters:
            default = signature.defaults.get(parameter)
            if isinstance(default, Ref):
                table = TableName.parse(default.table) if isinstance(default.table, str) else None
                if table is not None:
                    refs.append((parameter, table))
                    continue
                hint = 'write layer.table, such as lake.ref("silver.orders")'
                what = f"{default.table!r} is not a table name"
                self._problems.add_error("bad-identifier", what, self._place(default.at), hint)
            elif parameter not in signature.defaults:
                what = f"the parameter '{parameter}' of '{called}' has no table"
                self._problems.add_error("missing-ref", what, at, f'{parameter}=lake.ref("silver.{parameter}")')
        return PythonQuery(
            path=path,
            function=called,
            refs=tuple(refs),
            source=signature.source,
            rowwise=written.rowwise,
            declared_at=at,
        )

    def _has_valid_name(self, name: TableName, at: Place, how: str) -> bool:
        if is_table_identifier(name.name):
            return True
        hint = f"{how}: lower-case letters, digits and underscores, starting with a letter"
        self._problems.add_error("bad-identifier", f"{name.name!r} is not a valid table name", at, hint)
        return False

    def _declare(self, name: TableName, node: Node, query: Query | None, *, valid: bool) -> None:
        with self._problems.about(name):
            block = self._decoder.block(TableBlock, node, "the table")
            if block is not None and valid:
                self._add(self._builder.table(name, block, query), name, block.at)

    def _add(self, table: Table | None, name: TableName, at: Place) -> None:
        before = self._places.setdefault(name, at)
        if before is not at:
            what = f"{name} is declared twice: here and at {before}"
            error = DeclarationError(
                "duplicate-table", what, at=at, table=str(name), hint="remove or rename one of the two"
            )
            self._problems.append(error)
        elif table is not None:
            self.tables[name] = table


def _no_tables(layer: str, file: str) -> DeclarationError:
    hint = f"use @lake.{layer}(…) on a function; shared code goes into a folder beside the layers"
    return DeclarationError("no-tables", "the file declares no table", at=Place(file), hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """The signature of a table's function."""

    name: str | None
    plain: bool
    """Whether it is a plain `def` with named parameters, without yield."""
    parameters: tuple[str, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


def _signature(function: object, found: PythonFile) -> _Signature:
    name = getattr(function, "__name__", None)
    if not isinstance(function, types.FunctionType) or function.__code__.co_flags & _NOT_PLAIN:
        return _Signature(name=name, plain=False)
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = function.__defaults__ or ()
    defaults = dict(zip(parameters[code.co_argcount - len(values) :], values, strict=False))
    return _Signature(
        name=name,
        plain=True,
        parameters=parameters,
        defaults=defaults | (function.__kwdefaults__ or {}),
        source=found.source(function),
    )


def _static_signature(table: StaticTable, text: str) -> _Signature:
    function = table.function
    assert function is not None
    arguments = function.args
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(function))
    several = arguments.vararg is not None or arguments.kwarg is not None
    return _Signature(
        name=function.name,
        plain=isinstance(function, ast.FunctionDef) and not several and not yields,
        parameters=tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)),
        defaults=table.defaults,
        source=ast.get_source_segment(text, function) or "",
    )


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, without those of nested functions."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(node)


def _is_test_data(entry: os.DirEntry[str], beside: Sequence[os.DirEntry[str]]) -> bool:
    """Whether the file has rows for a test: a test file next to it names it."""
    if not entry.name.endswith(".csv"):
        return False
    return any(_may_name(other.path, entry.name) for other in beside if is_test_file(other.name))


def _may_name(test: str, name: str) -> bool:
    """Whether a test file names a file, or cannot be read, which is reported with the tests."""
    try:
        return os.fsencode(name) in read_start(test)
    except OSError:
        return True


def _is_access(entry: os.DirEntry[str]) -> bool:
    """Whether the entry looks like access rules, which are not supported."""
    stem, ending = os.path.splitext(entry.name.lower())
    if is_folder(entry):
        return entry.name.lower() == _ACCESS and any(name.endswith(_RULES) for name in os.listdir(entry.path))
    return stem == _ACCESS and ending in _RULES


def _is_near(name: str, layer: str) -> bool:
    close = difflib.SequenceMatcher(None, name, layer).ratio() >= 0.75
    return name[:1] == layer[0] and abs(len(name) - len(layer)) <= 1 and close


def _resolve_location(table: Table, root: str) -> Table:
    """Return the table with a relative location of its source table resolved against the landing root."""
    source = table.origin
    if not isinstance(source, OtherTable) or is_url(source.location) or os.path.isabs(source.location):
        return table
    location = f"{root.rstrip('/')}/{source.location}"
    return replace(table, origin=replace(source, location=location if is_url(root) else os.path.normpath(location)))


def _table_order(name: TableName) -> tuple[int, str]:
    return next(index for index, layer in enumerate(LAYERS) if layer == name.layer), name.name


def _problem_order(problem: LakesmithError) -> tuple[int, str, int]:
    if problem.at is None:
        return -1, "", 0
    layer = problem.at.file.partition("/")[0]
    order = {LAKE_FILE: 0} | {name: index for index, name in enumerate(LAYERS, start=1)}
    return order.get(layer, len(order)), problem.at.file, problem.at.line
