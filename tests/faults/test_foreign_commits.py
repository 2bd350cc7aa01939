"""Other writers commit between any two commits of a run, clean up logs, and compact files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.foreign import cleaned_by_others, commits_by_others, compacted_by_others, set_commit_info
from tests.marks import chosen_only
from tests.run.lakes import Cut, Written, cut_at, watched

from lakesmith.formats.delta import checksums, commit_results
from lakesmith.jvm.session import isolated
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.ports import TableFolder
from lakesmith.reports import RunReport, Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CHECKED = "columns:\n  id: {type: bigint}\n  amount: {type: int, check: amount >= 0}\n"
LAKE = {
    "lakesmith.yml": "name: shop\n",
    "bronze/clicks.yml": "source: {files: landing/*.json}\n",
    "bronze/paid.yml": (
        f"source: {{files: landing/*.json}}\n{CHECKED}checks:\n  once: {{unique: {{columns: [id], within: table}}}}\n"
    ),
    "bronze/orders.yml": "source: {files: landing/*.json}\n",
    "silver/copy.sql": f"/* lakesmith\nload: append\n{CHECKED}*/\nSELECT id, amount, day FROM bronze.orders\n",
    "silver/orders.sql": (
        f"/* lakesmith\nload: {{merge: {{key: id, order_by: day}}}}\n{CHECKED}*/\n"
        "SELECT id, amount, day FROM bronze.orders\n"
    ),
    "gold/days.sql": (
        "/* lakesmith\nload: {replace_partitions: day}\n*/\n"
        "SELECT day, count(*) AS orders FROM silver.orders GROUP BY day\n"
    ),
    "gold/total.sql": "/* lakesmith\nload: replace\n*/\nSELECT sum(amount) AS amount FROM silver.orders\n",
}
"""Every way to commit a batch: files of readers, checked files, Spark's append, a merge, whole partitions, and a whole
table."""
TABLES = ("bronze.clicks", "bronze.paid", "silver.copy", "silver.orders", "gold.days", "gold.total")
SHOWN = ("bronze.clicks", "bronze.paid", "silver.copy", "silver.orders")
MANY = 25


class Shop(Written):
    """A lake and the folders of its tables."""

    def land_day(self, day: int) -> None:
        """Land a valid row, one with a negative amount, and one with an id of the first day."""
        amounts = {day: 10 * day, 100 + day: -1, 1: day}
        rows: list[dict[str, object]] = [{"id": id, "amount": amount, "day": day} for id, amount in amounts.items()]
        self.land(f"{day}.json", *rows)

    def place(self, table: str, beside: str = "") -> Path:
        warehouse = self.folder / ".lakesmith/warehouse"
        return warehouse / beside / table.replace(".", "/")

    def places(self) -> Iterator[Path]:
        for table in TABLES:
            found = (self.place(table), self.place(table, "quarantine"), self.place(table, "quarantine_decisions"))
            yield from (place for place in found if (place / "_delta_log").is_dir())

    def content(self) -> dict[str, list[str]]:
        """Return the rows of the tables and their quarantines, without audit columns."""
        queries = {
            **{table: f"SELECT id, amount, day FROM {table}" for table in SHOWN},
            "gold.days": "SELECT day, orders FROM gold.days",
            "gold.total": "SELECT amount FROM gold.total",
            **{
                f"quarantine.{table}": f"SELECT raw, rules FROM quarantine.{table.replace('.', '_')}"
                for table in SHOWN[1:]
            },
        }
        return {name: sorted(map(repr, self.rows(sql))) for name, sql in queries.items()}

    def run_until_done(self) -> None:
        """Run until there is nothing to do; no run may fail."""
        for _ in range(4):
            if not self.run():
                return
        raise AssertionError(f"the lake always has work: {self.reports[-1].steps}")


@contextmanager
def others_commit_before_read_back(count: int) -> Iterator[list[str]]:
    """After each commit of a run, let others make this many commits to the table before the run reads it back."""
    seen: list[str] = []

    def beside(folder: TableFolder) -> None:
        seen.append(folder.url)
        commits_by_others(Path(folder.url), count)
        checksums.write_checksums(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_results, "write_checksums", beside)
        yield seen


@pytest.fixture(scope="module")
def days(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A lake after its first day, to be copied, and its expected content after the second day."""
    lake = Shop(tmp_path_factory.mktemp("foreign") / "shop", isolated(shared_spark))
    lake.declare(LAKE)
    lake.land_day(1)
    lake.run()
    after = Shop(shutil.copytree(lake.folder, lake.folder.with_name("after")), lake.spark)
    after.land_day(2)
    after.run_until_done()
    return lake.folder, after.content()


@pytest.fixture
def shop(days: tuple[Path, object], tmp_path: Path, spark: SparkSession) -> Shop:
    return Shop(shutil.copytree(days[0], tmp_path / "shop"), spark)


@pytest.fixture
def expected(days: tuple[Path, dict[str, list[str]]]) -> dict[str, list[str]]:
    return days[1]


def assert_done(report: RunReport) -> None:
    assert not report.errors, report.errors


def test_commits_of_others_between_a_commit_and_its_read_back_are_skipped(
    shop: Shop, expected: dict[str, list[str]]
) -> None:
    shop.land_day(2)
    with others_commit_before_read_back(MANY) as seen:
        shop.run()
    assert {str(shop.place(table)) for table in TABLES} <= set(seen)
    assert str(shop.place("bronze.paid", "quarantine")) in seen
    shop.run_until_done()
    assert shop.content() == expected


@pytest.mark.verify
@pytest.mark.timeout(1200)
def test_every_command_works_beside_commits_of_others(shop: Shop, expected: dict[str, list[str]]) -> None:
    lake, spark = shop.lake(), shop.spark
    shop.land_day(2)
    with others_commit_before_read_back(MANY):
        shop.run_until_done()
        assert {status.state for status in lake.status()} == {"ok"}
        for table in TABLES:
            history = [each for each in lake.history(table, limit=200) if isinstance(each, Version)]
            assert [each.version for each in history] == list(range(len(history) - 1, -1, -1))
            assert len(history) > MANY
            assert sum(each.run_id is not None for each in history) <= 5
        # Commits after the rollback may have changed rows.
        report = lake.rollback(lake.releases()[-1].release, session=spark)
        assert {error.code for error in report.errors} == {"rollback-conflict"}
    assert_done(lake.rollback(lake.releases()[-1].release, session=spark))
    assert shop.rows("SELECT DISTINCT day FROM bronze.orders") == [(1,)]
    with others_commit_before_read_back(MANY):
        shop.run_until_done()
        assert shop.content() == expected
        assert_done(lake.compact(session=spark))
        assert_done(lake.vacuum(older_than=0.0, force=True, session=spark))
        shop.run(full_refresh=True)
        shop.run_until_done()
        assert shop.content() == expected
        before = shop.version("silver.orders")
        assert before is not None
        shop.land_day(3)
        shop.run_until_done()
        after = shop.content()
        assert_done(lake.restore("silver.orders", before, session=spark))
        assert shop.content()["silver.orders"] == expected["silver.orders"]
        shop.run_until_done()
        assert shop.content() == after
        rules = [str(rule) for (rule,) in shop.rows("SELECT DISTINCT unnest(rules) FROM quarantine.bronze_paid")]
        rule = next(rule for rule in rules if "amount" in rule)
        assert_done(lake.replay("bronze.paid", QuarantineFilter(rule=rule), set={"amount": "1"}, session=spark))
        assert_done(lake.discard("silver.copy", QuarantineFilter(), why="not needed", session=spark))
        shop.run_until_done()
    assert shop.rows("SELECT count(*) FROM quarantine_decisions.bronze_paid") == [(3,)]
    assert shop.rows("SELECT count(*) FROM bronze.paid") == [(6,)]
    assert shop.rows("SELECT count(*) FROM quarantine_decisions.silver_copy") == [(3,)]


@pytest.mark.verify
@pytest.mark.parametrize("place", ["table.committed", "batch.finishing"])
def test_a_run_killed_after_a_commit_is_completed_after_commits_of_others(
    shop: Shop, expected: dict[str, list[str]], place: str
) -> None:
    shop.land_day(2)
    left = set(TABLES)

    def cut(reached: str, about: str) -> None:
        if reached == place and about in left:
            left.remove(about)
            raise Cut

    with watched(cut):
        while left:
            with pytest.raises(Cut):
                shop.run()
            for table in shop.places():
                commits_by_others(table, MANY)
        shop.run_until_done()
    assert shop.content() == expected


MOVES = {
    "cleaned": (cleaned_by_others,),
    "compacted": (compacted_by_others,),
    "compacted and cleaned": (compacted_by_others, cleaned_by_others),
}


@pytest.mark.parametrize("moved", chosen_only(MOVES, "compacted and cleaned"))
def test_an_interrupted_batch_is_completed_after_others_deleted_its_commit_or_files(
    shop: Shop, expected: dict[str, list[str]], moved: str
) -> None:
    moves: tuple[Callable[[Path], None], ...] = MOVES[moved]
    shop.land_day(2)
    shop.run("bronze.orders")
    for table in ("bronze.clicks", "bronze.paid", "silver.orders"):
        with cut_at("table.committed", table), pytest.raises(Cut):
            shop.run(table)
        commits_by_others(shop.place(table), MANY)
        for move in moves:
            move(shop.place(table))
        shop.run(table)
    # The changes of silver are no longer in its log or its files: follow the hint of the error.
    shop.run(ok=False)
    [error] = shop.reports[-1].errors
    code = "source-gap" if cleaned_by_others in moves else "source-vacuumed"
    assert (error.code, error.table) == (code, "gold.days")
    shop.run("gold.days", full_refresh=True)
    shop.run_until_done()
    assert shop.content() == expected
    [written] = shop.rows("SELECT sum(rows_written) FROM system.files WHERE \"table\" = 'bronze.clicks'")
    assert written == (5,)


def test_tables_without_commit_info_can_be_run(shop: Shop, expected: dict[str, list[str]]) -> None:
    for table in shop.places():
        for commit in (table / "_delta_log").glob("*.json"):
            set_commit_info(table, int(commit.stem), None)
    shop.land_day(2)
    shop.run_until_done()
    assert shop.content() == expected
    for table in shop.places():
        commits_by_others(table, 1)
        newest = max(int(commit.stem) for commit in (table / "_delta_log").glob("*.json"))
        set_commit_info(table, newest, None)
    shop.run_until_done()
    assert shop.content() == expected
