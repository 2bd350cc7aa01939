"""A lake's folder becomes one declaration; every problem in every file is found before any is told."""

from __future__ import annotations

import difflib
import inspect
import os
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesmith.declare import (
    LAYERS,
    Defaults,
    Environment,
    LakeDeclaration,
    PythonQuery,
    Query,
    Secret,
    Settings,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.declare.names import is_table_identifier
from lakesmith.declare.python import Ref, WrittenTable
from lakesmith.declare.secrets import missing_secret
from lakesmith.errors import (
    DeclarationError,
    LakesmithError,
    Place,
    Problems,
    UsageError,
    did_you_mean,
    raise_all,
)
from lakesmith.load.decode import Decoder
from lakesmith.load.kinds import Block
from lakesmith.load.models import DefaultsBlock, EnvironmentBlock, LakeBlock, TableBlock
from lakesmith.load.nodes import Entries, Node, from_python
from lakesmith.load.python import PythonFile, read_python
from lakesmith.load.sql_text import read_sql
from lakesmith.load.tables import Maker, is_url, path_problem
from lakesmith.load.unfit import Unfit
from lakesmith.load.variables import Variables
from lakesmith.load.yaml_text import read_yaml

LAKE_FILE = "lakesmith.yml"
MAX_BYTES = 1_000_000
_ENDINGS = (".yml", ".yaml", ".sql", ".py")
_NOT_PLAIN = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def load_lake(
    path: str | Path, *, environment: str | None = None, variables: Mapping[str, str] | None = None
) -> LakeDeclaration:
    """Read the lake in a folder for one environment. Raises every problem there is, in the order of files."""
    return _Loading(os.path.abspath(path)).load(environment, variables or {})


@dataclass(slots=True)
class _Chosen:
    """What lakesmith.yml says for the environment that was asked for."""

    environment: Environment
    names: tuple[str, ...]
    variables: Variables
    defaults: Mapping[str, Defaults]


class _Loading:
    """One reading of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._problems: list[LakesmithError] = []
        self._tables: dict[TableName, Table] = {}
        self._places: dict[TableName, Place] = {}

    def load(self, environment: str | None, variables: Mapping[str, str]) -> LakeDeclaration:
        block = self._lake_block()
        chosen = self._chosen(block, environment, variables)
        maker = Maker(defaults=chosen.defaults, problems=self._problems)
        decoder = Decoder(variables=chosen.variables, problems=self._problems)
        for layer, file in self._files():
            try:
                self._read(layer, file, decoder, maker)
            except Problems as problems:
                self._problems.extend(problems.errors)
            except LakesmithError as problem:
                self._problems.append(problem)
        self._raise()
        return LakeDeclaration(
            name=block.name,
            path=self._folder,
            environment=chosen.environment,
            environments=chosen.names,
            tables=dict(sorted(self._tables.items(), key=lambda item: _table_order(item[0]))),
            declared_at=block.at,
        )

    def _lake_block(self) -> LakeBlock:
        path = os.path.join(self._folder, LAKE_FILE)
        if not os.path.isfile(path):
            other = os.path.join(self._folder, "lakesmith.yaml")
            raise UsageError(
                "no-lake",
                f"there is no {LAKE_FILE} in {self._folder}",
                hint=f"rename lakesmith.yaml to {LAKE_FILE}"
                if os.path.isfile(other)
                else "`lakesmith init` makes a lake; --lake names the folder of one",
            )
        node = read_yaml(self._text(path, LAKE_FILE), LAKE_FILE)
        if node is None:
            raise _empty(LAKE_FILE, "name: shop")
        decoder = Decoder(variables=Variables(folder=self._folder), problems=self._problems)
        block = decoder.block(LakeBlock, node, "the lake")
        if block is None:
            self._raise()
        assert block is not None
        return block

    def _chosen(self, block: LakeBlock, environment: str | None, given: Mapping[str, str]) -> _Chosen:
        environments = _nodes(block.environments) or {"dev": Entries((), block.at)}
        name = self._environment_name(block, tuple(environments), environment)
        at = block.places.get("variables", block.at)
        values: dict[str, str | Secret | None] = dict(block.variables)
        lenient = Variables(folder=self._folder, strict=False)
        own: Mapping[str, str | Secret] = {}
        for other, node in environments.items():
            read = Decoder(variables=lenient, problems=self._problems).block(
                EnvironmentBlock, node, f"environments.{other}"
            )
            if other == name and read is not None:
                own = read.variables
        for variable in own:
            if variable not in values:
                self._problems.append(
                    DeclarationError(
                        "unknown-variable",
                        f"environment '{name}' sets the variable '{variable}', which the lake does not have",
                        at=environments[name].at,
                        hint=did_you_mean(variable, values, label="variables"),
                    )
                )
        for variable in given:
            if variable not in values:
                self._problems.append(
                    UsageError(
                        "unknown-variable",
                        f"there is no variable '{variable}' to give a value to",
                        at=at,
                        hint=did_you_mean(variable, values, label="variables"),
                    )
                )
        values |= own
        for variable, text in given.items():
            try:
                values[variable] = lenient.setting(text)
            except Unfit as unfit:
                self._problems.append(
                    UsageError(unfit.code, f"--var {variable}: {unfit.what}", hint=unfit.hint)
                )
        variables = Variables(folder=self._folder, values=values)
        return _Chosen(
            environment=self._environment(name, environments[name], variables),
            names=tuple(environments),
            variables=variables,
            defaults=self._defaults(_nodes(block.defaults), variables),
        )

    def _environment_name(self, block: LakeBlock, names: tuple[str, ...], asked: str | None) -> str:
        name = asked or block.default_environment
        if name is None:
            if "dev" in names or len(names) == 1:
                return "dev" if "dev" in names else names[0]
            self._problems.append(
                DeclarationError(
                    "no-environment",
                    "the lake has several environments, and none was named",
                    at=block.places["environments"],
                    hint=f"add default_environment: {names[0]}, or call with --env {names[0]}",
                )
            )
        elif name not in names:
            hint = did_you_mean(name, names, label="environments")
            what = f"there is no environment '{name}'"
            if asked:
                self._problems.append(UsageError("unknown-environment", what, hint=hint))
            else:
                at = block.places["default_environment"]
                self._problems.append(DeclarationError("unknown-environment", what, at=at, hint=hint))
        else:
            return name
        self._raise()
        raise AssertionError("a problem was noted just before")

    def _environment(self, name: str, node: Node, variables: Variables) -> Environment:
        # What does not depend on variables was told when the environment was read without them.
        problems: list[LakesmithError] = []
        block = Decoder(variables=variables, problems=problems).block(
            EnvironmentBlock, node, f"environments.{name}"
        )
        told = {(str(problem.at), problem.code) for problem in self._problems}
        self._problems += [problem for problem in problems if (str(problem.at), problem.code) not in told]
        if block is None:
            self._raise()
        assert block is not None
        for value in block.spark.values():
            self._secret(value, block.places.get("spark", block.at))
        return Environment(
            name=name,
            warehouse=self._location(block, "warehouse", block.warehouse),
            landing=self._location(block, "landing", block.landing) if block.landing else self._folder,
            spark=Settings(block.spark),
            jobs=block.jobs,
        )

    def _location(self, block: Block, key: str, value: str | Secret) -> str:
        """The absolute folder or URL that a setting names."""
        at = block.places.get(key, block.at)
        if not self._secret(value, at):
            return self._folder
        path = value.reveal() if isinstance(value, Secret) else value
        problem = path_problem(path)
        if problem is not None:
            code, what, hint = problem
            shown = f"{key} ({value})" if isinstance(value, Secret) else f"{key} '{value}'"
            if code == "credentials-in-url":
                shown = key
            self._problems.append(DeclarationError(code, f"{shown}: {what}", at=at, hint=hint))
            return self._folder
        if is_url(path):
            return path.rstrip("/")
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(path)))

    def _secret(self, value: str | Secret, at: Place) -> bool:
        missing = (
            [ref for ref in value.references if ref.reveal() is None] if isinstance(value, Secret) else []
        )
        self._problems.extend(missing_secret(reference, at) for reference in missing)
        return not missing

    def _defaults(self, nodes: Mapping[str, Node], variables: Variables) -> Mapping[str, Defaults]:
        decoder = Decoder(variables=variables, problems=self._problems)
        blocks = {key: decoder.block(DefaultsBlock, node, f"defaults.{key}") for key, node in nodes.items()}
        found: dict[str, Defaults] = {}
        for layer in LAYERS:
            several = [block for block in (blocks.get(layer), blocks.get("all")) if block is not None]
            found[layer] = Defaults(
                owner=next((block.owner for block in several if block.owner), None),
                contract=next((block.contract for block in several if block.contract), None),
                freshness=next((block.freshness for block in several if block.freshness), None),
                tags=tuple(dict.fromkeys(tag for block in reversed(several) for tag in block.tags)),
            )
        return found

    def _files(self) -> Iterator[tuple[str, str]]:
        """The declaration files as layer and file name; what else lies there is a problem."""
        entries = sorted(os.scandir(self._folder), key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir() and entry.name not in LAYERS:
                self._near_layer(entry)
        for layer in LAYERS:
            folder = os.path.join(self._folder, layer)
            if not os.path.isdir(folder):
                continue
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                if entry.name.startswith((".", "_")):
                    continue
                file = f"{layer}/{entry.name}"
                if entry.is_dir():
                    self._problems.append(
                        DeclarationError(
                            "nested-folder",
                            f"a layer's folder has no folders in it, and {entry.name}/ is one",
                            at=Place(file),
                            hint=f"move its tables up to {layer}/; names that start with _ are passed over",
                        )
                    )
                elif not entry.name.endswith(_ENDINGS):
                    self._problems.append(
                        DeclarationError(
                            "unknown-file",
                            f"'{entry.name}' is not a declaration",
                            at=Place(file),
                            hint="declarations end in .yml, .yaml, .sql or .py; move other files elsewhere",
                        )
                    )
                else:
                    yield layer, entry.name

    def _near_layer(self, entry: os.DirEntry[str]) -> None:
        name = entry.name.lower()
        near = next((layer for layer in LAYERS if _is_near(name, layer)), None)
        if near is None or not any(item.name.endswith(_ENDINGS) for item in os.scandir(entry.path)):
            return
        self._problems.append(
            DeclarationError(
                "unknown-folder",
                f"the folder {entry.name}/ holds declarations but is no layer",
                at=Place(entry.name),
                hint=f"did you mean '{near}'?  layers: {', '.join(LAYERS)}",
            )
        )

    def _read(self, layer: str, entry: str, decoder: Decoder, maker: Maker) -> None:
        file = f"{layer}/{entry}"
        path = os.path.join(self._folder, layer, entry)
        stem, ending = os.path.splitext(entry)
        text = self._text(path, file)
        if ending == ".py":
            self._read_python(layer, path, file, text, decoder, maker)
            return
        name = TableName(layer, stem)
        fit = self._fit(name, Place(file), "rename the file")
        query: Query | None = None
        if ending == ".sql":
            sql = read_sql(text, file, decoder.variables)
            query = SqlQuery(text=sql.query, declared_at=sql.query_at)
            node = read_yaml(sql.header, file, sql.header_line) if sql.header is not None else None
            node = node or Entries((), Place(file, sql.header_line))
        else:
            read = read_yaml(text, file)
            if read is None:
                raise _empty(file, f"source: {{files: landing/{stem}/*.json}}")
            node = read
        block = decoder.block(TableBlock, node, "the table")
        if block is not None and fit:
            self._add(maker.table(name, block, query), name, block.at)

    def _read_python(
        self, layer: str, path: str, file: str, text: str, decoder: Decoder, maker: Maker
    ) -> None:
        found = read_python(path, text, self._folder)
        if not found.tables:
            raise DeclarationError(
                "no-tables",
                "the file declares no table",
                at=Place(file),
                hint=f"use @lake.{layer}(…) on a function; shared code goes into a folder beside the layers",
            )
        for written in found.tables:
            at = found.place(written.at)
            called = written.name if written.name is not None else getattr(written.function, "__name__", None)
            if not isinstance(called, str):
                self._problems.append(_nameless(written, at))
                continue
            name = TableName(layer, called)
            if written.layer != layer:
                self._problems.append(
                    DeclarationError(
                        "wrong-layer",
                        f"'{called}' is declared as {written.layer} in the folder {layer}/",
                        at=at,
                        table=str(name),
                        hint=f"use @lake.{layer}, or move it to a file in {written.layer}/",
                    )
                )
                continue
            fit = self._fit(name, at, "rename the function, or give a name as first argument")
            query = self._python_query(written, called, found, at)
            node = from_python(written.keys, at, found.place)
            block = decoder.block(TableBlock, node, "the table")
            if block is not None and fit:
                self._add(maker.table(name, block, query), name, at)

    def _python_query(
        self, written: WrittenTable, called: str, found: PythonFile, at: Place
    ) -> PythonQuery | None:
        function = written.function
        if function is None:
            return None
        if not isinstance(function, types.FunctionType) or function.__code__.co_flags & _NOT_PLAIN:
            self._problems.append(
                DeclarationError(
                    "wrong-type",
                    f"'{called}' has to be a plain function that returns a DataFrame",
                    at=at,
                    hint="write def, without async, yield or *arguments, and the lake's decorator on top",
                )
            )
            return None
        code = function.__code__
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = dict(
            zip(
                parameters[code.co_argcount - len(function.__defaults__ or ()) :],
                function.__defaults__ or (),
                strict=False,
            )
        ) | (function.__kwdefaults__ or {})
        refs: list[tuple[str, TableName]] = []
        for parameter in parameters:
            default = defaults.get(parameter)
            if isinstance(default, Ref):
                table = TableName.parse(default.table) if isinstance(default.table, str) else None
                if table is None:
                    self._problems.append(
                        DeclarationError(
                            "bad-identifier",
                            f"{default.table!r} does not name a table",
                            at=found.place(default.at),
                            hint='write layer.table, such as lake.ref("silver.orders")',
                        )
                    )
                else:
                    refs.append((parameter, table))
            elif parameter not in defaults:
                self._problems.append(
                    DeclarationError(
                        "missing-ref",
                        f"nothing says which table the parameter '{parameter}' of '{called}' stands for",
                        at=at,
                        hint=f'{parameter}=lake.ref("silver.{parameter}")',
                    )
                )
        return PythonQuery(
            path=found.path,
            function=called,
            refs=tuple(refs),
            source=found.source(function),
            rowwise=written.rowwise,
            declared_at=at,
        )

    def _fit(self, name: TableName, at: Place, how: str) -> bool:
        if is_table_identifier(name.name):
            return True
        self._problems.append(
            DeclarationError(
                "bad-identifier",
                f"{name.name!r} cannot be the name of a table",
                at=at,
                hint=f"{how}: lower-case letters, digits and underscores, starting with a letter",
            )
        )
        return False

    def _add(self, table: Table | None, name: TableName, at: Place) -> None:
        before = self._places.setdefault(name, at)
        if before is not at:
            self._problems.append(
                DeclarationError(
                    "duplicate-table",
                    f"{name} is declared twice: here and in {before}",
                    at=at,
                    table=str(name),
                    hint="remove or rename one of the two",
                )
            )
        elif table is not None:
            self._tables[name] = table

    def _text(self, path: str, file: str) -> str:
        with open(path, "rb") as content:
            data = content.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise DeclarationError(
                "too-large",
                f"the file is larger than {MAX_BYTES:,} bytes",
                at=Place(file),
                hint="a declaration is short; rows belong into the landing zone",
            )
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DeclarationError(
                "not-utf8",
                "the file is not UTF-8 text",
                at=Place(file, data.count(b"\n", 0, error.start) + 1),
                hint="save it as UTF-8",
            ) from None

    def _raise(self) -> None:
        raise_all(sorted(self._problems, key=_problem_order))


def _nodes(mapping: Mapping[Any, object]) -> dict[str, Node]:
    """Blocks that the decoder kept as nodes."""
    return {key: node for key, node in mapping.items() if isinstance(node, Node)}


def _empty(file: str, example: str) -> DeclarationError:
    return DeclarationError(
        "empty-file", "the file is empty", at=Place(file), hint=f"it could start with {example}"
    )


def _nameless(written: WrittenTable, at: Place) -> DeclarationError:
    return DeclarationError(
        "no-query",
        f"the {written.layer} table is not on a function and has no name",
        at=at,
        hint=f"write @lake.{written.layer}(…), with brackets, above the function that makes the rows",
    )


def _is_near(name: str, layer: str) -> bool:
    close = difflib.SequenceMatcher(None, name, layer).ratio() >= 0.75
    return name[:1] == layer[0] and abs(len(name) - len(layer)) <= 1 and close


def _table_order(name: TableName) -> tuple[int, str]:
    return next(index for index, layer in enumerate(LAYERS) if layer == name.layer), name.name


def _problem_order(problem: LakesmithError) -> tuple[int, str, int]:
    if problem.at is None:
        return -1, "", 0
    layer = problem.at.file.partition("/")[0]
    order = {LAKE_FILE: 0} | {name: index for index, name in enumerate(LAYERS, start=1)}
    return order.get(layer, len(order)), problem.at.file, problem.at.line
