"""A contract and a schema registry: published there, or held to what is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from lakesmith.declare.contract import Registered
from lakesmith.declare.table import Column, Table
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems, UsageError, raise_all
from lakesmith.exchange.avro import avro_schema
from lakesmith.exchange.avro_in import AvroField, avro_fields
from lakesmith.exchange.types import ListOf, MapOf, Plain, Record, SparkType, spelt, tree
from lakesmith.reports import Publication, Published

State = Literal["registered", "unchanged", "agrees"]


class Held(Protocol):
    """A schema as a registry holds it."""

    @property
    def id(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def text(self) -> str: ...


class SchemaStore(Protocol):
    """What is asked of a registry."""

    @property
    def url(self) -> str: ...

    def newest(self, subject: str) -> Held | None: ...

    def registered(self, subject: str, text: str) -> tuple[int, int] | None: ...

    def objections(self, subject: str, text: str) -> tuple[str, ...] | None: ...

    def register(self, subject: str, text: str) -> int: ...

    def level(self, subject: str) -> str | None: ...

    def set_level(self, subject: str, level: str) -> None: ...


def publish_all(tables: Sequence[Table], store_of: Callable[[Table], SchemaStore], *, named: bool) -> Publication:
    """Publish each contract that is to be in a registry; one that fails does not stop the others.

    `named`: the tables were asked for by name, so that each of them has to have a registry.
    """
    done: list[Published] = []
    errors: list[LakesmithError] = []
    without = [table for table in tables if table.terms.registry is None]
    if named:
        raise_all([_no_registry(table) for table in without])
    elif len(without) == len(tables):
        what, hint = "no contract of the lake names a registry", "contract: {registry: {connection: NAME}}"
        raise UsageError("no-registry", what, hint=hint)
    for table in tables:
        try:
            if table.terms.registry is not None:
                done.append(publish(table, table.terms.registry, store_of(table)))
        except Problems as problems:
            errors += problems.errors
        except LakesmithError as error:
            error.table = error.table or str(table.name)
            errors.append(error)
    return Publication(contracts=tuple(done), errors=tuple(errors))


def _no_registry(table: Table) -> DeclarationError:
    what, hint = f"the contract of {table.name} names no registry", "contract: {registry: {connection: NAME}}"
    return _problem("no-registry", what, table.declared_at, table, hint)


def publish(table: Table, at: Registered, store: SchemaStore) -> Published:
    """Bring the registry up to the declaration; where the registry is the truth, only compare."""
    if at.truth == "registry":
        raise_all(registry_problems(table, at, store))
        held = store.newest(at.subject)
        assert held is not None
        return _published(table, at, held.id, None, "agrees")
    text = json.dumps(avro_schema(table), ensure_ascii=False, separators=(",", ":"))
    level = table.terms.compatibility.upper()
    newest = store.newest(at.subject)
    # The level first: it is what the registry judges a new schema by. Only what is there can have one.
    if newest is not None:
        _keep_level(store, at.subject, level)
        if (found := store.registered(at.subject, text)) is not None:
            return _published(table, at, *found, "unchanged")
        if (objections := store.objections(at.subject, text)) is not None:
            reasons = "; ".join((*_changes(newest, text), *objections))
            raise DeclarationError(
                "contract-incompatible",
                f"the registry does not take the new schema into {at.subject}, which is {level}: {reasons}",
                at=table.declared_at,
                table=str(table.name),
                hint="take the change back, or publish it under another subject: contract: {registry: {subject: …}}",
            )
    id = store.register(at.subject, text)
    if newest is None:
        _keep_level(store, at.subject, level)
    found = store.registered(at.subject, text)
    return _published(table, at, id, found[1] if found else None, "registered")


def _changes(newest: Held, text: str) -> list[str]:
    """What is other in a schema than in the newest one, where both are records."""
    before, after = (avro_fields(newest.text) if newest.kind == "AVRO" else None) or {}, avro_fields(text) or {}
    told = [f"'{name}' is gone" for name in before if name not in after]
    for name, field in after.items():
        old = before.get(name)
        if old is None:
            told.append(f"'{name}' is new" + ("" if field.nullable else " and required"))
        elif old.type != field.type:
            told.append(f"'{name}' was {spelt(old.type)} and is {spelt(field.type)}")
        elif old.nullable != field.nullable:
            told.append(f"'{name}' " + ("may be null now" if field.nullable else "is required now"))
    return told


def _keep_level(store: SchemaStore, subject: str, level: str) -> None:
    if store.level(subject) != level:
        store.set_level(subject, level)


def _published(table: Table, at: Registered, id: int, version: int | None, state: State) -> Published:
    return Published(
        table=str(table.name),
        subject=at.subject,
        id=id,
        version=version,
        state=state,
        compatibility=table.terms.compatibility,
    )


def registry_problems(table: Table, at: Registered, store: SchemaStore) -> list[LakesmithError]:
    """In what the declaration is unlike the newest schema of a registry that is the source of truth."""
    if at.truth != "registry":
        return []
    held = store.newest(at.subject)
    if held is None:
        what = f"the registry at {store.url} has no subject '{at.subject}', and is to say what the contract is"
        hint = "register the schema there, or let the declaration be the truth: truth: here"
        return [_problem("contract-not-registered", what, table.declared_at, table, hint)]
    fields = avro_fields(held.text) if held.kind == "AVRO" else None
    if fields is None:
        what = f"the newest schema of '{at.subject}' is no Avro record, and cannot be compared with columns"
        hint = "name another subject, or let the declaration be the truth: truth: here"
        return [_problem("contract-unlike-registry", what, table.declared_at, table, hint)]
    declared = {column.name: column for column in table.columns}
    problems: list[LakesmithError] = []
    for name, field in fields.items():
        if name not in declared:
            what = f"the registry's schema has the field '{name}', and it is not declared"
            hint = f"add it below columns: {name}: {_shown(field)}"
            problems.append(_problem("contract-unlike-registry", what, table.declared_at, table, hint))
    for name, column in declared.items():
        what, hint = _difference(column, fields.get(name))
        if what:
            problems.append(_problem("contract-unlike-registry", what, column.declared_at, table, hint))
    return problems


def _difference(column: Column, field: AvroField | None) -> tuple[str, str]:
    """In what a column is unlike its field, and what to do; nothing when they are alike."""
    name = column.name
    if field is None:
        return f"the registry's schema has no field '{name}'", "remove the column, or register a schema that has it"
    if column.type is not None and _told(tree(column.type)) != field.type:
        what = f"'{name}' is {column.type} here, and {spelt(field.type)} in the registry"
        return what, f"write {name}: {_shown(field)}, or register another schema"
    required = column.required or column.key
    if required and field.nullable:
        return f"'{name}' is required here, and may be null in the registry", "leave `required` out"
    if not required and not field.nullable:
        return f"'{name}' may be without a value here, and not in the registry", f"write {name}: {_shown(field)}"
    return "", ""


def _shown(field: AvroField) -> str:
    return f'"{spelt(field.type)}"' if field.nullable else f'{{type: "{spelt(field.type)}", required: true}}'


def _told(type: SparkType) -> SparkType:
    """The type without what Avro cannot tell apart: its smallest whole number is `int`."""
    match type:
        case Plain(name="tinyint" | "smallint"):
            return Plain("int")
        case ListOf():
            return ListOf(_told(type.item))
        case MapOf():
            return MapOf(_told(type.key), _told(type.value))
        case Record():
            return Record(tuple((name, _told(each)) for name, each in type.fields))
        case _:
            return type


def _problem(code: str, what: str, at: Place, table: Table, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=at, table=str(table.name), hint=hint)
