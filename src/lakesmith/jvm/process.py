"""The JVM behind a session: how it is launched, whether it has ended, and why."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesmith.errors import InfrastructureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_EXIT_TIMEOUT = 10.0
"""Seconds to wait for the exit status of a JVM that has closed its connections."""
_OUT_OF_MEMORY = (52, 3)
"""Exit statuses after java.lang.OutOfMemoryError: Spark's own, and that of -XX:+ExitOnOutOfMemoryError."""
_ENDING = ("SparkContext was shut down", "stopped SparkContext", "OutOfMemoryError")
"""Messages of Spark while its JVM exits by itself, such as after a task ran out of memory."""
_MEMORY = "raise spark.driver.memory in the `spark` settings of the environment, or lower `jobs`"
_KILLED = (
    "the kernel kills processes when memory runs out, and `dmesg` names them: give the machine or container more "
    "memory, or lower spark.driver.memory or `jobs`"
)
_SAFE = "nothing is lost or duplicated: run again"


class JvmDied(InfrastructureError):
    """Spark's JVM, or the Spark in it, has ended."""


def spark_errors() -> tuple[type[Exception], ...]:
    """The classes of Spark's errors. A mere client of Spark Connect has no Py4J."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JError


def out_of_memory(message: str, table: str) -> InfrastructureError:
    """The error for a JVM that ran out of memory and still runs."""
    what = f"Spark's JVM ran out of memory: {message}"
    return InfrastructureError("jvm-out-of-memory", what, table=table, hint=f"{_MEMORY}; {_SAFE}")


def death(error: BaseException | None = None) -> JvmDied | None:
    """The error for a JVM that has ended, or None while it runs.

    `error` is the last exception. If it means a lost connection, wait for the JVM's exit status: the connections of a
    process close before it ends.
    """
    gateway = _gateway()
    if gateway is None:
        return None
    timeout = _EXIT_TIMEOUT if error is not None and _is_lost(error) else 0.0
    if gateway.proc is None:
        return _died("ended", _SAFE) if _refuses_connections(gateway, timeout) else None
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    # Python also reports 0 for a process that is not its child, as in a fork of the process that started it.
    return _diagnosis(process.pid, status) if status or _refuses_connections(gateway, timeout) else None


def stopped() -> JvmDied | None:
    """The error for a running JVM whose Spark was stopped, as Spark stops itself after a fatal error."""
    gateway = _gateway()
    context: Any = gateway and sys.modules["pyspark"].SparkContext._active_spark_context
    if not context or (context._jsc is not None and not context._jsc.sc().isStopped()):
        return None
    hint = f"if no one stopped it, its JVM ran out of memory: {_MEMORY}; {_SAFE}"
    return JvmDied("spark-stopped", "Spark was stopped before the run ended", hint=hint)


def forget_dead() -> None:
    """Make PySpark forget a JVM that has ended. Otherwise it would return the dead session forever."""
    if death() is None:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    context: Any = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None  # without it, `stop` only ends what runs in this process
        context.stop()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = SQLContext._instantiatedContext = None


def stop(session: SparkSession) -> None:
    """Stop Spark. Never raises: the work of the session is done, or has failed with its own error."""
    try:
        with warnings.catch_warnings():
            # PySpark warns when a JVM ends while it is stopped.
            warnings.simplefilter("ignore", RuntimeWarning)
            if death() is None:
                session.stop()
    except Exception as error:  # noqa: BLE001 (each layer of PySpark raises its own errors, and none changes the result)
        if death(error) is None:
            _log.warning("Spark did not stop: %s: %s", type(error).__name__, error)
    forget_dead()


def end_jvm(session: SparkSession) -> None:
    """Stop Spark and wait until its JVM has ended: it does when its input is closed."""
    gateway = _gateway()
    assert gateway is not None
    session.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def launch(settings: Mapping[str, str], *, umask: int, keep_open: int) -> None:
    """Start the JVM if there is none, with a umask and a file descriptor that it inherits.

    Its standard output goes to standard error: Delta prints messages of a vacuum there, and the standard output of
    this process is for results.
    """
    from pyspark import SparkContext, java_gateway

    if SparkContext._gateway is None:
        start: Any = java_gateway.launch_gateway
        with _properties(settings):
            SparkContext._ensure_initialized(
                gateway=start(None, {"stdout": 2, "umask": umask, "pass_fds": [keep_open]})
            )


def silence_lost_connections(session: SparkSession) -> None:
    """Suppress the traceback that Py4J and PySpark print for each connection to a dead JVM."""
    logging.getLogger().addFilter(_is_not_of_py4j)
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None and "handle_error" not in vars(server):
        report = server.handle_error

        def handle_error(request: object, address: object) -> None:
            if not isinstance(sys.exception(), EOFError | ConnectionError):
                report(request, address)

        server.handle_error = handle_error


def _gateway() -> Any:
    """PySpark's connection to the JVM, or None."""
    pyspark = sys.modules.get("pyspark")
    # The package of a mere client of Spark Connect has no SparkContext.
    context: Any = getattr(pyspark, "SparkContext", None)
    return context._gateway if context is not None else None


def _is_lost(error: BaseException) -> bool:
    """Whether an error comes from a dead JVM: a lost connection, or a Spark that stopped itself."""
    from py4j.protocol import Py4JError, Py4JJavaError

    each: BaseException | None = error
    while each is not None:
        if isinstance(each, ConnectionError | EOFError):
            return True
        if isinstance(each, Py4JError) and not isinstance(each, Py4JJavaError):
            return True
        try:
            text = str(each)
        except Exception:  # noqa: BLE001 (the text of a Java exception comes from the JVM, which does not answer)
            return True
        if any(message in text for message in _ENDING):
            return True
        each = each.__cause__ or each.__context__
    return False


def _refuses_connections(gateway: Any, timeout: float) -> bool:
    """Whether a JVM that another process started no longer accepts connections."""
    parameters = gateway.gateway_parameters
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((parameters.address, parameters.port), timeout=1).close()
        except ConnectionError:
            return True
        except OSError:  # too busy to answer is not dead
            return False
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)


def _diagnosis(process: int, status: int) -> JvmDied:
    if status in _OUT_OF_MEMORY:
        return _died(f"ran out of memory (exit status {status})", f"{_MEMORY}; {_SAFE}")
    if status == -signal.SIGKILL:
        return _died("was killed (SIGKILL)", f"{_KILLED}; {_SAFE}")
    if status in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS):
        hint = f"Java's report is hs_err_pid{process}.log in {os.getcwd()}; {_SAFE}"
        return _died(f"crashed ({signal.Signals(-status).name})", hint)
    if status < 0:
        return _died(f"was terminated by {signal.Signals(-status).name}", _SAFE)
    return _died(f"exited with status {status}", f"its last messages are above; {_SAFE}")


def _died(how: str, hint: str) -> JvmDied:
    return JvmDied("jvm-died", f"Spark's JVM {how}", hint=hint)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return not (record.name == "root" and record.module == "java_gateway")


@contextmanager
def _properties(settings: Mapping[str, str]) -> Iterator[None]:
    """Pass settings to spark-submit in a private file, because every user can read a command line."""
    with tempfile.TemporaryDirectory(prefix="lakesmith-start-") as folder:
        path = Path(folder) / "spark.properties"
        private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(private, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
        before = os.environ.get("PYSPARK_SUBMIT_ARGS")
        # Without --load-spark-defaults, Spark ignores the defaults of this machine.
        arguments = f"--properties-file {shlex.quote(str(path))} --load-spark-defaults"
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{arguments} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
            if before is not None:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before


def _escaped(text: str) -> str:
    """Text in the format of Java's properties files."""
    return re.sub(r"[\\=:#!\s]", lambda found: f"\\u{ord(found[0]):04x}", text)
