"""A lake: its tables, and where they are deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from lakesmith.declare.contract import Contract, QuarantinePolicy
from lakesmith.declare.forms import Duration, Size, Tag, Text
from lakesmith.declare.names import TableName
from lakesmith.declare.secrets import Settings
from lakesmith.declare.table import Table
from lakesmith.errors import LakesmithError, Place

PRIVATE = 0o077
"""The default umask: only their user may access files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """The limits of `lakesmith query`."""

    timeout: Annotated[Duration | None, "The maximum duration of a query; `5m` by default."] = 300.0
    """None for no limit."""
    memory: Annotated[
        Size | None, "The maximum memory of a query, such as `2GB`; half of the machine's by default."
    ] = None
    """For the engine: the result rows may take half as much again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A named environment that the lake is deployed to."""

    name: str
    warehouse: str
    """Absolute folder or URL of all tables."""
    landing: str
    """Absolute folder or URL that relative source paths are resolved against; the lake's own folder by default."""
    spark: Settings = field(default_factory=Settings)
    """Secrets are read when a setting is looked up; the text of the settings shows only their references."""
    storage: Mapping[str, Settings] = field(default_factory=dict)
    """By URL prefix, such as `s3://drops`: settings of the store."""
    connections: Mapping[str, Settings] = field(default_factory=dict)
    """By name, settings of a database or a Kafka cluster."""
    jobs: int = 2
    """How many tables are built in parallel."""
    query: QueryLimits = QueryLimits()
    umask: int = PRIVATE
    """The umask of files and folders in the warehouse."""

    @property
    def secret_variables(self) -> frozenset[str]:
        """The environment variables with secrets."""
        found = (secret for settings in self._settings for secret in settings.secrets.values())
        return frozenset(ref.name for secret in found for ref in secret.references if ref.kind == "env")

    def masked(self, text: str) -> str:
        """Return the text with the values of secrets masked."""
        for settings in self._settings:
            text = settings.masked(text)
        return text

    def mask(self, error: LakesmithError) -> None:
        """Mask the values of secrets in an error."""
        for each in error.errors:
            each.what = self.masked(each.what)
            each.hint = self.masked(each.hint) if each.hint else None

    @property
    def _settings(self) -> tuple[Settings, ...]:
        return (self.spark, *self.storage.values(), *self.connections.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Defaults for the tables of a layer."""

    owner: Annotated[Text | None, "The owner of the tables."] = None
    contract: Annotated[Contract | None, "The contract mode of the tables."] = None
    freshness: Annotated[Duration | None, "A table is stale after this long without new rows."] = None
    tags: Annotated[tuple[Tag, ...], "Tags of every table of the layer."] = ()
    quarantine: Annotated[QuarantinePolicy | None, "How long rows may stay in quarantine."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrunPython:
    """Python files that were parsed and not run, and what is unknown because of that."""

    files: tuple[str, ...] = ()
    tables: Mapping[TableName, Place] = field(default_factory=dict)
    """Tables whose computed declarations are only known by running the file."""
    layers: frozenset[str] = frozenset()
    """Layers that may have further tables."""

    def may_declare(self, name: TableName) -> bool:
        """Whether the table may be declared in a Python file that was not run."""
        return name in self.tables or name.layer in self.layers


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDeclaration:
    """The declaration of a whole lake for one environment."""

    name: str
    path: str
    """The lake's folder, absolute."""
    environment: Environment
    environments: tuple[str, ...]
    tables: Mapping[TableName, Table]
    declared_at: Place
    unrun: UnrunPython = UnrunPython()
