"""The selection of tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.lakes import bronze, by_name, made, named

from lakesmith.errors import UsageError
from lakesmith.plan.graph import Graph
from lakesmith.plan.select import select

TABLES = by_name(
    bronze("orders", owner="sales", tags=("raw",)),
    bronze("customers", tags=("raw", "pii")),
    made("silver.orders", "SELECT id FROM bronze.orders", owner="sales"),
    made("silver.customers", "SELECT id FROM bronze.customers", tags=("pii",)),
    made("gold.sales", "SELECT 1 AS a FROM silver.orders o JOIN silver.customers c ON o.id = c.id"),
    made("gold.top", "SELECT a FROM gold.sales"),
)
GRAPH = Graph.of(TABLES)


def chosen(*selectors: str, exclude: tuple[str, ...] = ()) -> set[str]:
    return {str(name) for name in select(GRAPH, TABLES, selectors, exclude)}


ALL = {str(name) for name in TABLES}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("orders", {"bronze.orders", "silver.orders"}),
        ("silver.orders", {"silver.orders"}),
        ("silver.*", {"silver.orders", "silver.customers"}),
        ("*.orders", {"bronze.orders", "silver.orders"}),
        ("cust*", {"bronze.customers", "silver.customers"}),
        ("+silver.orders", {"bronze.orders", "silver.orders"}),
        ("silver.orders+", {"silver.orders", "gold.sales", "gold.top"}),
        ("silver.orders+1", {"silver.orders", "gold.sales"}),
        ("1+gold.sales", {"silver.orders", "silver.customers", "gold.sales"}),
        ("1+gold.sales+1", {"silver.orders", "silver.customers", "gold.sales", "gold.top"}),
        ("2+gold.sales", ALL - {"gold.top"}),
        ("@silver.orders", ALL),
        ("@gold.top", ALL),
        ("tag:raw", {"bronze.orders", "bronze.customers"}),
        ("tag:pii+1", {"bronze.customers", "silver.customers", "gold.sales"}),
        ("layer:silver", {"silver.orders", "silver.customers"}),
        ("owner:sales", {"bronze.orders", "silver.orders"}),
        ("path:gold", {"gold.sales", "gold.top"}),
        ("path:silver/orders.sql", {"silver.orders"}),
        ("path:silver/*.sql", {"silver.orders", "silver.customers"}),
        ("gold.top silver.orders", {"gold.top", "silver.orders"}),
        ("tag:pii,layer:silver", {"silver.customers"}),
        ("+gold.sales,orders gold.top", {"bronze.orders", "silver.orders", "gold.top"}),
    ],
)
def test_a_selector_matches(selector: str, expected: set[str]) -> None:
    assert chosen(selector) == expected


def test_no_selector_means_all_tables() -> None:
    assert chosen() == ALL


def test_several_selectors_are_a_union() -> None:
    assert chosen("gold.top", "layer:silver") == {"gold.top", "silver.orders", "silver.customers"}


def test_exclude_has_the_same_grammar() -> None:
    assert chosen(exclude=("bronze.* gold.sales+",)) == {"silver.orders", "silver.customers"}


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("silver.order", "did you mean 'silver.orders'?"),
        ("oders", "did you mean 'orders'?"),
        ("tag:pi", "did you mean 'pii'?  tags: pii, raw"),
        ("layer:sliver", "did you mean 'silver'?  layers: bronze, gold, silver"),
        ("owner:marketing", "owners: sales"),
        ("path:slver", "files: "),
        ("orders,customers", "a comma means and, a space means or"),
        ("orders nothing", "tables: "),
    ],
)
def test_a_selector_that_matches_nothing_is_an_error(selector: str, hint: str) -> None:
    for selectors, exclude in (((selector,), ()), ((), (selector,))):
        with pytest.raises(UsageError) as caught:
            select(GRAPH, TABLES, selectors, exclude)
        assert caught.value.code == "no-match"
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "selector", ["", "  ", "+", "a,,b", "@+orders", "@orders+", "a++", "+-", "tag:", "colour:red", "a:b:c"]
)
def test_an_invalid_selector_is_an_error(selector: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(selector)
    assert caught.value.code in ("bad-selector", "no-match")
    assert (caught.value.code == "no-match") == (selector == "+-")


def test_excluding_all_that_was_selected_is_an_error() -> None:
    with pytest.raises(UsageError, match="selected tables are excluded"):
        chosen("orders", exclude=("orders",))


names = st.sampled_from(sorted(ALL))
depths = st.integers(0, 4)


@given(names)
def test_plus_only_ever_adds(name: str) -> None:
    assert {name} <= chosen(f"+{name}") <= chosen(f"@{name}")
    assert {name} <= chosen(f"{name}+") <= chosen(f"@{name}")
    assert chosen(f"+{name}+") == chosen(f"+{name}") | chosen(f"{name}+")


@given(names, depths)
def test_a_greater_depth_reaches_at_least_as_far(name: str, depth: int) -> None:
    assert chosen(f"{depth}+{name}") <= chosen(f"{depth + 1}+{name}") <= chosen(f"+{name}")
    assert chosen(f"{name}+{depth}") <= chosen(f"{name}+{depth + 1}") <= chosen(f"{name}+")


@given(names, names)
def test_upstream_and_downstream_selection_are_symmetric(one: str, other: str) -> None:
    assert (one in chosen(f"+{other}")) == (other in chosen(f"{one}+"))


@given(names, names)
def test_a_space_is_a_union_and_a_comma_an_intersection(one: str, other: str) -> None:
    assert chosen(f"+{one} +{other}") == chosen(f"+{one}") | chosen(f"+{other}")
    both = chosen(f"+{one}") & chosen(f"+{other}")
    if both:
        assert chosen(f"+{one},+{other}") == both
    else:
        with pytest.raises(UsageError):
            chosen(f"+{one},+{other}")


@given(names)
def test_selected_and_excluded_tables_are_all_tables(name: str) -> None:
    if chosen(f"+{name}") != ALL:
        assert chosen(exclude=(f"+{name}",)) == ALL - chosen(f"+{name}")


def test_selected_names_are_table_names() -> None:
    assert select(GRAPH, TABLES, ["gold.top"], []) == {named("gold.top")}
