"""A Spark cluster on this machine: a master and two workers, each with an address of its own.

Spark starts no copy of a slow task on the host that runs it; `local-cluster` has one host, so it never makes a copy.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spark_here import BRIEF

MASTER, WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
PATIENCE = 120  # seconds
DEPLOY = "org.apache.spark.deploy"


@contextmanager
def two_workers(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of the master, once both workers, of one core each, are known to it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    env = {**environment, "SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(folder / "work")}
    env |= {"SPARK_LOCAL_DIRS": str(folder / "local"), "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": BRIEF}
    log = folder / "master.log"
    with ExitStack() as running:

        def start(what: str, *arguments: str, into: Path) -> None:
            command = [str(home / "bin" / "spark-class"), f"{DEPLOY}.{what}", *arguments, "--webui-port", "0"]
            with into.open("w") as out:
                process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
            running.callback(_end, process)

        start("master.Master", "--host", MASTER, "--port", "0", into=log)
        address = _seen(log, rf"spark://{re.escape(MASTER)}:\d+")
        for host in WORKERS:
            options = ("--host", host, "--cores", "1", "--memory", "1g")
            start("worker.Worker", address, *options, into=folder / f"{host}.log")
        for host in WORKERS:
            _seen(log, rf"Registering worker {re.escape(host)}")
        yield address


def _seen(log: Path, pattern: str) -> str:
    end = time.monotonic() + PATIENCE
    while not (found := re.search(pattern, log.read_text())):
        assert time.monotonic() < end, f"not in the log: {pattern}\n{log.read_text()[-2000:]}"
        time.sleep(0.1)
    return found[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
