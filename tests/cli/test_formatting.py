import pytest

from lakesmith.cli import formatting


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1234, "1.2 kB"),
        (123456, "123 kB"),
        (999_999, "1.0 MB"),
        (5_000_000_000, "5.0 GB"),
        (7_000_000_000_000_000, "7,000.0 TB"),
    ],
)
def test_sizes_have_the_unit_that_fits(number: int | None, text: str) -> None:
    assert formatting.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "never"),
        (3, "just now"),
        (42, "42 s ago"),
        (180, "3 min ago"),
        (7200, "2 h ago"),
        (3 * 86400, "3 days ago"),
    ],
)
def test_ages_are_rounded(seconds: float | None, text: str) -> None:
    assert formatting.age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (12.34, "12.3 s"), (300, "5 min"), (9000, "2.5 h"), (400000, "5 days")],
)
def test_durations_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


def test_nouns_are_singular_or_plural() -> None:
    assert (formatting.plural(1, "row"), formatting.plural(1234, "row")) == ("1 row", "1,234 rows")
