"""Read lakesmith.yml: the selected environment, its variables and the defaults of tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lakesmith.declare import LAYERS, Defaults, Environment, QueryLimits, Secret, Settings
from lakesmith.declare.secrets import missing_secret
from lakesmith.errors import Place, UsageError, did_you_mean, raise_all
from lakesmith.load.decode import Decoder
from lakesmith.load.field_types import Block, written_keys
from lakesmith.load.files import empty_file, read_text
from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.models import EnvironmentBlock, LakeBlock
from lakesmith.load.nodes import Entries, Node
from lakesmith.load.paths import is_url, path_problem
from lakesmith.load.plain_http import http_problems
from lakesmith.load.problems import ProblemList
from lakesmith.load.variables import Variables
from lakesmith.load.yaml_text import read_yaml

LAKE_FILE = "lakesmith.yml"
_WITH_SECRETS = ("storage", "connections")
_OPTIONS = (".extraJavaOptions", ".defaultJavaOptions")
"""Suffixes of settings that become JVM options."""
_WITH_TABLES = ("file", "s3", "s3a", "az", "abfs", "abfss")
"""Schemes of stores that can hold tables. Spark's connector for gs:// is not among the jars."""
_SHORT_KEYS = {"master": "spark.master", "remote": "spark.remote"}
"""Where Spark runs, in short."""
_OF_SERVER = (
    "spark.delta.logStore.",
    "spark.driver.",
    "spark.executor.",
    "spark.hadoop.",
    "spark.jars",
    "spark.local.dir",
    "spark.master",
    "spark.plugins",
    "spark.pyspark.",
    "spark.redaction.",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.extensions",
    "spark.sql.warehouse.dir",
    "spark.submit.",
    "spark.ui.",
)
"""Prefixes of settings that Spark reads once, when it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """The content of lakesmith.yml for the selected environment."""

    name: str
    """The lake's name."""
    environment: Environment
    environments: tuple[str, ...]
    variables: Variables
    defaults: Mapping[str, Defaults]
    declared_at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """One lakesmith.yml."""

    folder: str
    """The lake's folder, absolute."""
    problems: ProblemList

    def read(self, environment: str | None, overrides: Mapping[str, str]) -> EnvironmentSettings:
        """Read the file for one environment; the variables in `overrides` override all others."""
        block = self._lake_block()
        environments = _nodes(block.environments) or {"dev": Entries((), block.at)}
        name = self._environment_name(block, tuple(environments), environment)
        values = self._values(block, environments, name, overrides)
        variables = Variables(folder=self.folder, values=values)
        return EnvironmentSettings(
            name=block.name,
            environment=self._environment(name, environments[name], variables),
            environments=tuple(environments),
            variables=variables,
            defaults=self._defaults(_nodes(block.defaults), variables),
            declared_at=block.at,
        )

    def _values(
        self, block: LakeBlock, environments: Mapping[str, Node], name: str, overrides: Mapping[str, str]
    ) -> Mapping[str, str | Secret | None]:
        """Return the values of variables: from `overrides`, else from the environment, else from the lake."""
        at = block.places.get("variables", block.at)
        values: dict[str, str | Secret | None] = dict(block.variables)
        lenient = Variables(folder=self.folder, strict=False)
        own: Mapping[str, str | Secret] = {}
        for other, node in environments.items():
            read = Decoder(variables=lenient, problems=self.problems).block(
                EnvironmentBlock, node, f"environments.{other}"
            )
            if other == name and read is not None:
                own = read.variables
        for variable in own:
            if variable not in values:
                what = f"environment '{name}' sets the variable '{variable}', which the lake does not declare"
                hint = did_you_mean(variable, values, label="variables")
                self.problems.add_error("unknown-variable", what, environments[name].at, hint)
        for variable in overrides:
            if variable not in values:
                what = f"there is no variable '{variable}' to set"
                hint = did_you_mean(variable, values, label="variables")
                self.problems.append(UsageError("unknown-variable", what, at=at, hint=hint))
        values |= own
        for variable, text in overrides.items():
            try:
                values[variable] = lenient.setting(text)
            except InvalidText as invalid:
                self.problems.append(UsageError(invalid.code, f"--var {variable}: {invalid.what}", hint=invalid.hint))
        return values

    def _lake_block(self) -> LakeBlock:
        path = os.path.join(self.folder, LAKE_FILE)
        if not os.path.isfile(path):
            hint = "create a lake with `lakesmith init`, or pass its folder with --lake"
            if os.path.isfile(os.path.join(self.folder, "lakesmith.yaml")):
                hint = f"rename lakesmith.yaml to {LAKE_FILE}"
            raise UsageError("no-lake", f"there is no {LAKE_FILE} in {self.folder}", hint=hint)
        node = read_yaml(read_text(path, LAKE_FILE), LAKE_FILE)
        if node is None:
            raise empty_file(LAKE_FILE, "name: shop")
        decoder = Decoder(variables=Variables(folder=self.folder), problems=self.problems)
        block = decoder.block(LakeBlock, node, "the lake")
        if block is None:
            self._give_up()
        return block

    def _environment_name(self, block: LakeBlock, names: tuple[str, ...], requested: str | None) -> str:
        name = requested or block.default_environment
        if name in names:
            return name
        if name is None and ("dev" in names or len(names) == 1):
            return "dev" if "dev" in names else names[0]
        if name is None:
            what = "the lake has several environments and no default"
            hint = f"add default_environment: {names[0]}, or pass --env {names[0]}"
            self.problems.add_error("no-environment", what, block.places["environments"], hint)
            return self._give_up()
        what, hint = f"there is no environment '{name}'", did_you_mean(name, names, label="environments")
        if requested:
            self.problems.append(UsageError("unknown-environment", what, hint=hint))
        else:
            self.problems.add_error("unknown-environment", what, block.places.get("default_environment"), hint)
        return self._give_up()

    def _environment(self, name: str, node: Node, variables: Variables) -> Environment:
        # Problems that do not depend on variables were found when the environment was read without them.
        problems = ProblemList()
        block = Decoder(variables=variables, problems=problems).block(EnvironmentBlock, node, f"environments.{name}")
        known = {(str(problem.at), problem.code) for problem in self.problems}
        self.problems.extend(p for p in problems if (str(p.at), p.code) not in known)
        if block is None:
            self._give_up()
        for key, settings in (("spark", [block.spark]), *((k, [*getattr(block, k).values()]) for k in _WITH_SECRETS)):
            for value in (value for each in settings for value in each.values()):
                self._secret(value, block.places.get(key, block.at))
        self.problems.extend(http_problems(block, node))
        self._reject_secrets_in_jvm_options(block)
        self._reject_settings_of_server(block)
        return Environment(
            name=name,
            warehouse=self._location(block, "warehouse", block.warehouse),
            landing=self._location(block, "landing", block.landing) if block.landing else self.folder,
            spark=Settings({_SHORT_KEYS.get(key, key): value for key, value in block.spark.items()}),
            storage={url: Settings(settings) for url, settings in block.storage.items()},
            connections={name: Settings(settings) for name, settings in block.connections.items()},
            jobs=block.jobs,
            query=block.query or QueryLimits(),
            umask=block.umask,
        )

    def _location(self, block: Block, key: str, value: str | Secret) -> str:
        """Return the absolute folder or URL of a setting."""
        at = block.places.get(key, block.at)
        if not self._secret(value, at):
            return self.folder
        path = value.reveal() if isinstance(value, Secret) else value
        problem = path_problem(path)
        if problem is not None:
            code, what, hint = problem
            shown = f"{key} ({value})" if isinstance(value, Secret) else f"{key} '{value}'"
            if code == "credentials-in-url":
                shown = key
            self.problems.add_error(code, f"{shown}: {what}", at, hint)
            return self.folder
        if is_url(path):
            scheme = path.partition("://")[0].lower()
            if key == "warehouse" and scheme not in _WITH_TABLES:
                hint = f"use a folder, or one of {', '.join(f'{each}://' for each in _WITH_TABLES[1:])}"
                what = f"a warehouse cannot be at {scheme}://"
                self.problems.add_error("unknown-storage", what, at, hint)
            return path.rstrip("/")
        found = os.path.normpath(os.path.join(self.folder, os.path.expanduser(path)))
        wrong = self._location_problem(found) if key == "warehouse" else None
        if wrong is not None:
            hint = "use a separate folder, such as .lakesmith/warehouse"
            self.problems.add_error("warehouse-overlaps", f"the warehouse {wrong}", at, hint)
        return found

    def _location_problem(self, warehouse: str) -> str | None:
        """Return why the warehouse cannot be in this folder, if so: tables must not mix with declarations."""
        if os.path.isfile(warehouse):
            return "is a file, not a folder"
        if f"{self.folder}/".startswith(f"{warehouse}/"):
            return "is the lake's own folder, or one above it"
        inside = os.path.relpath(warehouse, self.folder).split(os.sep)[0]
        return f"is in {inside}/, which holds declarations" if inside in LAYERS else None

    def _reject_secrets_in_jvm_options(self, block: EnvironmentBlock) -> None:
        """Reject secrets in JVM options: every user of the machine can read those."""
        for key, value in block.spark.items():
            if isinstance(value, Secret) and key.endswith(_OPTIONS):
                what = f"{key} ({value}) would be part of a command line, which every user of the machine can read"
                hint = (
                    "name a file that only this user can read, or use a setting that Spark reads after its start, "
                    "such as spark.hadoop.…"
                )
                self.problems.add_error("secret-on-command-line", what, block.places.get("spark", block.at), hint)

    def _reject_settings_of_server(self, block: EnvironmentBlock) -> None:
        """Reject settings that a server of Spark Connect accepts from a client and ignores."""
        keys = [_SHORT_KEYS.get(key, key) for key in block.spark]
        for key in keys:
            if "spark.remote" in keys and key.startswith(_OF_SERVER):
                what = f"{key} has no effect with spark.remote: only the start of the server can set it"
                hint = "remove it here, and set it where the server of Spark Connect is started"
                self.problems.add_error("setting-of-server", what, block.places.get("spark", block.at), hint)

    def _secret(self, value: str | Secret, at: Place) -> bool:
        missing = [ref for ref in value.references if ref.reveal() is None] if isinstance(value, Secret) else []
        self.problems.extend(missing_secret(reference, at) for reference in missing)
        return not missing

    def _defaults(self, nodes: Mapping[str, Node], variables: Variables) -> Mapping[str, Defaults]:
        decoder = Decoder(variables=variables, problems=self.problems)
        blocks = {key: decoder.block(Defaults, node, f"defaults.{key}") or Defaults() for key, node in nodes.items()}
        every = blocks.get("all", Defaults())
        defaults: dict[str, Defaults] = {}
        for layer in LAYERS:
            own = blocks.get(layer, Defaults())
            tags = tuple(dict.fromkeys((*every.tags, *own.tags)))
            defaults[layer] = replace(every, **(written_keys(own) | {"tags": tags}))
        return defaults

    def _give_up(self) -> NoReturn:
        """Raise the problems found so far: the tables cannot be read without this file."""
        self.problems.sort(key=lambda problem: problem.at.line if problem.at else 0)
        raise_all(self.problems)
        raise AssertionError("only called after a problem was noted")


def _nodes(mapping: Mapping[Any, object]) -> dict[str, Node]:
    """Return the blocks that the decoder left as nodes."""
    return {key: node for key, node in mapping.items() if isinstance(node, Node)}
