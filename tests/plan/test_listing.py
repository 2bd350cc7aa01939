"""The start of listings of a landing zone whose file names are ordered."""

from __future__ import annotations

from dataclasses import replace

from tests.plan.lakes import bronze, facts, lake, named

from lakesmith.declare import Files, Table
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.graph import Graph
from lakesmith.plan.listing import bookmark_after, next_listing
from lakesmith.plan.planner import make_plan
from lakesmith.plan.steps import Ingest, LakeFacts, Listing, ListingBookmark, Plan, Progress
from lakesmith.ports import FileFact

GLOB = "/landing/*.json"
TODAY = "2026-01-02"


def seen(upto: str, *, day: str = TODAY, pattern: str = GLOB, greatest: str | None = None) -> ListingBookmark:
    return ListingBookmark(pattern=pattern, day=day, upto=upto, greatest=greatest or upto)


def listing(after: str | None) -> Listing:
    return Listing(pattern=GLOB, day=TODAY, after=after)


def file(name: str) -> FileFact:
    return FileFact(name, 1, 1)


def files(*names: str) -> tuple[FileFact, ...]:
    return tuple(file(name) for name in names)


def progress(of: ListingBookmark | None) -> Progress:
    return Progress(head=1, seen=of, ingested={"a": file("a")})


def ordered(max_files: int | None = None) -> Table:
    source = Files(files="landing/orders/*.json", format="json", listing="ordered", max_files=max_files)
    return bronze("orders", origin=source)


def planned(found: tuple[FileFact, ...], of: Listing, max_files: int | None = None) -> Plan:
    name = named("bronze.orders")
    declared = lake(ordered(max_files))
    known = LakeFacts(
        tables={name: facts()}, progress={name: Progress(head=1)}, landing={name: found}, listings={name: of}
    )
    return make_plan(declared, Graph.of(declared.tables), known, selected=frozenset([name]))


def test_a_listing_on_the_day_of_a_full_one_continues_after_the_bookmark() -> None:
    assert next_listing(seen("b"), GLOB, TODAY) == listing("b")


def test_a_full_listing_is_needed_before_the_first_batch_on_another_day_and_for_another_glob() -> None:
    assert next_listing(None, GLOB, TODAY) == listing(None)
    assert next_listing(seen("b", day="2026-01-01"), GLOB, TODAY) == listing(None)
    assert next_listing(seen("b", day="2026-01-03"), GLOB, TODAY) == listing(None)  # a clock was set back
    assert next_listing(seen("b", pattern="/landing/**"), GLOB, TODAY) == listing(None)


def test_later_files_move_the_bookmark() -> None:
    assert bookmark_after(listing("b"), files("c", "d"), progress(seen("b"))) == seen("d")


def test_a_batch_after_a_postponed_one_does_not_move_the_bookmark() -> None:
    # `c` between them could not be read.
    assert bookmark_after(listing("c"), files("d"), progress(seen("b"))) == seen("b", greatest="d")


def test_a_full_listing_with_a_postponed_first_batch_does_not_count() -> None:
    yesterday = seen("m", day="2026-01-01")
    # The late `a` could not be read; `c` is late too.
    assert bookmark_after(listing("a"), files("c"), progress(yesterday)) == yesterday
    assert bookmark_after(listing("a"), files("c"), progress(None)) is None


def test_a_bookmark_of_another_glob_or_day_is_not_moved() -> None:
    for other in (seen("c", pattern="/elsewhere/*.json"), seen("c", day="2026-01-01")):
        assert bookmark_after(listing("c"), files("d"), progress(other)) == replace(other, greatest="d")


def test_a_full_listing_with_late_files_restarts_the_bookmark() -> None:
    yesterday = seen("m", day="2026-01-01")
    now = bookmark_after(listing(None), files("c"), progress(yesterday))
    assert now == seen("c", greatest="m")
    assert next_listing(now, GLOB, TODAY).after == "c"  # so the late `d` is found, if the run ends here
    assert bookmark_after(listing("c"), files("d", "n"), progress(now)) == seen("n")


def test_a_slower_concurrent_run_does_not_move_the_bookmark_back() -> None:
    assert bookmark_after(listing("b"), files("c"), progress(seen("e"))) == seen("e")


def test_a_table_rolled_back_after_the_listing_keeps_its_bookmark() -> None:
    assert bookmark_after(listing("e"), files("f"), progress(seen("b"))) == seen("b", greatest="f")


def test_a_table_listed_in_full_before_has_the_greatest_name_as_bookmark() -> None:
    before = Progress(head=1, ingested={name: file(name) for name in ("x", "b")})
    assert bookmark_after(listing(None), files("c"), before) == seen("c", greatest="x")


def test_the_order_of_files_is_not_part_of_the_definition() -> None:
    assert definition(ordered()) == definition(bronze("orders"))


def test_batches_are_split_by_name_and_each_has_the_previous_file() -> None:
    steps = list(planned(files("d", "b", "c", "e", "f"), listing("a"), max_files=2).steps)
    assert [step.listing for step in steps if isinstance(step, Ingest)] == [listing("a"), listing("c"), listing("e")]
    full = list(planned(files("b", "c"), listing(None), max_files=1).steps)
    assert [step.listing for step in full if isinstance(step, Ingest)] == [listing(None), listing("b")]


def test_a_plan_has_the_start_of_its_listing() -> None:
    (table,) = planned((), listing("a")).tables
    assert table.reason == "nothing new after a"
    (table,) = planned((), listing(None)).tables
    assert table.reason == "nothing new"


def test_the_hash_of_a_plan_is_equal_for_equal_listings() -> None:
    one, same = planned(files("b"), listing("a")), planned(files("b"), replace(listing("a")))
    assert one.hash == same.hash
