"""Errors of Spark and Delta, translated for users. No JVM."""

from __future__ import annotations

import errno

import pytest
from pyspark.errors import PySparkException
from tests.plan.lakes import made

from lakesmith.errors import DataError
from lakesmith.run.failures import first_lines, translate

GONE = "[FAILED_READ_FILE.FILE_NOT_EXIST] File file:/lake/warehouse/silver/orders/{} does not exist."


@pytest.mark.parametrize(
    "path",
    [
        "part-0.parquet",
        "_change_data/part-0.parquet",
        "day=2026-01-01/part-0.parquet",
        "batch-00000012-0123abcd/part-0.parquet",
    ],
)
def test_a_missing_file_of_an_input_names_the_input(path: str) -> None:
    error = translate(PySparkException(GONE.format(path)), made("gold.sales", "SELECT 1 FROM silver.orders"))
    assert error.code == "source-vacuumed"
    assert "silver.orders has lost part-0.parquet" in error.what
    assert error.hint
    assert "lakesmith run gold.sales --full-refresh" in error.hint


def test_a_cleaned_log_is_a_gap_with_a_next_step() -> None:
    said = PySparkException("[DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (0, 4) are not contiguous.")
    error = translate(said, made("gold.sales", "SELECT 1 FROM silver.orders"))
    assert isinstance(error, DataError)
    assert error.code == "source-gap"
    assert error.hint
    assert "--full-refresh" in error.hint


def test_an_error_of_a_load_has_the_place_of_its_declaration() -> None:
    table = made("gold.sales", "SELECT 1 FROM silver.orders")
    assert translate(DataError("key-twice", "two rows"), table).at == (table.load_at or table.declared_at)


def test_an_internal_error_is_raised_unchanged() -> None:
    with pytest.raises(KeyError):
        translate(KeyError("x"), made("gold.sales", "SELECT 1 FROM silver.orders"))


@pytest.mark.parametrize(
    "value",
    ["No space left on device", "Input/output error", "MemoryError", "ConcurrentAppend", "FileNotFoundException"],
)
def test_a_value_that_looks_like_another_failure_is_a_row_error(value: str) -> None:
    said = PySparkException(f"[CAST_INVALID_INPUT] The value '{value}' of the type STRING cannot be cast to INT.")
    assert translate(said, made("gold.sales", "SELECT 1 FROM silver.orders")).code == "query-raised"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Traceback (most recent call last):\nMemoryError", "worker-died"),
        ("pyarrow.lib.ArrowMemoryError: malloc of size 64 failed", "worker-died"),
        ("Python worker exited unexpectedly (crashed)", "worker-died"),
        ("java.lang.OutOfMemoryError: Java heap space", "jvm-out-of-memory"),
        ("java.io.IOException: No space left on device", "disk-full"),
    ],
)
def test_out_of_memory_of_java_and_python_is_distinguished(said: str, code: str) -> None:
    assert translate(PySparkException(said), made("gold.sales", "SELECT 1 FROM silver.orders")).code == code


def test_the_error_of_a_python_worker_is_shown_without_its_stack() -> None:
    said = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n    import x\n'
        "ModuleNotFoundError: No module named 'fastavro'\n\n\tat org.apache.spark.api.python\n"
    )
    error = translate(PySparkException(said), made("gold.sales", "SELECT 1 FROM silver.orders"))
    assert error.code == "worker-python"
    assert error.what.endswith("function: ModuleNotFoundError: No module named 'fastavro'")


@pytest.mark.parametrize(
    "cause",
    [
        "org.apache.spark.SparkException: {}",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most "
        "recent failure: Lost task 0.0 in stage 3.0 (TID 7) (host executor driver): a.b.SparkException: {}",
    ],
)
def test_the_cause_of_a_failed_call_of_java_is_shown_without_its_wrappers(cause: str) -> None:
    message = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///w/part-1.parquet."
    text = (
        "An error occurred while calling o184.getResult.\n: org.apache.spark.SparkException: Exception thrown in "
        f"awaitResult: \n\tat a.b(C.java:1)\nCaused by: {cause.format(message)}\n\tat d.e(F.java:2)\n"
        "Caused by: java.io.IOException: Input/output error\n\t... 3 more\n"
    )
    assert first_lines(text) == message


def test_a_path_that_looks_like_a_row_error_is_a_disk_error() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/lake/CAST_OVERFLOW.parquet")
    assert translate(error, made("gold.sales", "SELECT 1 FROM silver.orders")).code == "disk-full"


@pytest.mark.parametrize(
    "said",
    [
        "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/a lake/_delta_log/1.json at 512 exp: 1 got: 2",
        "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/a lake/_delta_log/1.json at 1024",
        "Checksum file not a length multiple of checksum size in file:/a lake/_delta_log/1.json at 0 checksumpos: 8",
    ],
)
def test_a_file_with_a_wrong_checksum_is_named_for_every_message_of_hadoop(said: str) -> None:
    error = translate(PySparkException(f"Job aborted.\n{said}\n\tat java"), made("gold.sales", "SELECT 1 FROM a.b"))
    assert error.code == "table-unreadable"
    assert "/a lake/_delta_log/1.json is corrupt" in error.what
