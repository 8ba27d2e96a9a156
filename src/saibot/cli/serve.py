"""`saibot serve`: run a platform."""

from __future__ import annotations

import errno
import gc
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.show import say

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

    from saibot.platform import Settings


SWITCH_SECONDS = 0.001
FILES = 65_536


def add_to(app: typer.Typer) -> None:
    app.command("serve")(serve)


DataOption = Annotated[
    Path | None, typer.Option(help="Folder of everything the platform keeps. Default: SAIBOT_DATA, or saibot-data here.")
]
DatabaseOption = Annotated[
    str | None, typer.Option(help="postgresql://... Default: SAIBOT_DATABASE, or an SQLite file in the data folder.")
]
FilesOption = Annotated[
    str | None,
    typer.Option(help="Folder or s3://bucket/prefix of the sketches. Default: SAIBOT_FILES, or in DATA."),
]


def serve(
    data: DataOption = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for every network it is in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 for any free one.", min=0, max=65535)] = 8642,
    database: DatabaseOption = None,
    files: FilesOption = None,
    workers: Annotated[int | None, typer.Option(help="Searches that run at a time. Default: by cores.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="auto|threads|gpu|spark", help="Who scores candidates. Default: SAIBOT_ENGINE, or a GPU, or threads."
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="With --engine spark: the cluster, spark://HOST:PORT. Default: SAIBOT_SPARK_MASTER, or Spark's."),
    ] = None,
    proxy: Annotated[
        bool, typer.Option("--proxy", help="Behind a proxy on this machine: believe what it says about callers.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document when ready and nothing else.")] = False,
) -> None:
    """Run a platform until ctrl-C. Every other setting is an environment variable: see docs/reference/settings.md."""
    from saibot.embedded import make_app
    from saibot.platform.freed_memory import return_what_is_freed

    return_what_is_freed()
    settings = read_settings(data=data, database=database, files=files, workers=workers, engine=engine, spark_master=master)
    if settings.engine in ("gpu", "spark"):
        from saibot.search.engine import check_engine

        check_engine(settings.engine)
    listening = listen(host, port)
    os.umask(0o077)  # database, sketches and searches are nobody else's on this machine to read
    app = make_app(settings)
    tempfile.tempdir = str(app.state.platform.incoming)  # forms with large files: not where the system may have little room
    _say_what_is_missing(app)
    run(app, listening, lambda address: _ready(address, settings, json=json), proxy=proxy)


def run(app: FastAPI, listening: socket.socket, ready: Callable[[str], None], *, proxy: bool = False) -> None:
    """Serve until a signal, then end cleanly: what is under way is finished or told to stop, and files are closed."""
    import uvicorn

    from saibot.platform.api.connections import guarded

    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    class Server(uvicorn.Server):
        def handle_exit(self, number: int, frame: FrameType | None) -> None:
            platform = app.state.platform
            if number != signal.SIGTERM or platform.stopping or not platform.settings.drain_seconds:
                super().handle_exit(number, frame)
                return

            def leave() -> None:  # not in the handler itself, which may have interrupted whoever holds a lock
                platform.drain()
                time.sleep(platform.settings.drain_seconds)
                self.should_exit = True

            threading.Thread(target=leave, name="saibot-leaving", daemon=True).start()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _settle()
                ready(address)
                sys.stdout.flush()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        http=guarded(app.state.platform, proxies=trusted_proxies() if proxy else ()),
        ws="none",
        proxy_headers=proxy,
        timeout_graceful_shutdown=10,
        server_header=False,
    )
    # uvicorn repeats the signal once everything is closed; by then there is nothing left to stop.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        Server(config).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()
    say("stopped.", err=True)


def trusted_proxies() -> list[str]:
    """Who is believed about callers: the same that the web server believes."""
    return [one.strip() for one in os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1").split(",") if one.strip()]


def _say_what_is_missing(app: FastAPI) -> None:
    """Of what the pages can do, once: nobody sees that a map is not there."""
    from saibot.extras import how_to_install
    from saibot.report.places import to_install

    if app.state.platform.settings.pages and (extras := to_install()):
        app.state.platform.log.info("places are shown without maps", hint=how_to_install(*extras))


def _settle() -> None:
    """Python's own habits, for a process whose threads answer people at the same time.

    What is loaded by now stays: looking through all of it for garbage would hold every answer up for a fifth of a second.
    And threads hand over sooner than after 5 ms: whoever fetches rows waits for a turn after each of them.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_SECONDS)
    # Many systems give 1,024 files unless they are asked for more, and each connection is one.
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most > now:
        wanted = FILES if most == resource.RLIM_INFINITY else min(most, FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, wanted), most))


def read_settings(**given: Any) -> Settings:
    """Settings from options and, for what was not given, from the environment."""
    from saibot.errors import InvalidInput, SaibotError
    from saibot.extras import how_to_install

    try:
        from pydantic import ValidationError

        from saibot.platform import Settings
    except ImportError as problem:
        raise SaibotError(f"a platform needs the package {problem.name!r}.", hint=how_to_install("platform")) from None
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        name = "_".join(str(step) for step in first["loc"])
        why = first["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"the setting SAIBOT_{name.upper()} cannot be used: {why}.") from None


def listen(host: str, port: int) -> socket.socket:
    from saibot.errors import InvalidInput

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as problem:
        hints = {
            errno.EADDRINUSE: "Another program listens there: choose another --port, or 0 for any free one.",
            errno.EACCES: "Ports below 1024 belong to the system: choose another --port, and put a proxy in front.",
        }
        hint = hints.get(problem.errno or 0, "--host is an address of this machine, such as 127.0.0.1 or 0.0.0.0.")
        reason = problem.strerror or str(problem)
        raise InvalidInput(f"cannot listen at {host}:{port} ({reason}).", hint=hint) from None


def _ready(address: str, settings: Settings, *, json: bool) -> None:
    from saibot.cli.show import print_json
    from saibot.embedded import ADMIN_TOKEN

    token = settings.data / ADMIN_TOKEN
    if json:
        print_json({"address": address, "data": str(settings.data), "admin_token_file": str(token)})
        return
    here = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")  # where this machine finds it
    say(f"Saibot listens at {address}; the guide is at {here}/help, the API at {here}/docs")
    if token.is_file():
        say(f"Data in {settings.data}; the admin's token in {token}")
        say(f"  saibot login {here} --token-file {token}     # then: saibot token create NAME --role provider")
    else:  # a restored platform: tokens open it as before, their texts are kept nowhere
        say(f"Data in {settings.data}; admins sign in with the token they had")
        say(f"  saibot login {here}     # then: saibot token create NAME --role provider")
    say("Stop with ctrl-C.")
