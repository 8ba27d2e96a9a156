"""`saibot serve` in processes of their own, several on one database and one file store, and a balancer in front of them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import httpx

from tests.support.object_store import KEYS


@dataclass
class ServerProcess:
    """One server; it listens at the same address after every start."""

    data: Path
    database: str
    files: str
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if not self.port:  # bound for as long as this lives, and listened at by the server alone: nobody else is given it
            self._held = socket.socket()
            self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held.bind(("127.0.0.1", 0))
            self.port = self._held.getsockname()[1]
        words = ["serve", "--port", str(self.port), "--data", str(self.data), "--workers", "1", "--json"]
        own = {"SAIBOT_DATABASE": self.database, "SAIBOT_FILES": self.files, "SAIBOT_LOG_LEVEL": "error"}
        environment = os.environ | KEYS | own | {"SAIBOT_PAGES": "false", "SAIBOT_WRITE_BURST": "100000"} | self.settings
        command = [sys.executable, "-m", "saibot.cli", *words]
        self.log = (self.data.parent / f"{self.data.name}.log").open("a")
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process.stdout is not None
        told = "".join(itertools.takewhile(lambda line: line not in ("}\n", ""), iter(self.process.stdout.readline, None)))
        assert json.loads(told + "}")["address"] == self.address

    def leave(self) -> None:
        """Told to stop as systemd does: it is not ready any more, and answers until its time to drain is over."""
        assert self.process is not None
        self.process.terminate()

    def stop(self) -> int:
        """Told to stop, or once more: then it drains no longer. The exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def workers(self) -> list[int]:
        """The ids of its processes that search."""
        assert self.process is not None
        own = Path(f"/proc/{self.process.pid}/task")
        found = list[int]()
        for task in own.iterdir():
            with suppress(OSError):  # a thread that has just ended
                found += [int(pid) for pid in (task / "children").read_text().split()]
        return found

    def hold_workers(self) -> None:
        for pid in self.workers():
            os.kill(pid, signal.SIGSTOP)

    def admin_token(self) -> str:
        return (self.data / "admin-token").read_text().strip()


class Balancer:
    """Each request goes to the next server that says it is ready; it is never sent twice."""

    def __init__(self, addresses: list[str]) -> None:
        self._ready: dict[str, bool] = dict.fromkeys(addresses, True)
        self._under_way: dict[str, int] = dict.fromkeys(addresses, 0)
        self._choosing = threading.Lock()
        self._turn = itertools.count()
        self._clients = {address: httpx.Client(base_url=address, timeout=120) for address in addresses}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Balancer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()
        for client in self._clients.values():
            client.close()

    def send(self, method: str, path: str, **words: object) -> httpx.Response:
        address = self._next()
        try:
            return self._clients[address].request(method, path, **words)  # type: ignore[arg-type]
        finally:
            with self._choosing:
                self._under_way[address] -= 1

    def _next(self) -> str:
        end = time.monotonic() + 60
        while True:
            with self._choosing:
                if ready := [address for address, is_ready in self._ready.items() if is_ready]:
                    address = ready[next(self._turn) % len(ready)]
                    self._under_way[address] += 1
                    return address
            assert time.monotonic() < end, "no server is ready"
            time.sleep(0.01)

    def is_ready(self, address: str) -> bool:
        return self._ready[address]

    def has_left(self, address: str) -> bool:
        """Whether nothing is sent there any more, and all that was is answered."""
        with self._choosing:
            return not self._ready[address] and not self._under_way[address]

    def _look(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stopped.wait(0.1):
                for address in self._ready:
                    try:
                        self._ready[address] = client.get(f"{address}/readyz").status_code == 200
                    except httpx.HTTPError:
                        self._ready[address] = False
