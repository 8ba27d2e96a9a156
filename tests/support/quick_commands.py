"""`saibot` as a shell types it, without waiting for Python's imports each time.

A process that has loaded everything waits at a socket; the `saibot` that a shell finds hands its words, folder, environment
and streams over, and a fork of that process runs them. What runs is the real command in a process of its own.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADED = (  # what commands load when they run
    *("pandas", "pyarrow.parquet", "scipy.optimize", "duckdb", "ibis", "opendp.prelude", "httpx", "rich.table", "jinja2"),
    *("saibot.client.provider", "saibot.client.requester", "saibot.client.augmented", "saibot.privatize", "saibot.search"),
    *("saibot.embedded", "saibot.platform.api.app", "saibot.platform.pages.mount", "uvicorn", "saibot.report.html"),
)
CALLER = """\
#!{python} -IS
import array, json, os, socket, struct, sys
there = socket.socket(socket.AF_UNIX)
there.connect({address!r})
words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
there.sendmsg([struct.pack("!I", len(words))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
there.sendall(words)
status = there.recv(4)
sys.exit(struct.unpack("!i", status)[0] if len(status) == 4 else 70)
"""


@contextlib.contextmanager
def quick_saibot() -> Iterator[Path]:
    """A folder with a `saibot` in it, for the front of a PATH."""
    with tempfile.TemporaryDirectory(prefix="saibot-") as name:  # short: addresses of sockets may have 107 letters
        folder = Path(name)
        address = folder / "socket"
        command = folder / "saibot"
        command.write_text(CALLER.format(python=sys.executable, address=str(address)))
        command.chmod(0o755)
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        waiting = subprocess.Popen([sys.executable, __file__, str(address)], env=environment, cwd=ROOT)
        try:
            while not address.exists():
                if waiting.poll() is not None:
                    raise RuntimeError("the process that runs commands did not start")
                time.sleep(0.02)
            yield folder
        finally:
            waiting.terminate()
            waiting.wait(20)


def wait_at(address: str) -> None:
    import importlib

    for name in LOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, _reap)
    door = socket.socket(socket.AF_UNIX)
    door.bind(address + ".new")
    door.listen(16)
    os.rename(address + ".new", address)
    while True:
        there, _ = door.accept()
        if os.fork() == 0:
            door.close()
            _run(there)
        there.close()


def _reap(*_: object) -> None:
    """Forks that have ended; each has told its status itself."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(there: socket.socket) -> None:
    size, streams, _, _ = there.recvmsg(4, socket.CMSG_SPACE(12))
    words = b""
    while len(words) < struct.unpack("!I", size)[0]:
        words += there.recv(1 << 16)
    arguments, folder, environment = json.loads(words)
    for place, stream in enumerate(array.array("i", streams[0][2])):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["saibot", *arguments]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(there,), daemon=True).start()
    status = 70
    try:
        from saibot.cli import main

        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(Exception):
            there.sendall(struct.pack("!i", status))
        os._exit(status)


def _end_with(there: socket.socket) -> None:
    """Whoever called is gone, for example a server's shell that was killed: so is this."""
    with contextlib.suppress(OSError):
        there.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(20)
    os._exit(70)


if __name__ == "__main__":
    wait_at(sys.argv[1])
