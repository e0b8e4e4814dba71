"""The one place that starts or joins Spark, and turns its failures into one line."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ... import errors
from ...errors import DataError, EngineError, SfumatoError, SpecError

LOCAL = "local[*,4]"  # all cores; a task that fails is tried four times
PORT, PATIENCE = 15002, 10.0  # of a Spark Connect server; seconds
SETTINGS = {
    "spark.app.name": "sfumato",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # a ragged line must be seen whatever column is read
    "spark.sql.session.timeZone": "UTC",
}
ALONE = {  # where the whole of Spark is this process
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_NO_CONNECTOR = re.compile(r"ClassNotFoundException: Class \S+FileSystem not found")
_OURS = re.compile(r"sfumato\.errors\.(\w+): (.*)")


def start(master: str | None, remote: str | None) -> Any:
    """A Spark session: that of a server (`remote`), of a cluster (`master`), the active one, or one of our own here."""
    if master is not None and remote is not None:
        raise SpecError("--master starts Spark and --remote joins a server; say one of them", field="remote")
    if find_spec("pyspark") is None:
        raise EngineError("the spark engine needs pyspark; install sfumato[spark]")
    if master is None:
        remote = remote or os.environ.get("SPARK_REMOTE")
    alone = (remote or master or LOCAL).startswith("local")  # a server may be started here, too
    if remote is not None:
        _check_connect(remote)
    if alone or remote is None:
        _check_java()
    if alone:  # tasks run by this very interpreter
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with quiet():
        from pyspark.sql import SparkSession

        silence()
        if remote is None and master is None:
            active = SparkSession.getActiveSession()
            if active is not None:
                return active
        builder = SparkSession.builder
        for name, value in (SETTINGS | (ALONE if alone else {})).items():
            builder = builder.config(name, value)
        with plainly("Spark cannot be started or reached"):
            session = (builder.remote(remote) if remote is not None else builder.master(master or LOCAL)).getOrCreate()
            # Files are cut by the cores of the moment, and a second pass must find the partitions of the first.
            session.conf.set("spark.sql.files.minPartitionNum", str(parallelism(session)))
            return session


def parallelism(session: Any) -> int:
    """Tasks that run at the same time, as far as Spark says."""
    if not is_connect(session):
        return max(int(session.sparkContext.defaultParallelism), 1)
    from pyspark.sql import functions as fn

    with plainly("Spark failed"):
        return int(session.range(1 << 16).select(fn.spark_partition_id()).distinct().count())


def silence() -> None:
    """PySpark logs the text of every failed statement, in which Spark may quote a cell."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)


def is_connect(session: Any) -> bool:
    """Whether the session is a client of a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _check_connect(remote: str) -> None:
    """Raise EngineError where Spark's client is missing, or nobody listens: it would knock for ten minutes."""
    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise EngineError("--remote needs the client of Spark Connect; install sfumato[spark]")
    if remote.startswith("local"):
        return
    place = urlsplit(remote)
    if place.scheme != "sc" or not place.hostname:
        raise SpecError("--remote is the address of a Spark Connect server: sc://host:port", field="remote")
    try:
        socket.create_connection((place.hostname, place.port or PORT), timeout=PATIENCE).close()
    except (OSError, ValueError):
        raise EngineError("no Spark Connect server answers at the address of --remote") from None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home is not None and not (Path(home) / "bin" / "java").exists():
        raise EngineError("JAVA_HOME names a folder without bin/java; Spark needs Java 17 or 21")
    if home is None and shutil.which("java") is None:
        raise EngineError(
            "Spark needs Java 17 or 21 and finds none; install one (Debian: openjdk-17-jre-headless), set JAVA_HOME, "
            "or join a server with --remote sc://host"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark warns about versions of pandas that nothing here uses, and of settings that a server keeps to itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to set", category=UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@contextmanager
def plainly(what: str, other: Callable[[str], SfumatoError | None] = lambda _: None) -> Iterator[None]:
    """Spark's exceptions as one line without its own text, which may quote cells; our own from tasks as they are."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except SfumatoError:
        raise
    except (PySparkException, Py4JError, ConnectionError) as error:
        text = str(error)
        found = _OURS.search(text)
        if found:  # raised by our code in a task; its messages quote no cells
            kind = vars(errors).get(found[1])
            if isinstance(kind, type) and issubclass(kind, SfumatoError):
                raise kind(found[2].strip()) from None
        raise (other(text) or _known(text, what, type(error).__name__)) from None


def _known(text: str, what: str, name: str) -> SfumatoError:
    if "No space left" in text:
        return EngineError("a disk of Spark is full: no space left on device; nothing was published")
    if "OutOfMemoryError" in text or "Java heap space" in text:
        return EngineError("Spark ran out of memory; give it more (spark.driver.memory, spark.executor.memory)")
    if "No FileSystem for scheme" in text or _NO_CONNECTOR.search(text):
        return EngineError("Spark has no connector for this kind of address (s3a: add the jar hadoop-aws)")
    if "UnknownHostException" in text:
        return EngineError("Spark finds no host of that name")
    if any(sign in text for sign in ("PATH_NOT_FOUND", "FileNotFoundException", "FAILED_READ_FILE.FILE_NOT_EXIST")):
        return DataError("Spark finds no such file; every machine must see it under the same name")
    if "MALFORMED_RECORD_IN_PARSING" in text or "MALFORMED_CSV_RECORD" in text:
        return DataError("the CSV file is ragged: a line has more or fewer fields than the header")
    if "CANNOT_READ_FILE_FOOTER" in text or "FAILED_READ_FILE" in text:
        return DataError("a file is damaged or not of the kind its name says")
    if "ModuleNotFoundError" in text:
        return EngineError("the machines that run tasks lack sfumato or one of its libraries; docs/spark.md")
    return EngineError(f"{what} ({name}); run with --debug for the details")


def forget(frame: Any) -> None:
    """Let go of Spark's copy of a frame; a session that has ended has done so."""
    with suppress(EngineError), plainly("Spark failed"):
        frame.unpersist()


def disk_only() -> Any:
    """Where Spark keeps a frame that is used twice."""
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY


# --- how the secret reaches the tasks: no plan, log, page or event of Spark shows it
#
# With a cluster's own driver it is a broadcast, which is destroyed when the block ends: the blocks on the executors'
# memory and disks and the file on the driver go. Spark Connect has no broadcasts: there it is part of the pickled
# function, which a server keeps in memory as long as the operation lasts. docs/spark.md says who can see what.


@contextmanager
def door(session: Any, thing: Any) -> Iterator[Callable[[], bytes]]:
    """A function that gives the pickled thing to a task, while the block lasts."""
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(thing)
    if is_connect(session):
        yield lambda: pickled
        return
    sent = session.sparkContext.broadcast(pickled)
    try:
        yield lambda: sent.value
    finally:
        sent.destroy(blocking=True)
