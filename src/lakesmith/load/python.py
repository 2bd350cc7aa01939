"""Python files are run for what they declare: without Spark, and without leaving traces."""

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

# `sys.modules` and `sys.path` are one for the whole process.
_alone = threading.RLock()
_NEVER_HIDDEN = frozenset(("lakesmith", *PACKAGES))


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFile:
    """A Python file of a lake: what it declares, and its text."""

    folder: str
    """The lake's folder, absolute."""
    path: str
    """Absolute."""
    tree: ast.Module
    lines: tuple[str, ...]
    tables: tuple[WrittenTable, ...]
    shared: tuple[str, ...]
    """The modules of the lake's folder that were imported, each with a hash of its text."""

    def source(self, function: types.FunctionType) -> str:
        """The function's text, and all that it uses from the top of the file and from the lake's modules.

        Without the decorators: what they say is in the table's own fields.
        """
        start = function.__code__.co_firstlineno
        own = next(
            (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and _first_line(node) == start),
            None,
        )
        if own is None:
            return ""
        top = {name: node for node in self.tree.body for name in _bound(node)}
        wanted: dict[str, ast.stmt] = {}
        queue = list(own.body)
        for node in queue:
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and part.id in top and part.id not in wanted:
                    wanted[part.id] = top[part.id]
                    queue.append(top[part.id])
        parts = dict.fromkeys(self._text(name, node) for name, node in sorted(wanted.items()) if node is not own)
        imports = any(isinstance(node, ast.Import | ast.ImportFrom) for node in (*wanted.values(), *ast.walk(own)))
        shared = self.shared if imports else ()
        return "\n".join((self._lines(own.lineno, own), *parts, *shared))

    def _text(self, name: str, node: ast.stmt) -> str:
        if isinstance(node, ast.Import | ast.ImportFrom):
            # Of an import only the name that is used: another name on the same line is another matter.
            node = copy.copy(node)
            node.names = [alias for alias in node.names if _imported(alias) == name]
            return ast.unparse(node)
        return self._lines(_first_line(node), node)

    def _lines(self, start: int, node: ast.stmt) -> str:
        return "\n".join(self.lines[start - 1 : node.end_lineno])


def read_python(path: str, text: str, folder: str) -> PythonFile:
    """Run the file for what it declares. Whatever it raises becomes an error with the user's own line."""
    tree, code = _compiled(path, text, folder)
    # What a file prints must not get into the answers that commands give on their standard output.
    with _alone, contextlib.redirect_stdout(sys.stderr), _lake_modules(folder) as shared, standing_in():
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
    """Import the file for real and give the function as it was before it was decorated."""
    folder = os.path.dirname(os.path.dirname(query.path))
    try:
        with open(query.path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        text = ""
    _, code = _compiled(query.path, text, folder)
    with _alone, _lake_modules(folder):
        tables = _executed(query.path, code, folder)
    if folder not in sys.path:
        # Last, and for good: the function may import modules of the lake when it is called.
        sys.path.append(folder)
    for table in tables:
        if table.function is not None and query.function == (table.name or table.function.__name__):
            return table.function
    raise DeclarationError(
        "python-changed",
        f"the file declares no table '{query.function}' any more",
        at=query.declared_at,
        hint="was the file changed while the run went on?  run again",
    )


def call_function(query: PythonQuery, frames: Mapping[str, object]) -> object:
    """What the table's function makes of its inputs; what it raises comes with its file and line."""
    function = import_function(query)
    try:
        return function(**frames)
    except (LakesmithError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        said = str(error).strip().split("\n")[0][:200]
        folder = os.path.dirname(os.path.dirname(query.path))
        raise DataError(
            "python-raised",
            f"{query.function}() raised {type(error).__name__}{f': {said}' if said else ''}",
            at=_place(error, query.path, folder),
            hint="the table is as it was; mend the function and run again",
        ) from error


def parse_python(path: str, text: str, folder: str) -> ast.Module:
    """The file's syntax tree. Nothing is run."""
    return _compiled(path, text, folder)[0]


def _compiled(path: str, text: str, folder: str) -> tuple[ast.Module, types.CodeType]:
    try:
        tree = ast.parse(text, path)
        return tree, compile(tree, path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = (error.lineno or 1) if isinstance(error, SyntaxError) else 1
        said = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deep"
        raise DeclarationError(
            "python-syntax",
            f"this is not Python: {said}",
            at=Place(relative_path(path, folder), line),
            hint="mend the line; `python -m py_compile` shows the same",
        ) from None


def find_predicate(function: str, folder: str) -> str | None:
    """A hash of the text of the module that a check's function is in; None where there is no such function."""
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
    """The condition that a check's function makes of the rows; what it raises comes with its file and line."""
    module, _, name = predicate.function.rpartition(".")
    path = os.path.join(predicate.folder, *module.split(".")) + ".py"
    try:
        with _alone, _lake_modules(predicate.folder):
            made = getattr(importlib.import_module(module), name)(rows)
    except Exception as error:
        said = str(error).strip().split("\n")[0][:200]
        raise DataError(
            "python-raised",
            f"{predicate.function} raised {type(error).__name__}: {said}",
            at=_place(error, path, predicate.folder),
            table=table,
            hint="it gets the rows, a DataFrame, and has to return a Column",
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
    # Dataclasses look their module up. It goes away again, so that functions are pickled by value: no worker
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
            "the file calls exit while it is loaded",
            at=at,
            hint="a declaration file only declares; remove the call",
        )
    said = str(error).strip().split("\n")[0][:200]
    kind = type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        hint = "install the package where lakesmith runs, or put the module into the lake's folder"
    elif isinstance(error, TypeError) and "unexpected keyword argument" in said:
        hint = "the keys in Python are those of YAML"
    else:
        hint = "the file has to load without data and without Spark; move work into the function"
    return DeclarationError("python-raised", f"the file raised {kind}{f': {said}' if said else ''}", at=at, hint=hint)


def _place(error: BaseException, path: str, folder: str) -> Place:
    """The innermost line of the lake's own code that led to the error."""
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
    """While it lasts, modules of the lake's folder can be imported; afterwards none of them is left.

    The list is filled at the end with the modules that were, each with a hash of its text.
    """
    names = {entry.name.removesuffix(".py") for entry in os.scandir(folder)} - sys.stdlib_module_names - _NEVER_HIDDEN
    # A module of the same name may be there from another lake.
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
    """The names that a statement at the top of a file gives a meaning."""
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
    """Where a statement starts, with its decorators."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return min((node.lineno, *(decorator.lineno for decorator in node.decorator_list)))
    return node.lineno


def _is_below(file: str, folder: str) -> bool:
    return os.path.abspath(file).startswith(folder + os.sep)


def relative_path(file: str, folder: str) -> str:
    """The file as errors name it: below the lake's folder, from there."""
    return os.path.relpath(file, folder).replace(os.sep, "/") if _is_below(file, folder) else file
