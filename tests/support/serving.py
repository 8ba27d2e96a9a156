"""A platform that listens on a port of this machine, and the caller who may do everything there."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI

from saibot.platform.accounts import Caller
from saibot.platform.api.connections import guarded

ADMIN = Caller("admin", frozenset({"admin"}), "t-admin")


def signed_in(client: httpx.Client, token: str) -> str:
    """The session that the sign-in page gives for a token; the client has it as well."""
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/sign-in").text)
    assert code is not None
    answer = client.post("/sign-in", data={"csrf": code[1], "token": token, "next": "/"})
    assert answer.status_code == 303, answer.text
    return client.cookies["saibot_session"]


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The address of the app, served from a thread until the block ends."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    http = guarded(app.state.platform)
    config = uvicorn.Config(app, http=http, ws="none", log_level="error", access_log=False, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    server.should_exit = True
    thread.join(120)
    assert not thread.is_alive()
