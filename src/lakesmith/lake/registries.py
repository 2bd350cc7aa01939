"""Publish contracts to a schema registry, or compare them with its schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from lakesmith.declare import Table
from lakesmith.declare.contract import Registered
from lakesmith.declare.spark_type import SimpleType, parse_type
from lakesmith.declare.table import Column
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems, UsageError, raise_all
from lakesmith.exchange.avro import avro_schema
from lakesmith.exchange.avro_reader import AvroField, avro_fields
from lakesmith.lake.open_lake import OpenLake
from lakesmith.reports import Publication, PublishedSchema
from lakesmith.sources import registry_of
from lakesmith.sources.registry import Registry, Schema

_HINT = "add contract: {registry: {connection: NAME}}"


def publish_all(lake: OpenLake, tables: Sequence[Table], *, named: bool) -> Publication:
    """Publish each contract that names a registry. One failure does not stop the others.

    `named`: the user named the tables, so each of them needs a registry.
    """
    published: list[PublishedSchema] = []
    errors: list[LakesmithError] = []
    without = [table for table in tables if table.terms.registry is None]
    if named:
        what = "the contract of {} names no registry"
        raise_all(
            [_problem("no-registry", what.format(table.name), table.declared_at, table, _HINT) for table in without]
        )
    elif len(without) == len(tables):
        raise UsageError("no-registry", "no contract of the lake names a registry", hint=_HINT)
    for table in tables:
        try:
            if table.terms.registry is not None:
                registry = registry_of(table, lake.declaration.environment)
                published.append(_publish(table, table.terms.registry, registry))
        except Problems as problems:
            errors += problems.errors
        except LakesmithError as error:
            error.table = error.table or str(table.name)
            errors.append(error)
    return Publication(contracts=tuple(published), errors=tuple(errors))


def _no_registry(table: Table) -> DeclarationError:
    return _problem("no-registry", f"the contract of {table.name} names no registry", table.declared_at, table, _HINT)


def check_registries(lake: OpenLake, tables: Sequence[Table]) -> None:
    """Raise when a registry is the source of truth and a declaration differs from it."""
    governed = [(table, at) for table in tables if (at := table.terms.registry) and at.truth == "registry"]
    here = lake.declaration.environment
    raise_all([each for table, at in governed for each in _differences(table, at, registry_of(table, here))])


def _publish(table: Table, at: Registered, registry: Registry) -> PublishedSchema:
    """Register the declared schema. When the registry is the source of truth, only compare."""
    if at.truth == "registry":
        raise_all(_differences(table, at, registry))
        newest = registry.latest(at.subject)
        assert newest is not None
        return _published(table, at, newest.id, None, "agrees")
    text = json.dumps(avro_schema(table), ensure_ascii=False, separators=(",", ":"))
    level = table.terms.compatibility.upper()
    newest = registry.latest(at.subject)
    # Set the level first, because the registry applies it to the new schema. Only an existing subject has one.
    if newest is not None:
        _set_level(registry, at.subject, level)
        if (registered := registry.find_version(at.subject, text)) is not None:
            return _published(table, at, *registered, "unchanged")
        if (incompatibilities := registry.incompatibilities(at.subject, text)) is not None:
            reasons = "; ".join((*_changes(newest, text), *incompatibilities))
            raise DeclarationError(
                "contract-incompatible",
                f"the registry rejects the new schema of {at.subject}, which is {level}: {reasons}",
                at=table.declared_at,
                table=str(table.name),
                hint="undo the change, or publish it under another subject: contract: {registry: {subject: …}}",
            )
    id = registry.register(at.subject, text)
    if newest is None:
        _set_level(registry, at.subject, level)
    registered = registry.find_version(at.subject, text)
    return _published(table, at, id, registered[1] if registered else None, "registered")


def _changes(newest: Schema, text: str) -> list[str]:
    """Return how a schema differs from the newest one, when both are records."""
    before, after = (avro_fields(newest.text) if newest.kind == "AVRO" else None) or {}, avro_fields(text) or {}
    changes = [f"'{name}' was removed" for name in before if name not in after]
    for name, field in after.items():
        old = before.get(name)
        if old is None:
            changes.append(f"'{name}' is new" + ("" if field.nullable else " and required"))
        elif old.type != field.type:
            changes.append(f"'{name}' was {old.type!s} and is {field.type!s}")
        elif old.nullable != field.nullable:
            changes.append(f"'{name}' " + ("is nullable now" if field.nullable else "is required now"))
    return changes


def _set_level(registry: Registry, subject: str, level: str) -> None:
    if registry.level(subject) != level:
        registry.set_level(subject, level)


def _published(
    table: Table,
    at: Registered,
    id: int,
    version: int | None,
    state: Literal["registered", "unchanged", "agrees"],
) -> PublishedSchema:
    return PublishedSchema(
        table=str(table.name),
        subject=at.subject,
        id=id,
        version=version,
        state=state,
        compatibility=table.terms.compatibility,
    )


def _differences(table: Table, at: Registered, registry: Registry) -> list[LakesmithError]:
    """Return how the declaration differs from the registry, which is the source of truth."""
    newest = registry.latest(at.subject)
    if newest is None:
        what = f"the registry at {registry.url} has no subject '{at.subject}', but is the source of truth"
        hint = "register the schema, or make the declaration the source of truth: truth: here"
        return [_problem("contract-not-registered", what, table.declared_at, table, hint)]
    fields = avro_fields(newest.text) if newest.kind == "AVRO" else None
    if fields is None:
        what = f"the newest schema of '{at.subject}' is not an Avro record, so it cannot be compared with columns"
        hint = "name another subject, or make the declaration the source of truth: truth: here"
        return [_problem("contract-differs-from-registry", what, table.declared_at, table, hint)]
    declared = {column.name: column for column in table.columns}
    problems: list[LakesmithError] = []
    for name, field in fields.items():
        if name not in declared:
            what = f"the registry's schema has the field '{name}', which is not declared"
            hint = f"add it below columns: {name}: {_column_text(field)}"
            problems.append(_problem("contract-differs-from-registry", what, table.declared_at, table, hint))
    for name, column in declared.items():
        what, hint = _difference(column, fields.get(name))
        if what:
            problems.append(_problem("contract-differs-from-registry", what, column.declared_at, table, hint))
    return problems


def _difference(column: Column, field: AvroField | None) -> tuple[str, str]:
    """Return how a column differs from its field, and a hint; empty texts when they agree."""
    name = column.name
    if field is None:
        return f"the registry's schema has no field '{name}'", "remove the column, or register a schema that has it"
    if column.type is not None and parse_type(column.type, _avro_type) != field.type:
        what = f"'{name}' is {column.type} here, but {field.type} in the registry"
        return what, f"write {name}: {_column_text(field)}, or register another schema"
    required = column.is_required
    if required and field.nullable:
        return f"'{name}' is required here, but nullable in the registry", "remove `required`"
    if not required and not field.nullable:
        return f"'{name}' is nullable here, but required in the registry", f"write {name}: {_column_text(field)}"
    return "", ""


def _column_text(field: AvroField) -> str:
    return f'"{field.type!s}"' if field.nullable else f'{{type: "{field.type!s}", required: true}}'


def _avro_type(name: str) -> SimpleType:
    """Return a simple type as Avro stores it: its smallest integer is `int`."""
    return SimpleType("int" if name in ("tinyint", "smallint") else name)


def _problem(code: str, what: str, at: Place, table: Table, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=at, table=str(table.name), hint=hint)
