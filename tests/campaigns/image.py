"""The container image, run as it would be run by others: `make test-image`, after `make image`.

    python -m tests.campaigns.image --image saibot:0.1.0

starts it with buildah (no engine is needed) twice: on its own, and with Postgres and an S3-compatible store. Both times
people publish and search, pages and their scripts are read, and it is told to stop. It has to run as nobody in particular,
answer what the health check asks, and write nowhere but where its volume is.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.campaigns.people import answers, use
from tests.support.object_store import KEYS, object_store
from tests.support.postgres import running_postgres

VOLUME = "var/lib/saibot"
OWNER = 10001
WAIT = 180


class Container:
    """A root made from the image, and at most one server in it."""

    def __init__(self, image: str) -> None:
        self.name = _buildah("from", "--quiet", image)
        self.root = Path(_buildah("mount", self.name))

    def close(self) -> None:
        _buildah("rm", self.name)

    def run(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        said = [f"--env={name}={value}" for name, value in environment.items()]
        said += [
            f"--volume={place}:{place}" for place in re.findall(r"host=(/[^&]+)", environment.get("SAIBOT_DATABASE", ""))
        ]
        command = ["buildah", "run", "--isolation", "chroot", *said, self.name, "--", *words]
        return subprocess.Popen(command, start_new_session=True)

    def processes(self) -> list[int]:
        """Python's that have this folder for their root, oldest first."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # it has ended meanwhile
                own = entry.name.isdigit() and os.path.samefile(entry / "root", self.root)
                if own and "python" in os.readlink(entry / "exe"):  # beside it is what buildah began it with
                    found.append(int(entry.name))
        return sorted(found)

    def written(self, since: float) -> list[str]:
        """Files beside the volume that are newer. What buildah itself puts there for a run does not count."""
        found = (
            path for top in ("opt", "usr", "etc", "var", "root", "home", "tmp") for path in (self.root / top).rglob("*")
        )
        files = (path for path in found if path.is_file() and not path.is_symlink() and path.stat().st_mtime > since)
        return sorted(
            {str(path.relative_to(self.root)) for path in files} - {"etc/hosts", "etc/resolv.conf", "etc/hostname"}
        )


@contextmanager
def serving(container: Container, **environment: str) -> Iterator[str]:
    """The server, until it was told to stop and has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = time.monotonic()
    process = container.run("saibot", "serve", "--port", str(port), **environment)
    address = f"http://127.0.0.1:{port}"
    try:
        while not answers(address):
            assert process.poll() is None and time.monotonic() < start + WAIT, "it does not come up"
            time.sleep(0.2)
        print(f"  ready after {time.monotonic() - start:.1f} s")
        yield address
    finally:
        for pid in container.processes()[:1]:  # the server itself: its workers are its own to stop
            os.kill(pid, signal.SIGTERM)
        assert process.wait(60) == 0, "it does not stop as it should"


def story(container: Container, address: str) -> None:
    """Who runs it is nobody, the health check's own command is content, people publish and search, and pages show it."""
    server = container.processes()[0]
    check = f"import urllib.request as u; u.urlopen('{address}/readyz', timeout=5)"
    assert container.run("python3", "-c", check).wait(60) == 0
    data = Path(f"/proc/{server}/root") / VOLUME / "data"
    assert data.stat().st_uid == OWNER and data.stat().st_mode & 0o077 == 0
    use(address, (data / "admin-token").read_text())
    owners = [Path(f"/proc/{pid}").stat().st_uid for pid in container.processes()]
    assert len(owners) > 1 and set(owners) == {OWNER}, owners


def _socket_folders(database: str) -> list[str]:
    return re.findall(r"host=(/[^&]+)", database)


def _buildah(*words: str) -> str:
    return subprocess.run(["buildah", *words], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    words = argparse.ArgumentParser(description="Run the container image as others would.")
    words.add_argument("--image", default="saibot:latest")
    image = words.parse_args().image
    for larger in (False, True):
        print(f"{image}, {'with Postgres and an S3-compatible store' if larger else 'on its own'}")
        with ExitStack() as held:
            environment: dict[str, str] = {}
            if larger:
                files, _ = held.enter_context(object_store())
                database = held.enter_context(running_postgres())()
                Path(_socket_folders(database)[0]).chmod(0o711)  # it is not root who will connect
                environment = KEYS | {"SAIBOT_FILES": files, "SAIBOT_DATABASE": database}
            container = Container(image)
            held.callback(container.close)
            since = time.time()
            with serving(container, **environment) as address:
                story(container, address)
            assert not container.written(since), container.written(since)
        print("  as it should be")


if __name__ == "__main__":
    main()
