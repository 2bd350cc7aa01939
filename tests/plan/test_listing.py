"""Where looks at a landing zone begin whose files come in the order of their names."""

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


def test_everything_is_looked_at_before_the_first_batch_on_another_day_and_under_another_glob() -> None:
    assert next_listing(None, GLOB, TODAY) == listing(None)
    assert next_listing(seen("b", day="2026-01-01"), GLOB, TODAY) == listing(None)
    assert next_listing(seen("b", day="2026-01-03"), GLOB, TODAY) == listing(None)  # a clock was put back
    assert next_listing(seen("b", pattern="/landing/**"), GLOB, TODAY) == listing(None)


def test_files_that_follow_move_the_table_on() -> None:
    assert bookmark_after(listing("b"), files("c", "d"), progress(seen("b"))) == seen("d")


def test_a_batch_behind_one_that_was_put_off_does_not_move_the_table_on() -> None:
    # `c` could not be read, and was to come between.
    assert bookmark_after(listing("c"), files("d"), progress(seen("b"))) == seen("b", greatest="d")


def test_a_batch_of_a_full_look_whose_first_was_put_off_does_not_count_as_a_full_look() -> None:
    yesterday = seen("m", day="2026-01-01")
    # The late `a` could not be read; `c` is late too.
    assert bookmark_after(listing("a"), files("c"), progress(yesterday)) == yesterday
    assert bookmark_after(listing("a"), files("c"), progress(None)) is None


def test_what_is_known_of_another_glob_or_day_is_not_moved_on() -> None:
    for other in (seen("c", pattern="/elsewhere/*.json"), seen("c", day="2026-01-01")):
        assert bookmark_after(listing("c"), files("d"), progress(other)) == replace(other, greatest="d")


def test_a_full_listing_that_finds_late_files_restarts_the_bookmark_so_that_later_files_are_found() -> None:
    yesterday = seen("m", day="2026-01-01")
    now = bookmark_after(listing(None), files("c"), progress(yesterday))
    assert now == seen("c", greatest="m")
    assert next_listing(now, GLOB, TODAY).after == "c"  # so the late `d` is found, if the run ends here
    assert bookmark_after(listing("c"), files("d", "n"), progress(now)) == seen("n")


def test_a_run_that_comes_after_a_faster_one_does_not_take_the_table_back() -> None:
    assert bookmark_after(listing("b"), files("c"), progress(seen("e"))) == seen("e")


def test_a_table_that_was_rolled_back_since_the_look_stays_where_it_is() -> None:
    assert bookmark_after(listing("e"), files("f"), progress(seen("b"))) == seen("b", greatest="f")


def test_a_table_whose_files_came_in_any_order_before_knows_its_greatest_name() -> None:
    before = Progress(head=1, ingested={name: file(name) for name in ("x", "b")})
    assert bookmark_after(listing(None), files("c"), before) == seen("c", greatest="x")


def test_the_order_of_files_is_no_part_of_a_table_s_definition() -> None:
    assert definition(ordered()) == definition(bronze("orders"))


def test_batches_are_split_in_the_order_of_names_and_each_names_the_file_before_it() -> None:
    steps = list(planned(files("d", "b", "c", "e", "f"), listing("a"), max_files=2).steps)
    assert [step.listing for step in steps if isinstance(step, Ingest)] == [listing("a"), listing("c"), listing("e")]
    full = list(planned(files("b", "c"), listing(None), max_files=1).steps)
    assert [step.listing for step in full if isinstance(step, Ingest)] == [listing(None), listing("b")]


def test_a_plan_tells_from_where_on_nothing_is_new() -> None:
    (table,) = planned((), listing("a")).tables
    assert table.reason == "nothing new after a"
    (table,) = planned((), listing(None)).tables
    assert table.reason == "nothing new"


def test_the_hash_of_a_plan_is_the_same_for_the_same_look() -> None:
    one, same = planned(files("b"), listing("a")), planned(files("b"), replace(listing("a")))
    assert one.hash == same.hash
