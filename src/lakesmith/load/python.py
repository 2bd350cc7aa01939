"""Run Python files to collect their declarations, without Spark and without side effects on `sys.modules`."""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
import importlib
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lakesmith.declare import PythonQuery
from lakesmith.declare.checks import Predicate
from lakesmith.declare.python import WrittenTable, collecting
from lakesmith.errors import DataError, DeclarationError, LakesmithError, Place
from lakesmith.load.files import read_text
from lakesmith.load.stand_ins import PACKAGES, standing_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# `sys.modules` and `sys.path` are global to the process.
_import_lock = threading.RLock()
_NEVER_HIDDEN = frozenset(("lakesmith", *PACKAGES))


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFile:
    """A Python file of a lake: its declarations and its text."""

    folder: str
    """The lake's folder, absolute."""
    path: str
    """Absolute."""
    tree: ast.Module
    lines: tuple[str, ...]
    tables: tuple[WrittenTable, ...]
    shared: tuple[str, ...]
    """The imported modules of the lake's folder, each with a hash of its text."""

    def source(self, function: types.FunctionType) -> str:
        """Return the function's source, with all that it uses from the top of the file and from the lake's modules.

        Without the decorators: the table's own fields have their content.
        """
        start = function.__code__.co_firstlineno
        own = next(
            (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and _first_line(node) == start),
            None,
        )
        if own is None:
            return ""
        top = {name: node for node in self.tree.body for name in _bound(node)}
        needed: dict[str, ast.stmt] = {}
        queue = list(own.body)
        for node in queue:
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and part.id in top and part.id not in needed:
                    needed[part.id] = top[part.id]
                    queue.append(top[part.id])
        parts = dict.fromkeys(self._text(name, node) for name, node in sorted(needed.items()) if node is not own)
        imports = any(isinstance(node, ast.Import | ast.ImportFrom) for node in (*needed.values(), *ast.walk(own)))
        shared = self.shared if imports else ()
        return "\n".join((self._lines(own.lineno, own), *parts, *shared))

    def _text(self, name: str, node: ast.stmt) -> str:
        if isinstance(node, ast.Import | ast.ImportFrom):
            # Of an import only the used name: other names on the same line do not matter.
            node = copy.copy(node)
            node.names = [alias for alias in node.names if _imported(alias) == name]
            return ast.unparse(node)
        return self._lines(_first_line(node), node)

    def _lines(self, start: int, node: ast.stmt) -> str:
        return "\n".join(self.lines[start - 1 : node.end_lineno])


def read_python(path: str, text: str, folder: str) -> PythonFile:
    """Run the file and return its declarations. Any exception becomes an error with the user's own line."""
    tree, code = _compiled(path, text, folder)
    # Prints of the file must not mix with the output of commands.
    with _import_lock, contextlib.redirect_stdout(sys.stderr), _lake_modules(folder) as shared, standing_in():
        tables = _executed(path, code, folder)
    return PythonFile(
        folder=folder,
        path=path,
        tree=tree,
        lines=tuple(text.split("\n")),
        tables=tuple(tables),
        shared=tuple(shared),
    )


def import_function(query: PythonQuery) -> Callable[..., object]:
    """Import the file with the real Spark, and return the undecorated function."""
    folder = os.path.dirname(os.path.dirname(query.path))
    try:
        with open(query.path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        text = ""
    _, code = _compiled(query.path, text, folder)
    with _import_lock, _lake_modules(folder):
        tables = _executed(query.path, code, folder)
    if folder not in sys.path:
        # Added last and not removed: the function may import modules of the lake when it is called.
        sys.path.append(folder)
    for table in tables:
        if table.function is not None and query.function == (table.name or table.function.__name__):
            return table.function
    raise DeclarationError(
        "python-changed",
        f"the file declares no table '{query.function}' any more",
        at=query.declared_at,
        hint="did the file change during the run?  run again",
    )


def call_function(query: PythonQuery, frames: Mapping[str, object]) -> object:
    """Call the table's function with its inputs; errors have its file and line."""
    function = import_function(query)
    try:
        return function(**frames)
    except (LakesmithError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        message = str(error).strip().split("\n")[0][:200]
        folder = os.path.dirname(os.path.dirname(query.path))
        raise DataError(
            "python-raised",
            f"{query.function}() raised {type(error).__name__}{f': {message}' if message else ''}",
            at=_place(error, query.path, folder),
            hint="the table is unchanged; fix the function and run again",
        ) from error


def parse_python(path: str, text: str, folder: str) -> ast.Module:
    """Return the file's syntax tree, without running it."""
    return _compiled(path, text, folder)[0]


def _compiled(path: str, text: str, folder: str) -> tuple[ast.Module, types.CodeType]:
    try:
        tree = ast.parse(text, path)
        return tree, compile(tree, path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = (error.lineno or 1) if isinstance(error, SyntaxError) else 1
        message = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deep"
        raise DeclarationError(
            "python-syntax",
            f"Python syntax error: {message}",
            at=Place(relative_path(path, folder), line),
            hint="fix the line; `python -m py_compile` shows the same error",
        ) from None


def find_predicate(function: str, folder: str) -> str | None:
    """Return a hash of the module of a check's function; None when there is no such function."""
    module, _, name = function.rpartition(".")
    path = os.path.join(folder, *module.split(".")) + ".py"
    if not module or not all(part.isidentifier() for part in (*module.split("."), name)) or not os.path.isfile(path):
        return None
    text = read_text(path, relative_path(path, folder))
    tree = parse_python(path, text, folder)
    if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body):
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def call_predicate(predicate: Predicate, rows: DataFrame, table: str, at: Place) -> Column:
    """Call a check's function with the rows and return its condition; errors have its file and line."""
    module, _, name = predicate.function.rpartition(".")
    path = os.path.join(predicate.folder, *module.split(".")) + ".py"
    try:
        with _import_lock, _lake_modules(predicate.folder):
            made = getattr(importlib.import_module(module), name)(rows)
    except Exception as error:
        message = str(error).strip().split("\n")[0][:200]
        raise DataError(
            "python-raised",
            f"{predicate.function} raised {type(error).__name__}: {message}",
            at=_place(error, path, predicate.folder),
            table=table,
            hint="it receives the rows as a DataFrame and must return a Column",
        ) from error
    if not hasattr(made, "isNotNull"):
        raise DataError(
            "not-a-column",
            f"{predicate.function} returned {type(made).__name__}, not a Column",
            at=at,
            table=table,
            hint="return a condition on the rows, such as rows.amount >= 0",
        )
    return cast("Column", made)


def _executed(path: str, code: types.CodeType, folder: str) -> list[WrittenTable]:
    name = "lakesmith_declaration_" + os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(name)
    module.__file__ = path
    # Dataclasses look up their module. It is removed again, so that functions are pickled by value: no worker
    # could import it.
    sys.modules[name] = module
    try:
        with collecting() as tables:
            exec(code, module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (a user's file may raise anything, SystemExit included)
        raise _raised(error, path, folder) from None
    finally:
        sys.modules.pop(name, None)
    return tables


def _raised(error: BaseException, path: str, folder: str) -> LakesmithError:
    at = _place(error, path, folder)
    if isinstance(error, LakesmithError):
        return DeclarationError(error.code, error.what, at=error.at or at, table=error.table, hint=error.hint)
    if isinstance(error, SystemExit):
        return DeclarationError(
            "python-raised",
            "the file calls exit while it loads",
            at=at,
            hint="a declaration file only declares tables; remove the call",
        )
    message = str(error).strip().split("\n")[0][:200]
    kind = type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        hint = "install the package in Lakesmith's environment, or put the module into the lake's folder"
    elif isinstance(error, TypeError) and "unexpected keyword argument" in message:
        hint = "the keyword arguments are the keys of YAML"
    else:
        hint = "the file must load without data and without Spark; move the work into the function"
    return DeclarationError(
        "python-raised", f"the file raised {kind}{f': {message}' if message else ''}", at=at, hint=hint
    )


def _place(error: BaseException, path: str, folder: str) -> Place:
    """Return the innermost line of the lake's own code in the traceback."""
    if isinstance(error, SyntaxError) and error.filename and _is_below(error.filename, folder):
        return Place(relative_path(error.filename, folder), error.lineno or 1)
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_below(frame.f_code.co_filename, folder)
    ]
    file, line = own[-1] if own else (path, 1)
    return Place(relative_path(file, folder), line)


@contextlib.contextmanager
def _lake_modules(folder: str) -> Iterator[list[str]]:
    """Make modules of the lake's folder importable inside the context, and unload them afterwards.

    On exit, the list is filled with the imported modules, each with a hash of its text.
    """
    names = {entry.name.removesuffix(".py") for entry in os.scandir(folder)} - sys.stdlib_module_names - _NEVER_HIDDEN
    # A module of the same name may be loaded from another lake.
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    for name in hidden:
        del sys.modules[name]
    imported: list[str] = []
    sys.path.insert(0, folder)
    try:
        yield imported
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
        for name, module in sorted(sys.modules.items()):
            if name.partition(".")[0] in names:
                file = getattr(module, "__file__", None)
                if file and _is_below(file, folder):
                    imported.append(f"# {relative_path(file, folder)} {_digest(file)}")
                del sys.modules[name]
        sys.modules.update(hidden)


def _digest(file: str) -> str:
    with open(file, "rb") as content:
        return hashlib.sha256(content.read()).hexdigest()[:16]


def _bound(node: ast.stmt) -> list[str]:
    """Return the names that a top-level statement binds."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [_imported(alias) for alias in node.names]
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and _is_stored(part)]
        case _:
            return []


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _imported(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _first_line(node: ast.stmt) -> int:
    """Return the first line of a statement, with its decorators."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return min((node.lineno, *(decorator.lineno for decorator in node.decorator_list)))
    return node.lineno


def _is_below(file: str, folder: str) -> bool:
    return os.path.abspath(file).startswith(folder + os.sep)


def relative_path(file: str, folder: str) -> str:
    """Return the path for errors: relative to the lake's folder if the file is below it."""
    return os.path.relpath(file, folder).replace(os.sep, "/") if _is_below(file, folder) else file
