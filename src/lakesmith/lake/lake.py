"""The public `Lake`: every operation on a lake, one method each. The CLI and the integrations call nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from lakesmith.declare import LakeDeclaration, Table, TableName
from lakesmith.lake import (
    contracts,
    landing,
    maintenance,
    planning,
    reads,
    rejected,
    releases,
    rollback,
    running,
    state,
    unit_tests,
)
from lakesmith.lake.open_lake import OpenLake
from lakesmith.load import load_lake
from lakesmith.plan.graph import Graph

P = ParamSpec("P")
R = TypeVar("R")


def _method(function: Callable[Concatenate[OpenLake, P], R]) -> Callable[Concatenate[Lake, P], R]:
    """The function as a method of `Lake`, with the same parameters and docstring."""

    def call(self: Lake, /, *arguments: P.args, **options: P.kwargs) -> R:
        return function(self._lake, *arguments, **options)

    update_wrapper(call, function)
    return call


class Lake:
    """A lake in one environment."""

    def __init__(self, declaration: LakeDeclaration) -> None:
        self._lake = OpenLake.of(declaration)

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        environment: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Lake:
        """Read the declarations below `path`. Starts nothing and writes nothing."""
        return cls(load_lake(path, environment=environment, variables=variables or {}))

    @property
    def declaration(self) -> LakeDeclaration:
        return self._lake.declaration

    @property
    def name(self) -> str:
        return self._lake.name

    @property
    def environment(self) -> str:
        return self._lake.environment

    @property
    def tables(self) -> Mapping[TableName, Table]:
        return self._lake.tables

    @property
    def graph(self) -> Graph:
        """The dependency graph of the tables. Raises when declarations contradict each other."""
        return self._lake.graph

    review = staticmethod(planning.review)
    validate = _method(planning.validate)
    plan = _method(planning.plan)
    lineage = _method(planning.table_lineage)

    test = _method(unit_tests.run_tests)
    test_empty = _method(unit_tests.check_on_empty_tables)

    run = _method(running.run)
    run_continuously = _method(running.run_continuously)
    land = _method(landing.land_files)
    adopt = _method(landing.adopt)

    status = _method(state.table_states)
    history = _method(state.history)
    run_steps = _method(state.run_steps)
    doctor = _method(state.doctor)

    query = _method(reads.query)
    query_limits = _method(reads.query_limits)
    profile = _method(reads.profile_table)

    contract_diff = _method(contracts.diff_contracts)
    contract_check = _method(contracts.check_contracts)
    export_contract = _method(contracts.export_table_contract)
    import_contract = staticmethod(contracts.import_document)
    publish_contract = _method(contracts.publish_contracts)

    held = _method(rejected.held_batches)
    approve = _method(rejected.approve)
    quarantine = _method(rejected.quarantine_counts)
    quarantine_rows = _method(rejected.quarantine_rows)
    quarantine_row = _method(rejected.quarantine_row)
    quarantine_ids = _method(rejected.quarantine_ids)
    quarantine_stats = _method(rejected.quarantine_stats)
    replay = _method(rejected.replay)
    discard = _method(rejected.discard)

    plan_compact = _method(maintenance.plan_compact)
    compact = _method(maintenance.compact)
    plan_vacuum = _method(maintenance.plan_vacuum)
    vacuum = _method(maintenance.vacuum)
    plan_restore = _method(maintenance.plan_restore)
    restore = _method(maintenance.restore)

    releases = _method(releases.releases)
    plan_rollback = _method(rollback.plan_rollback)
    rollback = _method(rollback.rollback)
