"""A Spark session for a command: quiet, with its progress on the terminal, and failures in one line."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import journalfs.errors
from journalfs.errors import DependencyMissing, JournalfsError, SystemFailure, WrongCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

INSTALL: Final = "pip install 'journalfs[pipeline]'"
JAVA: Final = "apt install openjdk-17-jre-headless"
STDERR: Final = 2
LOOK_S: Final = 0.2
"""Between two looks at how far Spark is: often enough to seem alive."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""Into how many tasks each join and aggregate is cut; 200 unless told."""

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Through these PySpark writes a mistake in SQL to standard error, as pages of JSON, before it raises it."""
_RAISED: Final = re.compile(r"^(?:.*\s)?journalfs\.(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
"""What was raised in a process of Python that Spark started, in the trace that Spark shows."""
_MISSING: Final = "ModuleNotFoundError: "
_PANDAS: Final = "PySpark does not yet fully support pandas"
"""Begins a warning about what no pipeline uses."""
_TRACE: Final = "Traceback (most recent call last):"


@contextmanager
def session(master: str | None, settings: Mapping[str, str], *, title: str) -> Iterator[SparkSession]:
    """Spark, for as long as it is needed; one that is there already is used and stays.

    `master`: a cluster, or `local[N]`; None: what Spark was configured with, else this machine.
    Raises `DependencyMissing`, and failures of what is done inside as `JournalfsError`.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - may not be installed
    except ImportError:
        raise DependencyMissing("journalfs pipeline", package="PySpark", install=INSTALL) from None
    with in_one_line(), quiet():
        before = SparkSession.getActiveSession()
        if before is None:
            with _own(_started(SparkSession.Builder(), master, settings)) as spark, _prepared(spark, title):
                yield spark
        else:
            with _prepared(before, title):
                yield before


@contextmanager
def quiet() -> Iterator[None]:
    """Without a warning of PySpark about what no pipeline uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _PANDAS, FutureWarning)
        yield


@contextmanager
def _prepared(spark: SparkSession, title: str) -> Iterator[None]:
    from journalfs.spark import register  # noqa: PLC0415 - may not be installed

    register(spark)
    with shown(spark, title):
        yield


@contextmanager
def _own(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that ends with the command, also when that is interrupted: then `KeyboardInterrupt` comes.

    Spark's own answer to a signal calls its process from within a call that waits for it, and both fail.
    So that process is ended instead; whatever is said to it afterwards fails, and is of no interest.
    """
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    interrupted = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        # The gateway would tell of calls that it was interrupted in, and that it cannot end.
        logging.disable()
        process.terminate()
        raise KeyboardInterrupt

    listening = process is not None and threading.current_thread() is threading.main_thread()
    if listening:
        signal.signal(signal.SIGINT, end)
    try:
        yield spark
    except Exception:
        if interrupted.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        if listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if not interrupted.is_set():
            spark.stop()


def _started(builder: SparkSession.Builder, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    logging = files("journalfs.pipeline").joinpath("log4j2.properties")
    chosen = {
        "spark.app.name": "journalfs pipeline",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        **settings,
    }
    if master is not None:
        chosen["spark.master"] = master
    for name, value in chosen.items():
        builder = builder.config(name, value)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise DependencyMissing("Spark", package="a Java runtime", install=JAVA)
    with tempfile.TemporaryFile() as said:
        try:
            with _errors_to(said.fileno()):
                spark = builder.getOrCreate()
        except PySparkException as error:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
            # The first is the cause, what follows its consequences.
            first = next((line for line in lines if line and not line.startswith("WARNING")), error)
            raise SystemFailure(f"Spark did not start: {first}") from error
    _cut_for_this_machine(spark, settings)
    return spark


def _cut_for_this_machine(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """A task a core in each exchange, unless somebody said how many or a cluster is asked: pipelines make
    dozens, and 200 tasks each would take minutes to start for what is done in seconds. What does not fit into
    memory is spilled.
    """
    context: Any = spark.sparkContext
    if context.master.startswith("local") and _PARTITIONS not in settings:
        configured = context.getConf().get(_PARTITIONS)
        spark.conf.set(_PARTITIONS, configured or str(context.defaultParallelism))


@contextmanager
def _errors_to(descriptor: int) -> Iterator[None]:
    """Where what is started meanwhile writes its errors for good: a Java runtime has much to say."""
    sys.stderr.flush()
    own = os.dup(STDERR)
    os.dup2(descriptor, STDERR)
    try:
        yield
    finally:
        os.dup2(own, STDERR)
        os.close(own)


@contextmanager
def in_one_line() -> Iterator[None]:
    """What fails in Spark, as the failure that it is about."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise reworded(error) from error
    finally:
        for logger in loggers:
            logger.disabled = False


def reworded(error: Exception) -> JournalfsError:
    """The failure of journalfs that Spark reports with its own, or what Spark said, in a line."""
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - comes with Spark

    text = str(error)
    for name, message in reversed(_RAISED.findall(text)):
        kind = getattr(journalfs.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, JournalfsError):
            found = kind.__new__(kind)
            JournalfsError.__init__(found, message)
            return found
    said = _end_of_trace(text) or text.strip().partition("\n")[0] or type(error).__name__
    if said.startswith(_MISSING):
        said = f"{said}: the Python that Spark runs lacks it, see PYSPARK_PYTHON"
    if isinstance(error, AnalysisException | ParseException) and _TRACE not in text:
        return WrongCall(f"Spark: {said}")
    return SystemFailure(f"Spark: {said}")


def _end_of_trace(text: str) -> str | None:
    """What was raised in Python, as a trace says it that stands in a text; the last if there are several."""
    _, found, trace = text.rpartition(_TRACE)
    lines = trace.splitlines()[1:] if found else []
    return next((line.strip() for line in lines if line.strip() and not line.startswith(" ")), None)


@contextmanager
def shown(spark: SparkSession, title: str, console: Console | None = None) -> Iterator[None]:
    """How far the jobs of Spark are, on the terminal, if there is one."""
    if console is None and not sys.stderr.isatty():
        yield
        return
    import rich.console  # noqa: PLC0415 - only people look at it
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark
    from rich.progress import Progress  # noqa: PLC0415

    done = threading.Event()
    with Progress(console=console or rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def look() -> None:
            tracker: Any = spark.sparkContext.statusTracker()
            while not done.wait(LOOK_S):
                try:
                    stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
                except Py4JError:
                    return  # Spark has ended, which whoever waits for its answers is told
                total = sum(one.numTasks for one in stages if one is not None)
                finished = sum(one.numCompletedTasks for one in stages if one is not None)
                bar.update(task, total=total or None, completed=finished)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            done.set()
            looking.join()
