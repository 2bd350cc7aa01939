"""A document of the Open Data Contract Standard, version 3, becomes a table's declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from lakesmith.declare.names import TableName, is_identifier
from lakesmith.errors import DeclarationError, Place, UsageError, did_you_mean
from lakesmith.exchange.odcs import library
from lakesmith.exchange.odcs_rules import Rules
from lakesmith.exchange.odcs_sql import value_text
from lakesmith.exchange.odcs_types import column_type
from lakesmith.exchange.parts import Part
from lakesmith.exchange.request import Imported, Wanted, declared, problems_of, table_name
from lakesmith.exchange.spelling import Keys, duration_text
from lakesmith.sql import quoted

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_UNIT_WORDS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w", "year": "y", "hr": "h", "yr": "y"}
_TERMS = ("contract", "versionCounted", "quarantine", "compatibility", "drift", "previous", "registry")


def read_odcs(document: Mapping[str, Any], wanted: Wanted) -> Imported:
    """The table that the document, or one of its objects, describes."""
    _check(document, wanted)
    warnings: list[str] = []
    part = Part(values=document, where="", warnings=warnings)
    table = _chosen(part, wanted)
    name = table_name(wanted, table.text("physicalName"), table.text("name"), warnings=warnings)
    keys = _head(part, table, name, renamed=wanted.name is not None)
    rules = Rules()
    columns, described = _columns(table, rules)
    for rule in table.parts("quality"):
        rules.add(rule, None)
    # After the rules: those that have a name count, and are not made twice.
    for column, each, options in described:
        _enumerated(each, column, rules)
        if options is not None:
            _bounded(options, column, columns[column], rules)
    part.close()
    for column, condition in rules.conditions.items():
        columns[column]["check"] = condition
    keys |= _fitting(columns, "columns", warnings)
    keys |= {"checks": rules.checks} if rules.checks else {}
    return declared(name, keys, warnings)


def _check(document: Mapping[str, Any], wanted: Wanted) -> None:
    """Hold the document to the models of the standard."""
    version = str(document.get("apiVersion"))
    at, hint = Place(wanted.file), "the standard's documents of version 3 have apiVersion: v3.x"
    if not version.startswith("v3."):
        raise DeclarationError("bad-document", f"the document's apiVersion is {version}", at=at, hint=hint)
    model = library().OpenDataContractStandard
    import pydantic

    try:
        model.model_validate(document)
    except pydantic.ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3]]
        what = f"the document is not as the standard says: {'; '.join(found)}"
        raise DeclarationError("bad-document", what, at=at, hint="mend the document") from None


def _chosen(part: Part, wanted: Wanted) -> Part:
    """The object that is to become a table."""
    tables = part.parts("schema")
    if not tables:
        hint = "a contract needs schema: [{name: …, properties: […]}] to become a table"
        raise DeclarationError("bad-document", "the document describes no table", at=Place(wanted.file), hint=hint)
    names = [str(table.values.get("name")) for table in tables]
    if wanted.part is None and len(tables) > 1:
        hint = f"choose one with --object: {', '.join(names)}"
        raise UsageError("several-objects", f"the document describes {len(tables)} tables", hint=hint)
    if wanted.part is not None and wanted.part not in names:
        hint = did_you_mean(wanted.part, names, label="objects")
        raise UsageError("unknown-object", f"the document describes no '{wanted.part}'", hint=hint)
    chosen = tables[names.index(wanted.part) if wanted.part else 0]
    for table in tables:
        if table is not chosen:
            table.drop("another table, to be imported for itself")
    return chosen


def _head(part: Part, table: Part, name: TableName, *, renamed: bool) -> Keys:
    """All but columns and checks."""
    for key in ("apiVersion", "kind"):
        part.take(key)
    id, called, title = part.text("id"), part.text("name"), table.text("name")
    if called not in (None, str(name), title) and not renamed:
        part.warn("name", f"'{called}' is not kept: a table is called by its object")
    if not (id or "").endswith(called or str(name)):
        part.warn("id", f"'{id}' is not kept: a table is known by its name")
    if title not in (None, name.name, str(name)) and not renamed:
        table.warn("name", f"'{title}' is not kept: the table is called {name}")
    if part.text("status") not in (None, "active"):
        part.warn("status")
    about = part.part("description")
    purpose = about.text("purpose") if about else None
    told = table.text("description") or purpose
    if about and purpose not in (None, told):
        about.warn("purpose", "the object has a description of its own")
    if table.text("physicalType") not in (None, "table"):
        table.warn("physicalType")
    table.take("logicalType")
    tags = [*(part.take("tags") or ()), *(table.take("tags") or ())]
    found: Keys = {
        "description": told,
        "owner": _owner(part),
        "tags": _tags(table, tags),
        "freshness": _freshness(part),
        **_terms(part),
    }
    kept: Keys = {}
    for key, value in found.items():
        if value is not None:
            kept |= _fitting({key: value}, None, part.warnings)
    return kept


def _owner(part: Part) -> str | None:
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


def _freshness(part: Part) -> str | None:
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
            agreed.drop("it is no length of time")
            seconds = None
    return duration_text(seconds)


def _terms(part: Part) -> Keys:
    """What is written below `contract` and `quarantine`."""
    custom = part.custom(*_TERMS)
    version = part.text("version")
    contract = {
        "mode": custom.get("contract"),
        "version": None if custom.get("versionCounted") else version,
        **{key: custom.get(key) for key in ("compatibility", "drift", "previous", "registry")},
    }
    written: Keys = {}
    for key, value in contract.items():
        if value is not None:
            written |= _fitting({"contract": {key: value}}, None, part.warnings).get("contract", {})
    return {"contract": written or None, "quarantine": custom.get("quarantine")}


_Described = list[tuple[str, Part, Part | None]]


def _columns(table: Part, rules: Rules) -> tuple[dict[str, Keys], _Described]:
    """The columns, and for each the part that describes it and the options of its type."""
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


def _column_name(part: Part, columns: Mapping[str, Keys]) -> str | None:
    called, stored = part.text("name") or "", part.text("physicalName")
    name = stored if stored and is_identifier(stored) else called
    if stored and stored != called:
        part.warn("physicalName" if name == called else "name", f"the column is called '{name}'")
    if not is_identifier(name):
        made = re.sub(r"\W+", "_", name).strip("_")
        made = f"_{made}" if made[:1].isdigit() else made
        part.warn("name", f"'{name}' is not a column's name, and became '{made}'")
        name = made
    if name.lower() in {known.lower() for known in columns} or not is_identifier(name):
        part.drop("there is such a column already, or no name for it")
        return None
    return name


def _column(part: Part, options: Part | None) -> Keys:
    type = column_type(part, options)
    custom = part.custom("untyped", "since", "deprecatedBecause", "currency", "timezone")
    classified = part.text("classification")
    part.take("primaryKeyPosition")
    deprecated = part.flag("deprecated")
    tags = [*(part.take("tags") or ()), *([f"classification:{classified}"] if classified else [])]
    found = {
        "type": None if custom.get("untyped") is True else type,
        "required": part.flag("required") or None,
        "key": part.flag("primaryKey") or None,
        "unique": part.flag("unique") or None,
        "tags": _tags(part, tags),
        "description": part.text("description") or part.text("businessName"),
        "since": custom.get("since"),
        "deprecated": custom.get("deprecatedBecause") or ("deprecated" if deprecated else None),
        "currency": custom.get("currency"),
        "timezone": custom.get("timezone"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _tags(part: Part, tags: list[object]) -> list[str] | None:
    fit = []
    for tag in dict.fromkeys(map(str, tags)):
        if problems := problems_of({"tags": [tag]}):
            part.warn("tags", problems[0].what)
        else:
            fit.append(tag)
    return fit or None


def _enumerated(part: Part, column: str, rules: Rules) -> None:
    values = [each.take("value") for each in part.parts("enum")]
    if values:
        rules.put_new(part, f"{column}_known", {"in": {"column": column, "values": values}})


def _bounded(options: Part, column: str, keys: Keys, rules: Rules) -> None:
    """What the options of a type ask of its values."""
    for word, least, most in (("range", "minimum", "maximum"), ("length", "minLength", "maxLength")):
        bounds = {"min": options.take(least), "max": options.take(most)}
        told = {key: value for key, value in bounds.items() if value is not None}
        if word == "length" and told.get("min") == 0:
            del told["min"]
        if told:
            rules.put_new(options, f"{column}_{word}", {word: {"column": column, **told}})
    if pattern := options.text("pattern"):
        rules.put_new(options, f"{column}_pattern", {"pattern": {"column": column, "matches": pattern}})
    for key, sign in (("exclusiveMinimum", ">"), ("exclusiveMaximum", "<")):
        if (bound := options.take(key)) is not None:
            rules.put_new(options, f"{column}_range", {"sql": f"{quoted(column)} {sign} {value_text(bound)}"})
    if (step := options.take("multipleOf")) is not None:
        rules.put_new(options, f"{column}_multiple", {"sql": f"{quoted(column)} % {value_text(step)} = 0"})
    if zone := options.text("defaultTimezone"):
        keys.setdefault("timezone", zone)


def _fitting(keys: Keys, below: str | None, warnings: list[str]) -> Keys:
    """The keys that the loader takes; what it does not take is told."""
    if below is None:
        problems = problems_of(keys)
        warnings += [f"{next(iter(keys))}: {problem.what}" for problem in problems]
        return {} if problems else keys
    taken: dict[str, Keys] = {}
    for name, block in keys.items():
        kept: Keys = {}
        for key, value in block.items():
            problems = problems_of({below: {name: {key: value}}})
            warnings += [f"{name}.{key}: {problem.what}" for problem in problems]
            kept |= {} if problems else {key: value}
        taken[name] = kept
    return {below: taken} if taken else {}
