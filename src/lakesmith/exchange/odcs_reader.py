"""Read a document of the Open Data Contract Standard, version 3, as a table's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from lakesmith.declare.names import TableName, is_identifier
from lakesmith.errors import DeclarationError, Place, UsageError, did_you_mean
from lakesmith.exchange.declaration_keys import Keys, duration_text, given
from lakesmith.exchange.document_part import DocumentPart
from lakesmith.exchange.odcs import library
from lakesmith.exchange.odcs_checks import ImportedChecks
from lakesmith.exchange.odcs_types import column_type
from lakesmith.exchange.request import (
    ImportRequest,
    ImportResult,
    declaration_file,
    identifier,
    loader_problems,
    table_name,
)
from lakesmith.sql import quoted, sql_value

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_UNIT_WORDS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w", "year": "y", "hr": "h", "yr": "y"}
_TERMS = ("contract", "versionCounted", "quarantine", "compatibility", "drift", "previous", "registry")


def read_odcs(document: Mapping[str, Any], request: ImportRequest) -> ImportResult:
    """Return the table that the document, or one of its objects, describes."""
    _check(document, request)
    warnings: list[str] = []
    part = DocumentPart(values=document, where="", warnings=warnings)
    table = _chosen(part, request)
    name = table_name(request, table.text("physicalName"), table.text("name"), warnings=warnings)
    keys = _head(part, table, name, renamed=request.name is not None)
    rules = ImportedChecks()
    columns, described = _columns(table, rules)
    for rule in table.parts("quality"):
        rules.add(rule, None)
    # After the rules, so that a named rule takes precedence over an unnamed one.
    for column, each, options in described:
        if values := [value.take("value") for value in each.parts("enum")]:
            rules.add_if_new(each, f"{column}_known", {"in": {"column": column, "values": values}})
        if options is not None:
            _bounded(options, column, columns[column], rules)
    part.close()
    for column, condition in rules.conditions.items():
        columns[column]["check"] = condition
    if columns:
        keys["columns"] = {
            column: {
                key: value
                for key, value in block.items()
                if _accepts({"columns": {column: {key: value}}}, f"{column}.{key}", warnings)
            }
            for column, block in columns.items()
        }
    keys |= {"checks": rules.checks} if rules.checks else {}
    return declaration_file(name, keys, warnings)


def _check(document: Mapping[str, Any], request: ImportRequest) -> None:
    """Validate the document with the models of the standard."""
    version = str(document.get("apiVersion"))
    at, hint = Place(request.file), "documents of version 3 have apiVersion: v3.x"
    if not version.startswith("v3."):
        raise DeclarationError("bad-document", f"the document's apiVersion is {version}", at=at, hint=hint)
    model = library().OpenDataContractStandard
    import pydantic

    try:
        model.model_validate(document)
    except pydantic.ValidationError as error:
        errors = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3]]
        what = f"the document does not follow the standard: {'; '.join(errors)}"
        raise DeclarationError("bad-document", what, at=at, hint="fix the document") from None


def _chosen(part: DocumentPart, request: ImportRequest) -> DocumentPart:
    """Return the object to import."""
    tables = part.parts("schema")
    if not tables:
        hint = "add schema: [{name: …, properties: […]}] to the contract"
        raise DeclarationError("bad-document", "the document describes no table", at=Place(request.file), hint=hint)
    names = [str(table.values.get("name")) for table in tables]
    if request.part is None and len(tables) > 1:
        hint = f"choose one with --object: {', '.join(names)}"
        raise UsageError("several-objects", f"the document describes {len(tables)} tables", hint=hint)
    if request.part is not None and request.part not in names:
        hint = did_you_mean(request.part, names, label="objects")
        raise UsageError("unknown-object", f"the document describes no '{request.part}'", hint=hint)
    chosen = tables[names.index(request.part) if request.part else 0]
    for table in tables:
        if table is not chosen:
            table.drop("another table, which can be imported separately")
    return chosen


def _head(part: DocumentPart, table: DocumentPart, name: TableName, *, renamed: bool) -> Keys:
    """Return the keys of a table other than columns and checks."""
    for key in ("apiVersion", "kind"):
        part.take(key)
    id, called, title = part.text("id"), part.text("name"), table.text("name")
    if called not in (None, str(name), title) and not renamed:
        part.warn("name", f"'{called}' is ignored: the table takes the name of its object")
    if not (id or "").endswith(called or str(name)):
        part.warn("id", f"'{id}' is ignored: a table is identified by its name")
    if title not in (None, name.name, str(name)) and not renamed:
        table.warn("name", f"'{title}' is ignored: the table is named {name}")
    if part.text("status") not in (None, "active"):
        part.warn("status")
    about = part.part("description")
    purpose = about.text("purpose") if about else None
    description = table.text("description") or purpose
    if about and purpose not in (None, description):
        about.warn("purpose", "the object's own description is used")
    if table.text("physicalType") not in (None, "table"):
        table.warn("physicalType")
    table.take("logicalType")
    tags = [*(part.take("tags") or ()), *(table.take("tags") or ())]
    keys = given(
        description=description,
        owner=_owner(part),
        tags=_tags(table, tags),
        freshness=_freshness(part),
        **_terms(part),
    )
    return {key: value for key, value in keys.items() if _accepts({key: value}, key, part.warnings)}


def _owner(part: DocumentPart) -> str | None:
    team = part.part("team")
    if team is not None:
        return team.text("name")
    # Before 3.1 a team was a list of its members.
    members = part.parts("team")
    owners = [member for member in members if str(member.values.get("role")).lower() == "owner"]
    if not (owners or members):
        return None
    chosen = (owners or members)[0]
    owner = chosen.text("username") or chosen.text("name")
    chosen.take("role")
    for member in members:
        if member is not chosen:
            member.drop("a table has one owner")
    return owner


def _freshness(part: DocumentPart) -> str | None:
    seconds: float | None = None
    for agreed in part.parts("slaProperties"):
        word = agreed.text("property")
        if word not in ("freshness", "latency", "ly") or seconds is not None:
            agreed.drop()
            continue
        unit = (agreed.text("unit") or "").lower()
        size = _UNITS.get(_UNIT_WORDS.get(unit.removesuffix("s"), unit))
        try:
            seconds = float(Decimal(str(agreed.take("value"))) * (size or 0))
        except ArithmeticError:
            seconds = 0.0
        if not seconds:
            agreed.drop("it is not a duration")
            seconds = None
    return duration_text(seconds)


def _terms(part: DocumentPart) -> Keys:
    """Return the keys below `contract` and `quarantine`."""
    custom = part.custom(*_TERMS)
    version = part.text("version")
    written = given(
        mode=custom.get("contract"),
        version=None if custom.get("versionCounted") else version,
        **{key: custom.get(key) for key in ("compatibility", "drift", "previous", "registry")},
    )
    contract = {
        key: value for key, value in written.items() if _accepts({"contract": {key: value}}, "contract", part.warnings)
    }
    return {"contract": contract or None, "quarantine": custom.get("quarantine")}


_Described = list[tuple[str, DocumentPart, DocumentPart | None]]


def _columns(table: DocumentPart, rules: ImportedChecks) -> tuple[dict[str, Keys], _Described]:
    """Return the columns, and for each the part that describes it and the options of its type."""
    columns: dict[str, Keys] = {}
    described: _Described = []
    for part in table.parts("properties"):
        name = _column_name(part, columns)
        if name is None:
            continue
        options = part.part("logicalTypeOptions")
        columns[name] = _column(part, options)
        described.append((name, part, options))
        for rule in part.parts("quality"):
            rules.add(rule, name)
    return columns, described


def _column_name(part: DocumentPart, columns: Mapping[str, Keys]) -> str | None:
    called, stored = part.text("name") or "", part.text("physicalName")
    name = stored if stored and is_identifier(stored) else called
    if stored and stored != called:
        part.warn("physicalName" if name == called else "name", f"the column is named '{name}'")
    if not is_identifier(name):
        part.warn("name", f"'{name}' is not a valid column name, so it became '{identifier(name)}'")
        name = identifier(name)
    if name.lower() in {column.lower() for column in columns} or not is_identifier(name):
        part.drop("its name is missing or not unique")
        return None
    return name


def _column(part: DocumentPart, options: DocumentPart | None) -> Keys:
    type = column_type(part, options)
    custom = part.custom("untyped", "since", "deprecatedBecause", "currency", "timezone")
    classified = part.text("classification")
    part.take("primaryKeyPosition")
    deprecated = part.flag("deprecated")
    tags = [*(part.take("tags") or ()), *([f"classification:{classified}"] if classified else [])]
    return given(
        type=None if custom.get("untyped") is True else type,
        required=part.flag("required") or None,
        key=part.flag("primaryKey") or None,
        unique=part.flag("unique") or None,
        tags=_tags(part, tags),
        description=part.text("description") or part.text("businessName"),
        since=custom.get("since"),
        deprecated=custom.get("deprecatedBecause") or ("deprecated" if deprecated else None),
        currency=custom.get("currency"),
        timezone=custom.get("timezone"),
    )


def _tags(part: DocumentPart, tags: list[object]) -> list[str] | None:
    fit = []
    for tag in dict.fromkeys(map(str, tags)):
        if problems := loader_problems({"tags": [tag]}):
            part.warn("tags", problems[0].what)
        else:
            fit.append(tag)
    return fit or None


def _bounded(options: DocumentPart, column: str, keys: Keys, rules: ImportedChecks) -> None:
    """Add the checks that the options of a type imply."""
    for word, least, most in (("range", "minimum", "maximum"), ("length", "minLength", "maxLength")):
        limits = given(min=options.take(least), max=options.take(most))
        if word == "length" and limits.get("min") == 0:
            del limits["min"]
        if limits:
            rules.add_if_new(options, f"{column}_{word}", {word: {"column": column, **limits}})
    if pattern := options.text("pattern"):
        rules.add_if_new(options, f"{column}_pattern", {"pattern": {"column": column, "matches": pattern}})
    for key, sign in (("exclusiveMinimum", ">"), ("exclusiveMaximum", "<")):
        if (bound := options.take(key)) is not None:
            rules.add_if_new(options, f"{column}_range", {"sql": f"{quoted(column)} {sign} {sql_value(bound)}"})
    if (step := options.take("multipleOf")) is not None:
        rules.add_if_new(options, f"{column}_multiple", {"sql": f"{quoted(column)} % {sql_value(step)} = 0"})
    if zone := options.text("defaultTimezone"):
        keys.setdefault("timezone", zone)


def _accepts(keys: Keys, path: str, warnings: list[str]) -> bool:
    """Whether the loader accepts the keys. Its errors become warnings."""
    problems = loader_problems(keys)
    warnings += [f"{path}: {problem.what}" for problem in problems]
    return not problems
