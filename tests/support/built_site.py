"""The guide as `make site` builds it, without running the notebooks, which have tests of their own."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

PACKED = "help.zip"


def built_site(folder: Path) -> Path:
    """The folder of the site; `help.zip` beside it is what a platform serves."""
    made = folder / "guide" / "site"
    made.parent.mkdir(exist_ok=True)
    with (made.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made.parent / PACKED).exists():
            from sitebuild.build import build
            from sitebuild.pack import pack

            with mock.patch.object(socket.socket, "connect", _no_network):
                build(made, quick=True)
            pack(made, made.parent / "packing.zip")
            (made.parent / "packing.zip").rename(made.parent / PACKED)
    return made


def _no_network(*_: Any) -> NoReturn:
    raise AssertionError("building the guide needs no network")
