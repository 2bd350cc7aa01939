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
class Environment:
    """A named place where the lake is deployed."""

    name: str
    warehouse: str
    """Absolute folder or URL; every table lies below it."""
    landing: str
    """Absolute folder or URL that relative source paths start from; the lake's own folder by default."""
    spark: Mapping[str, str] = field(default_factory=Settings)
    """Secrets in it are read when a setting is looked up; its text shows only where they come from."""
    storage: Mapping[str, Settings] = field(default_factory=dict)
    """By the beginning of a URL, such as `s3://drops`: how that store is reached."""
    connections: Mapping[str, Settings] = field(default_factory=dict)
    """By name, how a database or a Kafka cluster is reached."""
    jobs: int = 2
    """How many tables are built at a time."""
    umask: int = PRIVATE
    """The permissions that files and folders of the warehouse are made without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a table of a layer is unless it says otherwise."""

    owner: str | None = None
    contract: Contract | None = None
    freshness: float | None = None
    tags: tuple[str, ...] = ()
    quarantine: QuarantinePolicy | None = None


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
