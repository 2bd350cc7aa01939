"""Reads the pinned offsets of a topic into rows of a bronze table, with key, headers, offset and timestamp."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import eq
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.columns import CHANGE_AUDIT, CORRUPT, ERROR_CODE, KAFKA_AUDIT, RESCUED, ROW_HASH
from lakesmith.declare import Kafka, Table
from lakesmith.errors import DataError
from lakesmith.intake import debezium
from lakesmith.intake.avro_values import avro_schema
from lakesmith.intake.differences import differences, flat, type_name
from lakesmith.intake.evolution import Fields, breaking_changes, fields_of
from lakesmith.intake.protobuf_values import FIRST, compile_protobuf
from lakesmith.intake.rows import Target
from lakesmith.intake.shapes import STRING, arrow_type, spark_type, wider
from lakesmith.intake.values import Header, JsonSchema, ValueDecoder, WriterSchema, headers, key_texts
from lakesmith.ledger.batch import Batch
from lakesmith.ports import Slice, TableFacts
from lakesmith.sources import connection
from lakesmith.sources.kafka import SCHEMA, pinned_offsets, spark_settings, subject_of
from lakesmith.sources.registry import Registry, Schema
from lakesmith.spark.ingest.table_schema import evolved_schema, table_schema, widenable_columns
from lakesmith.sql import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakesmith.spark.ingest import IngestContext

_HEADERS = "array<struct<key:string,value:binary>>"
_AUDIT = {
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", tz="UTC"),
    "_key": STRING,
    "_headers": STRING,
}
assert ("_topic", *_AUDIT) == KAFKA_AUDIT


def read_topic(
    context: IngestContext, table: Table, source: Kafka, batch: Batch, facts: TableFacts | None, *, survey: bool
) -> DataFrame:
    """Return the rows of the batch's offsets."""
    assert batch.slice is not None
    settings = connection(table, context.environment)
    schemas = _Schemas.of(table, source, settings)
    records = _records(context, source, settings, pinned_offsets(table, source, settings, batch.slice))
    known = table_schema(table, facts)
    surveyed = survey or table.drift.new_column != "evolve" or (not len(known) and source.values == "json")
    shape = pa.struct([("value", STRING)]) if source.values == "text" else pa.struct([])
    found = [(id, FIRST) for id in schemas.versions]
    if surveyed and source.values != "text":
        shape, found = _survey(records, schemas.decoder)
        schemas = schemas.with_ids([id for id, _ in found])
    columns = evolved_schema(table, known, reduce(wider, map(schemas.decoder.schema_shape, found), shape))
    if source.envelope:
        columns = pa.schema([*columns, *debezium.COLUMNS])
    widening = widenable_columns(table, known) if source.values == "json" else frozenset()
    target = Target(schema=columns, timezone=source.timezone, surveyed=surveyed, widening=widening)
    decoder = replace(schemas.decoder, surveyed=surveyed or schemas.registry is None)
    return _with_audit_columns(_rows(records, decoder, target), source, batch, columns)


def check_schemas(
    table: Table, source: Kafka, settings: Mapping[str, str], pinned: Slice, facts: TableFacts | None
) -> tuple[str, ...]:
    """Return the schema changes since the table's last batch that the table cannot store.

    Called before any record is read. Raise when the contract or the source forbids the changes.
    """
    # The slice of the first batch has the newest schema at both ends.
    before = int(pinned.since.get(SCHEMA, 0)) if facts is not None else 0
    newest = int(pinned.until.get(SCHEMA, 0))
    if table.contract == "open" or before == newest or (table.contract == "strict" and not before):
        return ()
    lines = tuple(_Schemas.of(table, source, settings).changes(before, newest, facts))
    if not lines:
        return ()
    message = f"{subject_of(source)} has a new schema: {'; '.join(lines)}"
    if table.contract == "strict":
        raise DataError(
            "contract-broken",
            f"the contract is strict, and {message}",
            at=table.declared_at,
            hint=f"set `contract: additive` in {table.declared_at.file} to accept it, or delete the version from the "
            "registry and roll back the producers",
        )
    if source.incompatible == "fail":
        raise DataError(
            "schema-incompatible",
            f"the table cannot store the new schema: {message}",
            at=table.declared_at,
            hint="delete the version from the registry and roll back the producers, or set `incompatible: warn` in "
            f"{table.declared_at.file} to read it; values that do not fit go to _rescued",
        )
    return lines


@dataclass(frozen=True, kw_only=True)
class _Schemas:
    """The registered schemas of a topic's values, and of its keys where the envelope needs them."""

    table: Table
    source: Kafka
    registry: Registry | None
    decoder: ValueDecoder
    of_keys: frozenset[int] = frozenset()

    @classmethod
    def of(cls, table: Table, source: Kafka, settings: Mapping[str, str]) -> _Schemas:
        """Read every version of the subject. Raise when the registry does not answer."""
        registry = Registry.of(settings) if source.values != "text" else None
        decoder = ValueDecoder(values=source.values, envelope=source.envelope)
        bare = cls(table=table, source=source, registry=registry, decoder=decoder)
        if registry is None:
            return bare
        keys = registry.versions(f"{source.topic}-key") if source.envelope else ()
        schemas = bare._add([*registry.versions(subject_of(source)), *keys])
        return replace(schemas, of_keys=frozenset(schema.id for schema in keys))

    def with_ids(self, ids: Iterable[int]) -> _Schemas:
        """Add the schemas of ids that do not belong to the subject, as far as the registry has them."""
        if self.registry is None:
            return self
        found = [self.registry.by_id(id) for id in sorted(set(ids) - self.decoder.schemas.keys())]
        return self._add([schema for schema in found if schema is not None])

    @property
    def versions(self) -> tuple[int, ...]:
        """The ids of the value schemas, oldest first."""
        return tuple(id for id in self.decoder.schemas if id not in self.of_keys)

    def changes(self, before: int, newest: int, facts: TableFacts | None) -> Iterator[str]:
        """Yield the incompatible changes of each version after `before` up to `newest`.

        Under a strict contract, yield all changes. Without an earlier version, compare with the columns only.
        """
        fresh = self._between(before, newest)
        known = table_schema(self.table, facts)
        strict = self.table.contract == "strict"
        shape = reduce(wider, (self.decoder.schema_shape((id, FIRST)) for id in fresh), pa.struct([]))
        columns = flat(known if strict else evolved_schema(self.table, known, shape))
        required = [column.name for column in self.table.columns if column.required]
        # The version that was read last may be deleted from the subject. It is still found by its id.
        schemas = self.with_ids([before]) if before else self
        for earlier, id in pairwise([before, *fresh]):
            new, old = schemas._fields(id), schemas._fields(earlier) if before else None
            if new is None:
                yield f"schema {id} is not one of {self.source.values}"
                continue
            lines = breaking_changes(new, old, columns, required)
            if strict and old is not None:
                types = (
                    {path: field.type for path, field in side.items() if field.type is not None} for side in (old, new)
                )
                lines = list(dict.fromkeys([*differences(*types, type_name=type_name, fits=eq), *lines]))
            yield from (f"schema {id}: {line}" for line in lines)

    def _between(self, before: int, newest: int) -> list[int]:
        ids = [*self.versions]
        if newest in ids:
            del ids[ids.index(newest) + 1 :]
        if before in ids:
            return ids[ids.index(before) + 1 :]
        # The version was deleted, or the subject changed. Registries assign increasing ids.
        return [id for id in ids if id > before] or ids[-1:]

    def _fields(self, id: int) -> Fields | None:
        schema = self.decoder.schemas.get(id)
        if schema is None or not self.decoder.reads(schema):
            return None
        return fields_of(schema, envelope=self.source.envelope is not None)

    def _add(self, schemas: Sequence[Schema]) -> _Schemas:
        compiled = {schema.id: self._compile(schema) for schema in schemas}
        return replace(self, decoder=replace(self.decoder, schemas={**self.decoder.schemas, **compiled}))

    def _compile(self, schema: Schema) -> WriterSchema:
        try:
            match schema.kind:
                case "AVRO":
                    return avro_schema(schema.text, tuple(schema.imports.values()))
                case "PROTOBUF":
                    return compile_protobuf(schema.text, tuple(schema.imports.items()))
                case _:
                    return JsonSchema(schema.text, tuple(schema.imports.items()))
        except ValueError as error:
            what = f"schema {schema.id} of {subject_of(self.source)} does not compile: {error}"
            hint = f"register a schema that {'fastavro' if schema.kind == 'AVRO' else 'protoc'} reads"
            raise DataError("bad-schema", what, hint=hint) from error


def _records(
    context: IngestContext, source: Kafka, settings: Mapping[str, str], offsets: Mapping[int, tuple[int, int]]
) -> DataFrame:
    new = {partition: (start, stop) for partition, (start, stop) in offsets.items() if start < stop}
    # Spark cannot read an empty set of partitions, so an empty range of one partition is read.
    read = new or dict(list(offsets.items())[:1])
    sides = ({str(partition): bounds[side] for partition, bounds in read.items()} for side in (0, 1))
    since, until = (json.dumps({source.topic: side}) for side in sides)
    return (
        context.spark.read.format("kafka")
        .options(**spark_settings(settings))
        .options(
            assign=json.dumps({source.topic: sorted(read)}),
            startingOffsets=since,
            endingOffsets=until,
            failOnDataLoss="true",
            includeHeaders="true",
        )
        .load()
    )


def _survey(records: DataFrame, decoder: ValueDecoder) -> tuple[pa.DataType, list[Header]]:
    """Scan all records for the columns of JSON values, and for the schema ids in use."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: set[Header] = set()
        shape: pa.DataType = pa.struct([])
        for batch in batches:
            values, keys = (batch.column(name).to_pylist() for name in ("value", "key"))
            found |= headers(values, decoder.values)
            if decoder.values == "json":
                shape = wider(shape, decoder.shape(values, keys))
        result = {"shape": [str(spark_type(shape)) if len(shape) else ""], "found": [json.dumps(sorted(found))]}
        yield pa.RecordBatch.from_pydict(result, schema=pa.schema([("shape", STRING), ("found", STRING)]))

    shapes: list[pa.DataType] = [pa.struct([])]
    found: set[Header] = set()
    for row in records.select("key", "value").mapInArrow(look, "shape string, found string").collect():
        found |= {(id, tuple(place)) for id, place in json.loads(row.found)}
        if row.shape:
            shapes.append(arrow_type(row.shape))
    return reduce(wider, shapes), sorted(found)


def _rows(records: DataFrame, decoder: ValueDecoder, target: Target) -> DataFrame:
    output = pa.schema([*target.output, *_AUDIT.items()])

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values, keys = batch.column("value").to_pylist(), batch.column("key")
            made = decoder.rows(values, keys.to_pylist(), target)
            audit = [
                batch.column("partition"),
                batch.column("offset"),
                batch.column("timestamp").cast(_AUDIT["_timestamp"]),
                key_texts(keys),
                batch.column("headers"),
            ]
            yield pa.RecordBatch.from_arrays([*made.columns, *audit], schema=output)

    schema = ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in output)
    # Headers as JSON (bytes as base64): sending a list of structs to the workers and back takes longer than all other
    # work on the record.
    encoded = records.selectExpr("key", "value", "partition", "offset", "timestamp", "to_json(headers) AS headers")
    return encoded.mapInArrow(read, schema)


def _with_audit_columns(rows: DataFrame, source: Kafka, batch: Batch, columns: pa.Schema) -> DataFrame:
    changes = [name for name in columns.names if name in CHANGE_AUDIT]
    return rows.selectExpr(
        *(quoted(name) for name in columns.names if name not in changes),
        # A constant: it need not go through the workers.
        f"{literal(source.topic)} AS _topic",
        *(name for name in _AUDIT if name != "_headers"),
        f"from_json(_headers, '{_HEADERS}') AS _headers",
        *changes,
        f"timestamp_millis({batch.pinned_at}) AS _ingested_at",
        f"{literal(batch.run_id)} AS _run_id",
        *(ROW_HASH, RESCUED, CORRUPT, ERROR_CODE),
    )
