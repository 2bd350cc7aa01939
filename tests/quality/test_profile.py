from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.quality.check_oracle import broken

from lakesmith.declare import QueryLimits, Table, TableName
from lakesmith.errors import InfrastructureError
from lakesmith.load import load_lake
from lakesmith.query import DuckDB, ProfileInput, profile
from lakesmith.reports import ColumnProfile, TableProfile

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SILVER = TableName("silver", "orders")


def declared(text: str = "", *, header: str = "load: replace") -> Table:
    """Return silver.orders with this text in its header."""
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "lakesmith.yml": "name: shop\n",
            "bronze/raw.yml": "source: {files: raw/*.json}\n",
            "silver/orders.sql": f"/* lakesmith\n{header}\n{text}*/\nSELECT * FROM bronze.raw\n",
        }
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return load_lake(folder).tables[SILVER]


def given_rows(rows: pa.Table, table: Table | None = None) -> ProfileInput:
    return ProfileInput(
        table=table or declared(),
        version=3,
        rows=rows.num_rows,
        open=lambda: pyarrow.dataset.dataset(rows),
    )


def profiled(
    columns: dict[str, Any] | pa.Table,
    *,
    table: Table | None = None,
    limit: int = 1_000_000,
    others: dict[TableName, ProfileInput] | None = None,
    now: datetime = NOW,
) -> TableProfile:
    rows = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return profile(given_rows(rows, table), others or {}, limit=limit, now=now)


def rules(found: TableProfile) -> dict[str, dict[str, object]]:
    """Return the proposed checks by name, without the severity, which is always the same."""
    checks = [each for each in found.proposals if each.kind == "check"]
    assert all(each.rule["on_fail"] == "warn" for each in checks)
    return {each.name: {key: each.rule[key] for key in each.rule if key != "on_fail"} for each in checks}


def column(found: TableProfile, name: str) -> ColumnProfile:
    return next(each for each in found.columns if each.column == name)


def promises(found: TableProfile) -> dict[str, dict[str, object]]:
    return {each.name: each.rule for each in found.proposals if each.kind == "column"}


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_CODES = st.sampled_from(["EUR", "USD", "no", "", "a'b", "${x}", "1.5", "\x00", "null", "ü"])
_KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int32(), st.integers(-5, 5)),
    "double": (pa.float64(), st.floats(allow_nan=True, allow_infinity=True)),
    "float": (pa.float32(), st.floats(width=32)),
    "decimal": (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
    "wide": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "text": (pa.string(), _TEXT),
    "codes": (pa.string(), _CODES),
    "emails": (pa.string(), st.emails()),
    "uuids": (pa.string(), st.uuids().map(str)),
    "digits": (pa.string(), st.from_regex(r"[0-9]{3,6}", fullmatch=True)),
    "days": (pa.date32(), st.dates()),
    "times": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "recent": (
        pa.timestamp("us", "UTC"),
        st.datetimes(datetime(2026, 11, 1), datetime(2026, 11, 15, 12)).map(lambda when: when.replace(tzinfo=UTC)),
    ),
    "local": (pa.timestamp("us"), st.datetimes()),
    "flags": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "lists": (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=2)),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw a few columns of any type, some with names that are special in YAML or SQL."""
    kinds = draw(st.lists(st.sampled_from(sorted(_KINDS)), min_size=1, max_size=4))
    names = draw(
        st.lists(
            st.sampled_from(["order_id", "no", "Größe", "on", "select", "a", "_x", "null", "weird name", "y"]),
            min_size=len(kinds),
            max_size=len(kinds),
            unique_by=str.lower,
        )
    )
    copies = draw(st.sampled_from([1, 1, 40]))
    size = draw(st.integers(0, 12))
    arrays = []
    for kind in kinds:
        arrow, values = _KINDS[kind]
        values = draw(st.sampled_from([values, st.one_of(st.none(), values)]))
        arrays.append(pa.array(draw(st.lists(values, min_size=size, max_size=size)) * copies, arrow))
    return pa.table(arrays, names=names)


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["load: replace", "load: append"]))
def test_proposals_load_and_the_profiled_rows_pass_them(rows: pa.Table, header: str) -> None:
    found = profiled(rows, table=declared(header=header))
    again = declared(found.yaml, header=header)
    assert len(again.checks) == len(rules(found))
    assert broken(again.checks, again.columns, rows, NOW.isoformat()) == []


def test_the_property_detects_rows_that_break_a_proposal() -> None:
    rows = pa.table({"order_id": list(range(200)), "amount": [Decimal(i) for i in range(200)]})
    again = declared(profiled(rows).yaml)
    worse = pa.table({"order_id": [-1, -1, None], "amount": [Decimal(-9), Decimal(900), Decimal(900)]})
    assert broken(again.checks, again.columns, worse, NOW.isoformat()) == [
        "order_id_required",
        "order_id_unique",
        "order_id_range",
        "amount_range",
        "amount_mean",
        "amount_quantile",
        "row_count",
    ]


def test_an_observed_unique_column_is_proposed_as_a_warning() -> None:
    found = profiled({"order_id": pa.array(range(150), pa.int64()), "note": ["x", None] * 75})
    assert promises(found) == {"order_id": {"type": "bigint"}, "note": {"type": "string"}}
    assert rules(found)["order_id_required"] == {"required": ["order_id"]}
    assert rules(found)["order_id_unique"] == {"unique": "order_id"}
    assert column(found, "order_id").unique


def test_a_declared_column_gets_checks_without_duplicate_keys() -> None:
    table = declared("columns:\n  order_id: bigint\n  kind: {type: string, required: true}\n")
    found = profiled({"order_id": list(range(150)), "kind": ["a", "b", "c"] * 50}, table=table)
    assert promises(found) == {}
    assert rules(found)["order_id_required"] == {"required": ["order_id"]}
    assert rules(found)["order_id_unique"] == {"unique": "order_id"}
    assert "kind_required" not in rules(found)


def test_an_existing_check_is_not_proposed_again() -> None:
    text = "checks:\n  small: {range: {column: AMOUNT, max: 9}}\n  amount_mean: {expect: count(*) > 0}\n"
    found = profiled({"amount": list(range(150)) * 2}, table=declared(text))
    assert "range" not in {key for rule in rules(found).values() for key in rule}
    assert "amount_mean_2" in rules(found)


def test_a_key_of_the_load_is_not_proposed_again() -> None:
    table = declared(header="load: {merge: {key: order_id, order_by: at}}")
    found = profiled({"order_id": list(range(150)), "at": list(range(150))}, table=table)
    assert {"order_id_required", "order_id_unique"}.isdisjoint(rules(found))


def test_few_rows_prove_a_key_only_with_a_key_name() -> None:
    found = profiled({"order_id": [1, 2, 3], "city": ["Rome", "Oslo", "Bonn"]})
    assert "order_id_unique" in rules(found)
    assert "city_unique" not in rules(found)


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        (["EUR", "USD"] * 150, ["EUR", "USD"]),
        ([2, 1, None] * 100, [1, 2]),
        (["EUR", "USD"] * 90, None),
        (["EUR"] * 300, None),
        ([f"c{n}" for n in range(21)] * 200, None),
        (["EUR"] * 299 + ["USD"], None),
    ],
    ids=["few words", "few numbers", "too few rows", "one value", "many values", "a rare value"],
)
def test_a_value_list_is_proposed_for_few_frequent_values(values: list[object], listed: list[object] | None) -> None:
    found = rules(profiled({"kind": values})).get("kind_in")
    assert found == (listed and {"in": {"column": "kind", "values": listed}})


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([Decimal("0.99"), Decimal("250.00")], {"min": 0, "max": 400}),
        ([990.5, 1010.25], {"min": 980, "max": 1030}),
        ([-4, 7], {"min": -10, "max": 20}),
        ([0.001, 0.004], {"min": 0, "max": Decimal("0.006")}),
        ([5, 5], None),
        ([1.5, float("nan")], None),
    ],
)
def test_a_range_is_rounded_outwards(values: list[Any], bounds: dict[str, object] | None) -> None:
    found = rules(profiled({"amount": values})).get("amount_range")
    assert found == (bounds and {"range": {"column": "amount", **bounds}})


def test_a_range_of_sequential_numbers_has_no_maximum() -> None:
    assert rules(profiled({"order_id": [17, 18, 19]}))["order_id_range"] == {"range": {"column": "order_id", "min": 1}}


def test_a_range_of_times_has_no_maximum_and_starts_at_a_year() -> None:
    found = rules(profiled({"day": [date(2024, 3, 1), date(2025, 3, 1)]}))
    assert found["day_range"] == {"range": {"column": "day", "min": "2023-01-01"}}


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["a@example.com", "b.c@example.org"], "email"),
        (["9b2e4f7a-0000-4000-8000-000000000001", "9b2e4f7a-0000-4000-8000-00000000000A"], "uuid"),
        (["2026-01-31", "2025-12-01"], "date"),
        (["2026-01-31T10:00:00Z", "2026-01-31 10:00"], "timestamp"),
        (["0017", "12"], "digits"),
        (["10.0.0.1", "255.1.2.3"], "ipv4"),
        (["https://example.org/a?b", "s3://bucket/key"], "url"),
        (["+4930123456", "+12025550123"], "phone"),
        (["12.50", "-0.1"], "decimal"),
        (["d41d8cd98f00b204e9800998ecf8427e"], "md5"),
        (["EUR", "DE"], "upper case"),
        (["AB-1", "X9"], "code"),
        (["a@example.com", "not one"], None),
        (["10.0.0.1", "10.0.0.256"], None),
        (["2026-13-01"], "code"),
        (["digits and\n17", "17"], None),
    ],
)
def test_a_text_pattern_is_reported_when_every_value_matches(values: list[str], form: str | None) -> None:
    found = profiled({"value": values})
    assert column(found, "value").pattern == form
    assert ("value_pattern" in rules(found)) == (form is not None)


def test_a_text_pattern_of_few_examples_is_not_reported() -> None:
    assert column(profiled({"value": ["1", "5", "5", "5", "2x", "9"]}), "value").pattern is None


def test_an_exact_text_length_is_proposed_only_for_many_equal_lengths() -> None:
    many = rules(profiled({"name": [f"{n:04} x" for n in range(150)]}))
    assert many["name_length"] == {"length": {"column": "name", "min": 6, "max": 6}}
    few = rules(profiled({"name": ["Ada L", "Alan ", ""]}))
    assert few["name_length"] == {"length": {"column": "name", "max": 8}}


def test_a_null_rate_gets_a_tolerance() -> None:
    found = rules(profiled({"note": ["x", "y", "z", None]}))
    assert found["note_null_rate"] == {"null_rate": {"column": "note", "max": "39%"}}


@pytest.mark.parametrize("values", [[None, None], [None] * 99 + ["x"]])
def test_a_mostly_null_column_gets_no_null_rate(values: list[str | None]) -> None:
    assert "note_null_rate" not in rules(profiled({"note": pa.array(values, pa.string())}))


def test_a_row_count_is_proposed_only_for_replaced_tables() -> None:
    rows = {"amount": [float(n) for n in range(500)]}
    whole = rules(profiled(rows))
    parts = rules(profiled(rows, table=declared(header="load: append")))
    assert whole["row_count"] == {"row_count": {"min": 200}}
    assert parts["row_count"] == {"row_count": {"min": 1}}
    assert {"amount_mean", "amount_quantile"} <= set(whole)
    assert {"amount_mean", "amount_quantile"}.isdisjoint(parts)


def test_freshness_is_proposed_for_the_newest_time_if_it_is_recent() -> None:
    times = {"at": [NOW - timedelta(hours=5)], "seen": [NOW - timedelta(hours=30)], "later": [NOW + timedelta(days=9)]}
    found = rules(profiled({name: pa.array(values, pa.timestamp("us", "UTC")) for name, values in times.items()}))
    assert found["freshness"] == {"freshness": {"column": "at", "within": "1d"}}
    old = rules(profiled({"at": pa.array([NOW - timedelta(days=8)], pa.timestamp("us", "UTC"))}))
    assert "freshness" not in old


PII = "columns: {email: {type: string, tags: [PII]}, salary: {type: bigint, tags: [pii:money]}}\n"


def test_values_of_a_private_column_are_not_reported() -> None:
    rows = {"email": ["ada@example.com", "ada@example.com", "alan@example.com"] * 50, "salary": [4711, 4812, 4711] * 50}
    found = profiled(rows, table=declared(PII))
    assert "ada@" not in repr(found)
    assert "alan@" not in repr(found)
    assert "4711" not in repr(found)
    assert "4812" not in repr(found)
    email = column(found, "email")
    assert (email.masked, email.pattern, email.shortest, email.longest) == (True, "email", 15, 16)
    assert {"email_pattern", "email_length", "email_required"} <= set(rules(found))


def test_a_large_table_is_sampled_and_the_report_says_so() -> None:
    found = profiled({"order_id": list(range(5_000)), "kind": ["a", "b"] * 2_500}, limit=400)
    assert (found.rows, found.profiled_rows) == (5_000, 400)
    reasons = [each.reason for each in found.proposals if each.kind == "check" and each.name != "row_count"]
    assert reasons
    assert all(reason.endswith(" (in a sample of 400 rows)") for reason in reasons)
    assert rules(found)["kind_in"] == {"in": {"column": "kind", "values": ["a", "b"]}}
    assert int(str(column(found, "order_id").max)) > 3_000


def test_audit_columns_are_omitted() -> None:
    table = declared(header="load: {scd2: {key: order_id, order_by: at}}")
    rows = {
        "order_id": [1],
        "at": [NOW],
        "valid_from": [NOW],
        "valid_to": [NOW],
        "is_current": [True],
        "_run_id": ["x"],
    }
    assert [each.column for each in profiled(rows, table=table).columns] == ["order_id", "at"]


def test_a_table_without_rows_gets_no_proposals() -> None:
    found = profiled({"order_id": pa.array([], pa.int64())})
    assert (found.proposals, found.yaml, found.columns[0].null_rate) == ((), "", 0.0)


def test_a_column_with_an_undeclarable_name_is_shown_without_proposals() -> None:
    found = profiled({"a b": [1, 2, 3], "ok": [1, 2, 3]})
    assert [each.column for each in found.columns] == ["a b", "ok"]
    assert "a b" not in found.yaml


CUSTOMERS = TableName("silver", "customers")


def customers(key: str, rows: dict[str, Any]) -> dict[TableName, ProfileInput]:
    table = declared(header=f"load: {{merge: {{key: {key}, order_by: at}}}}")
    return {CUSTOMERS: given_rows(pa.table(rows), table)}


def test_a_column_named_like_a_key_is_a_reference_if_all_values_exist() -> None:
    rows = {"order_id": [1, 2, 3], "customer_id": [7, 7, None]}
    by_name = profiled(rows, others=customers("customer_id", {"customer_id": [7, 8]}))
    by_table = profiled(rows, others=customers("id", {"id": [7, 8]}))
    assert rules(by_name)["customer_id_references"] == {
        "references": {"columns": ["customer_id"], "table": "silver.customers", "key": ["customer_id"]}
    }
    assert rules(by_table)["customer_id_references"] == {
        "references": {"columns": ["customer_id"], "table": "silver.customers", "key": ["id"]}
    }
    assert declared(by_table.yaml).checks


@pytest.mark.parametrize(
    ("key", "theirs"),
    [("customer_id", {"customer_id": [8]}), ("customer_id", {"customer_id": ["7"]}), ("id", {"id": ["x"]})],
    ids=["a value is missing", "another type", "another type by the table's name"],
)
def test_a_column_with_missing_key_values_is_no_reference(key: str, theirs: dict[str, Any]) -> None:
    found = profiled({"customer_id": [7]}, others=customers(key, theirs))
    assert "customer_id_references" not in rules(found)


def test_a_key_named_id_is_not_referenced_by_every_id() -> None:
    found = profiled({"id": [7]}, others=customers("id", {"id": [7]}))
    assert "id_references" not in rules(found)


def test_too_little_memory_is_an_error_that_proposes_fewer_rows() -> None:
    rows = pa.table({f"c{n}": [f"{m}-{n}" * 20 for m in range(20_000)] for n in range(10)})
    with pytest.raises(InfrastructureError) as raised:
        profile(given_rows(rows), {}, limit=15_000, now=NOW, engine=DuckDB(QueryLimits(memory=4_000_000)))
    assert (raised.value.code, raised.value.hint) == (
        "query-memory",
        "profile fewer rows: `lakesmith profile silver.orders --rows 1500`",
    )
