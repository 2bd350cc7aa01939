"""Publish contracts to a schema registry, or compare them with its schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from lakesmith.declare.contract import Registered
from lakesmith.declare.spark_type import ArrayType, MapType, SimpleType, SparkType, StructType, parse_type
from lakesmith.declare.table import Column, Table
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems, UsageError, raise_all
from lakesmith.exchange.avro import avro_schema
from lakesmith.exchange.avro_reader import AvroField, avro_fields
from lakesmith.reports import Publication, PublishedSchema

State = Literal["registered", "unchanged", "agrees"]


class RegisteredSchema(Protocol):
    """A schema in a registry."""

    @property
    def id(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def text(self) -> str: ...


class SchemaRegistry(Protocol):
    """The operations of a schema registry."""

    @property
    def url(self) -> str: ...

    def latest(self, subject: str) -> RegisteredSchema | None: ...

    def find_version(self, subject: str, text: str) -> tuple[int, int] | None: ...

    def incompatibilities(self, subject: str, text: str) -> tuple[str, ...] | None: ...

    def register(self, subject: str, text: str) -> int: ...

    def level(self, subject: str) -> str | None: ...

    def set_level(self, subject: str, level: str) -> None: ...


def publish_all(tables: Sequence[Table], registry_of: Callable[[Table], SchemaRegistry], *, named: bool) -> Publication:
    """Publish each contract that names a registry. One failure does not stop the others.

    `named`: the user named the tables, so each of them needs a registry.
    """
    done: list[PublishedSchema] = []
    errors: list[LakesmithError] = []
    without = [table for table in tables if table.terms.registry is None]
    if named:
        raise_all([_no_registry(table) for table in without])
    elif len(without) == len(tables):
        what, hint = "no contract of the lake names a registry", "add contract: {registry: {connection: NAME}}"
        raise UsageError("no-registry", what, hint=hint)
    for table in tables:
        try:
            if table.terms.registry is not None:
                done.append(publish(table, table.terms.registry, registry_of(table)))
        except Problems as problems:
            errors += problems.errors
        except LakesmithError as error:
            error.table = error.table or str(table.name)
            errors.append(error)
    return Publication(contracts=tuple(done), errors=tuple(errors))


def _no_registry(table: Table) -> DeclarationError:
    what, hint = f"the contract of {table.name} names no registry", "add contract: {registry: {connection: NAME}}"
    return _problem("no-registry", what, table.declared_at, table, hint)


def publish(table: Table, at: Registered, registry: SchemaRegistry) -> PublishedSchema:
    """Register the declared schema. When the registry is the source of truth, only compare."""
    if at.truth == "registry":
        raise_all(registry_problems(table, at, registry))
        newest = registry.latest(at.subject)
        assert newest is not None
        return _published(table, at, newest.id, None, "agrees")
    text = json.dumps(avro_schema(table), ensure_ascii=False, separators=(",", ":"))
    level = table.terms.compatibility.upper()
    newest = registry.latest(at.subject)
    # Set the level first, because the registry applies it to the new schema. Only an existing subject has one.
    if newest is not None:
        _set_level(registry, at.subject, level)
        if (found := registry.find_version(at.subject, text)) is not None:
            return _published(table, at, *found, "unchanged")
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
    found = registry.find_version(at.subject, text)
    return _published(table, at, id, found[1] if found else None, "registered")


def _changes(newest: RegisteredSchema, text: str) -> list[str]:
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


def _set_level(registry: SchemaRegistry, subject: str, level: str) -> None:
    if registry.level(subject) != level:
        registry.set_level(subject, level)


def _published(table: Table, at: Registered, id: int, version: int | None, state: State) -> PublishedSchema:
    return PublishedSchema(
        table=str(table.name),
        subject=at.subject,
        id=id,
        version=version,
        state=state,
        compatibility=table.terms.compatibility,
    )


def registry_problems(table: Table, at: Registered, registry: SchemaRegistry) -> list[LakesmithError]:
    """Return how the declaration differs from the registry, when the registry is the source of truth."""
    if at.truth != "registry":
        return []
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
    if column.type is not None and _avro_type(parse_type(column.type)) != field.type:
        what = f"'{name}' is {column.type} here, but {field.type} in the registry"
        return what, f"write {name}: {_column_text(field)}, or register another schema"
    required = column.required or column.key
    if required and field.nullable:
        return f"'{name}' is required here, but nullable in the registry", "remove `required`"
    if not required and not field.nullable:
        return f"'{name}' is nullable here, but required in the registry", f"write {name}: {_column_text(field)}"
    return "", ""


def _column_text(field: AvroField) -> str:
    return f'"{field.type!s}"' if field.nullable else f'{{type: "{field.type!s}", required: true}}'


def _avro_type(type: SparkType) -> SparkType:
    """Return the type as Avro stores it: its smallest integer is `int`."""
    match type:
        case SimpleType(name="tinyint" | "smallint"):
            return SimpleType("int")
        case ArrayType():
            return ArrayType(_avro_type(type.element))
        case MapType():
            return MapType(_avro_type(type.key), _avro_type(type.value))
        case StructType():
            return StructType(tuple((name, _avro_type(each)) for name, each in type.fields))
        case _:
            return type


def _problem(code: str, what: str, at: Place, table: Table, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=at, table=str(table.name), hint=hint)
