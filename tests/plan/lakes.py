"""Small declarations and facts for the tests of planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lakesmith.declare import (
    Append,
    Column,
    Environment,
    Files,
    LakeDeclaration,
    Load,
    PythonQuery,
    Replace,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.errors import Place
from lakesmith.ports import ColumnFact, FileFact, TableFacts
from lakesmith.store import folder_at


def named(text: str) -> TableName:
    name = TableName.parse(text)
    assert name is not None, text
    return name


def sql(text: str, *, file: str = "silver/x.sql", line: int = 1) -> SqlQuery:
    return SqlQuery(text=text, declared_at=Place(file, line))


def bronze(name: str, **kwargs: object) -> Table:
    table = Table(
        name=named(f"bronze.{name}"),
        origin=Files(files=f"landing/{name}/*.json", format="json"),
        load=Append(),
        declared_at=Place(f"bronze/{name}.yml"),
    )
    return replace(table, **kwargs)  # type: ignore[arg-type]  # the tests name real fields


def made(name: str, text: str, load: Load | None = None, **kwargs: object) -> Table:
    """Return an SQL table whose query starts in line 5 of its file."""
    file = name.replace(".", "/") + ".sql"
    table = Table(
        name=named(name),
        origin=sql(text, file=file, line=5),
        load=load or Replace(),
        declared_at=Place(file),
    )
    return replace(table, **kwargs)  # type: ignore[arg-type]  # the tests name real fields


def python(
    name: str, refs: Sequence[str], load: Load | None = None, *, rowwise: bool = False, source: str = ""
) -> Table:
    file = name.replace(".", "/") + ".py"
    return Table(
        name=named(name),
        origin=PythonQuery(
            path=f"/lake/{file}",
            function="make",
            refs=tuple((f"input{at}", named(ref)) for at, ref in enumerate(refs)),
            source=source or "def make(): return 1",
            rowwise=rowwise,
            declared_at=Place(file, 7),
        ),
        load=load or Replace(),
        declared_at=Place(file, 7),
    )


def column(name: str, **kwargs: object) -> Column:
    return replace(Column(name=name, declared_at=Place("silver/x.sql", 3)), **kwargs)  # type: ignore[arg-type]


def by_name(*tables: Table) -> dict[TableName, Table]:
    return {table.name: table for table in tables}


def lake(*tables: Table) -> LakeDeclaration:
    return LakeDeclaration(
        name="shop",
        path="/lake",
        environment=Environment(name="dev", warehouse="/lake/warehouse", landing="/lake"),
        environments=("dev",),
        tables=by_name(*tables),
        declared_at=Place("lakesmith.yml"),
    )


def facts(version: int = 0, *, table_id: str = "one", oldest: int = 0, maintenance_commits: int = 0) -> TableFacts:
    return TableFacts(
        folder=folder_at("/lake/warehouse/x"),
        version=version,
        table_id=table_id,
        columns=(ColumnFact("id", "bigint"),),
        partition_by=(),
        rows=1,
        bytes=1,
        files=1,
        committed_at=datetime(2026, 1, 1, tzinfo=UTC),
        oldest=oldest,
        sequence=1,
        maintenance_commits=maintenance_commits,
    )


def file(name: str, size: int = 1000, modified: int = 0) -> FileFact:
    return FileFact(path=f"/lake/landing/{name}", size=size, modified=modified)


def columns(**schemas: Sequence[str]) -> Mapping[TableName, Sequence[str]]:
    """Schemas by `layer_table`."""
    return {named(name.replace("_", ".", 1)): found for name, found in schemas.items()}
