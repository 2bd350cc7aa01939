"""Read a Python file's declarations without running it: the literal ones, and the names of computed ones."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lakesmith.declare import python as spelling
from lakesmith.declare.names import LAYERS
from lakesmith.declare.python import WrittenTable, placed_at
from lakesmith.errors import DeclarationError, Place
from lakesmith.load.files import MAX_BYTES, is_folder, read_start

_TABLES = frozenset(("table", *LAYERS))
_VALUES = frozenset(
    (
        *(
            "files",
            "kafka",
            "jdbc",
            "other_table",
            "adopt",
            "append",
            "replace",
            "merge",
            "scd2",
            "changes",
            "snapshot",
        ),
        *("replace_partitions", "column", "check", "ref"),
    )
)
"""The constructors that may be called with literal values: they only record their arguments."""
_PACKAGE = "lakesmith"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Computed(Exception):
    """The value is computed: it is only known by running the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTable:
    """A table whose declaration is literal."""

    written: WrittenTable
    function: Function | None
    defaults: Mapping[str, object]
    """By parameter of the function, a `Ref` or another default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A Python file that was not run."""

    tables: tuple[StaticTable, ...]
    computed: tuple[tuple[str, Place], ...]
    """The tables whose declarations are computed, with their places."""
    complete: bool
    """Whether the file declares no other table than these."""


def read_static(tree: ast.Module, path: str, declaring: frozenset[str]) -> StaticFile:
    """Return the literal declarations of a file. `declaring` are the lake's own modules that may declare tables."""
    return _FileReader(tree, path, declaring).read()


class _FileReader:
    """One pass over one file."""

    def __init__(self, tree: ast.Module, path: str, declaring: frozenset[str]) -> None:
        self._tree = tree
        self._path = path
        self._modules: set[str] = set()
        """The names of the package in the file."""
        self._names: dict[str, str] = {}
        """By local name, the name imported from the package."""
        self._suspects: set[str] = set()
        """Local names that may declare tables."""
        self._constants: dict[str, ast.expr] = {}
        self._tables: list[StaticTable] = []
        self._computed: list[tuple[str, Place]] = []
        self._complete = True
        self._note_names(declaring)

    def read(self) -> StaticFile:
        for statement in self._tree.body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(statement)
                case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call) if self._is_table(call):
                    self._declared(call, None)
                case ast.Import() | ast.ImportFrom():
                    pass
                case ast.Assign(value=value) if self._is_written_out(value):
                    pass
                case _:
                    self._complete &= not self._mentions(statement)
        return StaticFile(tables=tuple(self._tables), computed=tuple(self._computed), complete=self._complete)

    def _note_names(self, declaring: frozenset[str]) -> None:
        rebound = set(self._stored())
        for node in ast.walk(self._tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        package, bound = alias.name.partition(".")[0], alias.asname or alias.name.partition(".")[0]
                        if alias.name == _PACKAGE and bound not in rebound:
                            self._modules.add(bound)
                        elif package in declaring or package == _PACKAGE:
                            self._suspects.add(bound)
                case ast.ImportFrom(module=module, names=names):
                    package = (module or "").partition(".")[0]
                    for alias in names:
                        bound = alias.asname or alias.name
                        if module == _PACKAGE and alias.name != "*" and bound not in rebound:
                            self._names[bound] = alias.name
                        elif package in declaring or package == _PACKAGE:
                            self._suspects.add(bound)
        # Importing a module of the lake that declares tables is enough to declare them.
        if self._suspects:
            self._complete = False
        self._suspects |= self._modules | self._names.keys()
        for statement in self._tree.body:
            if isinstance(statement, Function | ast.ClassDef) and self._mentions(statement):
                self._suspects.add(statement.name)
        self._constants = self._assigned_once()

    def _stored(self) -> list[str]:
        """Return the names bound other than by an import, once per binding."""
        return [
            name
            for node in ast.walk(self._tree)
            for name in (
                [node.id]
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
                else [node.name]
                if isinstance(node, Function | ast.ClassDef)
                else []
            )
        ]

    def _assigned_once(self) -> dict[str, ast.expr]:
        stored = self._stored()
        return {
            target.id: statement.value
            for statement in self._tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name) and stored.count(target.id) == 1
        }

    def _function(self, function: Function) -> None:
        tables = [each for each in function.decorator_list if self._is_table(each)]
        if len(tables) == len(function.decorator_list) == 1:
            self._declared(tables[0], function)
        elif any(self._mentions(each) for each in function.decorator_list):
            self._computed.append((function.name, self._place(function.decorator_list[0])))
            self._complete = False
        elif any(self._mentions(each) for each in (*function.args.defaults, *function.args.kw_defaults) if each):
            self._complete = False

    def _declared(self, call: ast.expr, function: Function | None) -> None:
        try:
            written = self._written(call)
            defaults = self._defaults(function) if function is not None else {}
        except Computed:
            name = self._table_name(call, function)
            if name is None:
                self._complete = False
            else:
                self._computed.append((name, self._place(call)))
        else:
            self._tables.append(StaticTable(written=written, function=function, defaults=defaults))

    def _written(self, call: ast.expr) -> WrittenTable:
        if not isinstance(call, ast.Call):
            raise Computed
        made = self._made(call)
        assert isinstance(made, WrittenTable)
        return made

    def _table_name(self, call: ast.expr, function: Function | None) -> str | None:
        """Return the literal name of a table whose declaration is computed."""
        if not isinstance(call, ast.Call):
            return function.name if function else None
        name_arguments = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "name")]
        if not name_arguments and not any(each.arg is None for each in call.keywords):
            return function.name if function else None
        with suppress(Computed):
            if name_arguments and isinstance(name := self._value(name_arguments[0]), str):
                return name
        return None

    def _defaults(self, function: Function) -> dict[str, object]:
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        found: dict[str, object] = {}
        for argument, default in pairs:
            if default is None:
                continue
            found[argument.arg] = self._value(default) if self._mentions(default) else None
        return found

    def _is_table(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return self._constructor(called) in _TABLES

    def _constructor(self, node: ast.expr) -> str | None:
        """Return the package's name for an expression."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in self._modules:
                return name
            case _:
                return None

    def _is_written_out(self, node: ast.expr) -> bool:
        try:
            self._value(node)
        except Computed:
            return False
        return True

    def _value(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value=str() | int() | float() | bool() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item) for item in items]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {self._value(key): self._value(value) for key, value in zip(keys, values, strict=True) if key}
            case ast.Name(id=name) if name in self._constants:
                # Removed, so that a self-referencing name terminates.
                value_node = self._constants.pop(name)
                try:
                    return self._value(value_node)
                finally:
                    self._constants[name] = value_node
            case ast.Call() if self._constructor(node.func) in _VALUES:
                return self._made(node)
            case _:
                raise Computed

    def _made(self, call: ast.Call) -> object:
        """Call a constructor of the package with literal values."""
        arguments = [self._value(each) for each in call.args]
        named = {each.arg: self._value(each.value) for each in call.keywords if each.arg is not None}
        if len(named) < len(call.keywords):
            raise Computed
        constructor = getattr(spelling, self._constructor(call.func) or "")
        try:
            with placed_at(self._place(call)):
                return constructor(*arguments, **named)
        except TypeError as error:
            raise DeclarationError(
                "python-raised",
                f"the call would raise TypeError: {error}",
                at=self._place(call),
                hint="the keyword arguments are the keys of YAML",
            ) from None

    def _mentions(self, node: ast.AST) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self._suspects for part in ast.walk(node))

    def _place(self, node: ast.expr) -> Place:
        return Place(self._path, node.lineno)


def declaring_modules(folder: str) -> frozenset[str]:
    """Return the modules in the lake's folder: none if none of them mentions the package and could declare tables."""
    if not any(_knows_package(file) for file in _modules(folder)):
        return frozenset()
    entries = [entry for entry in os.scandir(folder) if entry.name not in LAYERS]
    return frozenset(
        entry.name.removesuffix(".py") for entry in entries if is_folder(entry) or entry.name.endswith(".py")
    )


def _modules(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        if parent == folder:
            folders[:] = [name for name in folders if name not in LAYERS]
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(parent, name) for name in files if name.endswith(".py"))


def _knows_package(file: str) -> bool:
    """Whether a module names the package, or is too long to say that it does not. One that cannot be read cannot be
    imported either."""
    try:
        text = read_start(file)
    except OSError:
        return False
    return _PACKAGE.encode() in text or len(text) > MAX_BYTES
