"""A Spark for tests: a session in this process, or a cluster of one master and some workers from the wheel's own classes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from saibot.errors import InvalidInput
from saibot.spark_session import check_spark, open_session

UP_SECONDS = 90.0


def needed_spark() -> None:
    """Skip a test where Spark cannot run, with the reason; where CI runs the tests it is missing by mistake."""
    try:
        check_spark()
    except InvalidInput as missing:
        if os.environ.get("CI"):
            pytest.fail(f"{missing} `make test-spark` brings it.", pytrace=False)
        pytest.skip(str(missing))


@contextmanager
def local_session() -> Iterator[Any]:
    session = open_session("local[2,4]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        yield session
    finally:
        session.stop()


@dataclass
class Cluster:
    """A standalone master and its workers, one core each."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self) -> None:
        """One worker and its executor are gone at once, without a word."""
        os.killpg(self.workers.pop().pid, signal.SIGKILL)


@contextmanager
def standalone(folder: Path, *, workers: int) -> Iterator[Cluster]:
    import pyspark

    port, command = free_port(), [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    started: list[subprocess.Popen[bytes]] = []
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}

    def start(name: str, *words: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            how: dict[str, Any] = {
                "stdout": log,
                "stderr": log,
                "cwd": folder,
                "env": environment,
            }
            # A group of its own: a worker is killed together with its executors.
            process = subprocess.Popen([*command, *words], start_new_session=True, **how)
        started.append(process)
        return process

    with ExitStack() as ending:
        ending.callback(lambda: [_end(process) for process in started])
        where = ["--host", "127.0.0.1", "--port"]
        start("master", "org.apache.spark.deploy.master.Master", *where, str(port), "--webui-port", "0")
        _wait_for("127.0.0.1", port)
        address = f"spark://127.0.0.1:{port}"
        small = ["--cores", "1", "--memory", "1500m", "--webui-port", "0", "--host", "127.0.0.1"]
        kind = "org.apache.spark.deploy.worker.Worker"
        found = [start(f"worker{i}", kind, *small, "--work-dir", str(folder / f"work{i}"), address) for i in range(workers)]
        yield Cluster(address, found)


def executors_up(context: Any, count: int) -> None:
    """Returns once so many executors have come up."""
    until = time.monotonic() + UP_SECONDS
    while context._jsc.sc().getExecutorMemoryStatus().size() < count + 1:  # the driver counts, too
        assert time.monotonic() < until, "the cluster's executors did not come up"
        time.sleep(0.2)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _wait_for(host: str, port: int) -> None:
    until = time.monotonic() + UP_SECONDS
    while True:
        with suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        assert time.monotonic() < until, "the cluster's master did not come up"
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
