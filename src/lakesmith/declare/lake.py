"""A lake: its tables, and where they are deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesmith.declare.contract import Contract, QuarantinePolicy
from lakesmith.declare.names import TableName
from lakesmith.declare.secrets import Settings
from lakesmith.declare.table import Table
from lakesmith.errors import Place

PRIVATE = 0o077
"""The umask of a lake that says nothing: files belong to their user alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """How much a query may use before it is stopped."""

    timeout: float | None = 300.0
    """Seconds; None for no limit."""
    memory: int | None = None
    """Bytes that the engine may allocate; None for half of the machine's memory. The rows of the answer may take half
    as much again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A named place where the lake is deployed."""

    name: str
    warehouse: str
    """Absolute folder or URL; every table lies below it."""
    landing: str
    """Absolute folder or URL that relative source paths start from; the lake's own folder by default."""
    spark: Settings = field(default_factory=Settings)
    """Secrets in it are read when a setting is looked up; its text shows only where they come from."""
    storage: Mapping[str, Settings] = field(default_factory=dict)
    """By the beginning of a URL, such as `s3://drops`: how that store is reached."""
    connections: Mapping[str, Settings] = field(default_factory=dict)
    """By name, how a database or a Kafka cluster is reached."""
    jobs: int = 2
    """How many tables are built at a time."""
    query: QueryLimits = QueryLimits()
    umask: int = PRIVATE
    """The permissions that files and folders of the warehouse are made without."""

    @property
    def secret_variables(self) -> frozenset[str]:
        """The environment variables that hold secrets."""
        found = (secret for settings in self._settings for secret in settings.secrets.values())
        return frozenset(ref.name for secret in found for ref in secret.references if ref.kind == "env")

    def masked(self, text: str) -> str:
        """The text without the values of secrets."""
        for settings in self._settings:
            text = settings.masked(text)
        return text

    @property
    def _settings(self) -> tuple[Settings, ...]:
        return (self.spark, *self.storage.values(), *self.connections.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a table of a layer is unless it says otherwise."""

    owner: str | None = None
    contract: Contract | None = None
    freshness: float | None = None
    tags: tuple[str, ...] = ()
    quarantine: QuarantinePolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrunPython:
    """Python files that were read and not run, and what is not known because of that."""

    files: tuple[str, ...] = ()
    tables: Mapping[TableName, Place] = field(default_factory=dict)
    """Tables that are declared there in a way that only running the file would tell."""
    layers: frozenset[str] = frozenset()
    """Layers that may have more tables than are known."""

    def may_declare(self, name: TableName) -> bool:
        """Whether there may be such a table."""
        return name in self.tables or name.layer in self.layers


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDeclaration:
    """The whole lake as it is written, for one environment."""

    name: str
    path: str
    """The lake's folder, absolute."""
    environment: Environment
    environments: tuple[str, ...]
    tables: Mapping[TableName, Table]
    declared_at: Place
    unrun: UnrunPython = UnrunPython()
