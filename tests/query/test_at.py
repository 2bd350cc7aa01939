from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakesmith.errors import UsageError
from lakesmith.query import At, parse_at


def test_the_default_is_the_newest_version() -> None:
    assert parse_at([]).of("silver.orders") is None


def test_a_number_is_a_version_of_every_table() -> None:
    assert parse_at(["3"]).of("silver.orders") == 3


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert parse_at(["2026-11-15T10:00"]).of("gold.sales") == datetime(2026, 11, 15, 10, tzinfo=UTC)


def test_a_time_with_a_zone_is_converted_to_utc() -> None:
    moment = parse_at(["2026-11-15T10:00+02:00"]).of("gold.sales")
    assert isinstance(moment, datetime)
    assert moment == datetime(2026, 11, 15, 10, tzinfo=timezone(timedelta(hours=2)))
    assert moment.tzinfo is UTC


def test_a_date_is_its_first_moment() -> None:
    assert parse_at(["2026-11-15"]).of("gold.sales") == datetime(2026, 11, 15, tzinfo=UTC)


def test_a_date_without_dashes_is_rejected() -> None:
    assert parse_at(["20261115"]).of("gold.sales") == datetime(2026, 11, 15, tzinfo=UTC)


def test_one_table_can_have_its_own_version() -> None:
    at = parse_at(["7", "silver.orders=3", "bronze.orders=2026-11-15T10:00"])
    assert at.of("silver.orders") == 3
    assert at.of("bronze.orders") == datetime(2026, 11, 15, 10, tzinfo=UTC)
    assert at.of("gold.sales") == 7


@pytest.mark.parametrize(
    "values",
    [
        ["yesterday"],
        ["-1"],
        [""],
        ["silver.orders="],
        ["silver.orders=x"],
        ["orders=3"],
        ["=3"],
        ["1", "2"],
        ["silver.orders=1", "SILVER.orders=2"],
        ["2026-13-01"],
        ["٣"],
    ],
)
def test_a_text_that_is_neither_version_nor_time_is_rejected(values: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        parse_at(values)
    assert raised.value.code == "bad-at"
    assert raised.value.hint


def test_a_table_that_the_query_does_not_read_is_rejected() -> None:
    at = At(by_table={"silver.oders": 3})
    with pytest.raises(UsageError) as raised:
        at.check({"silver.orders"})
    assert raised.value.code == "bad-at"
    assert "silver.oders, which the query does not read" in raised.value.what
    assert raised.value.hint == "the query reads silver.orders"


def test_a_table_that_the_query_reads_is_accepted() -> None:
    At(by_table={"silver.orders": 3}).check({"silver.orders", "silver.customers"})
