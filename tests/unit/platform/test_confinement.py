"""A worker that was taken over sees the folders of its task, and nothing else of the machine."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from saibot.platform.freed_memory import allocated_bytes
from saibot.platform.jobs import confinement

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="Linux confines processes"
)


@pytest.fixture(scope="module")
def has_landlock() -> bool:
    import ctypes

    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2


def attempt(work: Callable[[], object], *, looks_at: Path, changes: Path) -> str:
    """What becomes of it in a process that confined itself: "done", or the error's name."""
    to_read, to_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            confinement.confine(looks_at=[str(looks_at)], changes=[str(changes)])
            work()
            said = "done"
        except BaseException as problem:
            said = type(problem).__name__
        os.write(to_write, said.encode())
        os._exit(0)
    os.close(to_write)
    with os.fdopen(to_read, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(pid, 0)
    return said


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    for name in ("corpus", "task", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content")
    return {"looks_at": tmp_path / "corpus", "changes": tmp_path / "task"}


def test_it_reads_the_corpus_and_writes_its_answer(places: dict[str, Path]) -> None:
    corpus, task = places.values()
    assert attempt(lambda: (corpus / "file").read_text(), **places) == "done"
    assert attempt(lambda: (task / "file").write_text("more"), **places) == "done"
    assert attempt(lambda: (task / "file").rename(task / "other"), **places) == "done"
    assert attempt(lambda: __import__("wave"), **places) == "done"  # a module that nobody has loaded yet


def test_it_changes_no_corpus_and_sees_no_other_file(places: dict[str, Path], has_landlock: bool) -> None:
    if not has_landlock:
        pytest.skip("this kernel has no Landlock")
    corpus, _ = places.values()
    other = corpus.parent / "elsewhere" / "file"
    assert attempt(lambda: (corpus / "file").write_text("more"), **places) == "PermissionError"
    assert attempt((corpus / "file").unlink, **places) == "PermissionError"
    assert attempt(other.read_text, **places) == "PermissionError"
    assert attempt(lambda: os.listdir(other.parent), **places) == "PermissionError"
    assert attempt(lambda: os.listdir(Path.home()), **places) == "PermissionError"
    assert (corpus / "file").read_text() == "content"


def test_it_cannot_ask_the_platform_for_its_secrets_or_end_it(places: dict[str, Path], has_landlock: bool) -> None:
    if not has_landlock:
        pytest.skip("this kernel has no Landlock")
    with subprocess.Popen(["sleep", "60"]) as stranger:  # as the platform is one: it did not confine itself
        try:
            assert attempt(Path(f"/proc/{stranger.pid}/environ").read_bytes, **places) == "PermissionError"
            assert attempt(Path(f"/proc/{stranger.pid}/mem").read_bytes, **places) == "PermissionError"
            assert attempt(lambda: os.kill(stranger.pid, 9), **places) == "PermissionError"
            assert attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(stranger.pid), 9), **places) == "PermissionError"
            assert attempt(lambda: os.sched_setaffinity(stranger.pid, {0}), **places) == "PermissionError"
            assert attempt(lambda: os.setpriority(os.PRIO_PROCESS, stranger.pid, 19), **places) == "PermissionError"
            limit = partial(resource.prlimit, stranger.pid, resource.RLIMIT_CPU, (0, 0))
            assert attempt(limit, **places) == "PermissionError"
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_it_opens_no_connection(places: dict[str, Path], family: int, kind: int) -> None:
    assert attempt(lambda: socket.socket(family, kind), **places) == "PermissionError"


def test_it_sends_nothing_to_services_of_the_machine(places: dict[str, Path]) -> None:
    """The log of the machine, for instance: half of a pair of sockets reaches it without being connected."""
    assert attempt(socket.socketpair, **places) == "PermissionError"
    address = str(places["changes"] / "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # as if it had one from before
        with mine, other:
            for work in (
                lambda: mine.sendto(b"forged", address),
                lambda: mine.sendmsg([b"forged"], [], 0, address),
                lambda: mine.connect(address),
                lambda: mine.bind(f"{address}-2"),
            ):
                assert attempt(work, **places) == "PermissionError"


def test_it_goes_on_with_its_own_affairs(places: dict[str, Path]) -> None:
    assert attempt(lambda: os.kill(os.getpid(), 0), **places) == "done"
    assert attempt(lambda: resource.setrlimit(resource.RLIMIT_CPU, (100, 100)), **places) == "done"
    assert attempt(lambda: signal.pthread_kill(threading.get_ident(), 0), **places) == "done"


def test_it_knows_about_itself_also_when_the_system_forgets(places: dict[str, Path]) -> None:
    """How much memory it may ask for depends on it. What nobody holds of /proc is made anew, with another inode."""

    def look() -> None:
        for _ in range(50):
            os.stat("/proc/self/task")
            with suppress(OSError):
                Path("/proc/sys/vm/drop_caches").write_text("2")
            assert allocated_bytes() > 0

    assert attempt(look, **places) == "done"


def test_it_keeps_no_power_of_root_but_over_files(places: dict[str, Path]) -> None:
    def look() -> None:
        lines = Path("/proc/self/status").read_text().splitlines()
        held = int(next(line.split()[1] for line in lines if line.startswith("CapEff")), 16)
        assert held & ~0b11110 == 0

    assert attempt(look, **places) == "done"


def test_a_path_that_is_none_does_not_open_the_others(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, has_landlock: bool
) -> None:
    if not has_landlock:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(sys, "path", [*sys.path, "/etc/passwd/x", "/nowhere/at/all"])
    assert attempt((places["looks_at"].parent / "elsewhere" / "file").read_text, **places) == "PermissionError"


def test_what_the_system_does_not_do_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError

    for part in ("_drop_powers", "refuse_calls"):
        monkeypatch.setattr(confinement, part, fails)
    monkeypatch.setattr(confinement, "keep_to_files", lambda *_: None)
    monkeypatch.setattr(confinement, "give_up_privileges", lambda: None)  # this process keeps its own
    assert confinement.confine(looks_at=[], changes=[]) == ["powers", "calls"]


def test_it_starts_no_program(places: dict[str, Path]) -> None:
    assert attempt(lambda: os.execv("/bin/true", ["true"]), **places) == "PermissionError"


@pytest.mark.parametrize("making", ["fork", "vfork", "clone", "clone3"])
def test_it_leaves_no_process_behind(places: dict[str, Path], making: str) -> None:
    """One that is made would still be there, with what this one may change, when this one is killed."""
    import ctypes

    number = {"fork": (57, None), "vfork": (58, None), "clone": (56, 220), "clone3": (435, 435)}[making]
    asked = number[platform.machine() == "aarch64"]
    if asked is None:
        pytest.skip("this processor has no such call")
    told = struct.pack("=11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)  # as clone3 is told what to make

    def make() -> None:
        call = ctypes.CDLL(None, use_errno=True).syscall
        first, second = (told, 88) if making == "clone3" else (signal.SIGCHLD.value, 0)
        made = call(asked, first, second, 0, 0, 0)
        if made == 0:
            os._exit(0)
        if made < 0:
            raise OSError(ctypes.get_errno(), "no process")

    assert attempt(make, **places) == ("OSError" if making == "clone3" else "PermissionError")
    assert attempt(os.fork, **places) == "PermissionError"


# ------------------------------------------------------------------------------------------------ with older rules


@pytest.fixture(params=[None, 5, 2], ids=["all rules", "rules of 6.10", "rules of 5.19"])
def rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, has_landlock: bool) -> None:
    """As many rules over files as an older kernel has: what is missing there the filter of calls has to stop."""
    import ctypes

    if not has_landlock:
        pytest.skip("this kernel has no Landlock")
    if request.param is None:
        return
    library = ctypes.CDLL(None, use_errno=True)

    class Older:
        prctl = library.prctl

        def syscall(self, number: int, *given: Any) -> Any:
            asks_for_version = number == 444 and given[0] is None
            return request.param if asks_for_version else library.syscall(number, *given)

    monkeypatch.setattr(confinement.ctypes, "CDLL", lambda *_, **__: Older())


@pytest.mark.usefixtures("rules")
def test_it_changes_nothing_about_files_that_it_may_not_change(places: dict[str, Path]) -> None:
    corpus, _ = places.values()
    for file in (corpus / "file", corpus.parent / "elsewhere" / "file"):
        file.chmod(0o600)
        before = file.stat()
        for work in (
            lambda file=file: os.truncate(file, 0),
            lambda file=file: os.open(file, os.O_RDONLY | os.O_TRUNC),
            lambda file=file: os.open(file, 3 | os.O_TRUNC),
            lambda file=file: os.chmod(file, 0o666),
            lambda file=file: os.fchmod(os.open(file, os.O_RDONLY), 0o666),
            lambda file=file: os.chown(file, os.getuid(), os.getgid()),
            lambda file=file: os.utime(file, (1, 1)),
            lambda file=file: os.setxattr(file, "user.x", b"1"),
        ):
            assert attempt(work, **places) == "PermissionError"
        after = file.stat()
        assert (after.st_mode, after.st_mtime, after.st_size) == (before.st_mode, before.st_mtime, before.st_size)


@pytest.mark.usefixtures("rules")
def test_it_ends_no_other_process_in_a_roundabout_way(places: dict[str, Path]) -> None:
    """By way of a group that it joins, or of a pipe that sends signals to whoever is said to own it."""
    with subprocess.Popen(["sleep", "60"], process_group=0) as stranger:

        def by_group() -> None:
            os.setpgid(0, stranger.pid)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            os.kill(0, signal.SIGUSR1)

        def by_pipe(number: int) -> None:
            reading, _ = os.pipe()
            if number:
                fcntl.fcntl(reading, number, signal.SIGKILL)
            fcntl.fcntl(reading, fcntl.F_SETOWN, stranger.pid)

        try:
            assert attempt(by_group, **places) == "PermissionError"
            assert attempt(os.setsid, **places) == "PermissionError"
            for number in (0, 10):
                assert attempt(partial(by_pipe, number), **places) == "PermissionError"
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.usefixtures("rules")
def test_it_writes_its_own_files_as_ever(places: dict[str, Path]) -> None:
    from saibot.safe_file import create_safely, write_safely

    _, task = places.values()

    def work() -> None:
        write_safely(task / "public", b"content", public=True)
        write_safely(task / "own", b"content")
        create_safely(task / "new", b"content")
        with (task / "own").open("w") as file:
            file.write("other")

    assert attempt(work, **places) == "done"
    assert [(task / name).stat().st_mode & 0o777 for name in ("public", "own", "new")] == [0o644, 0o600, 0o644]


def test_it_shares_no_memory_or_messages_by_number(places: dict[str, Path]) -> None:
    import ctypes

    def work(call: int, *given: int) -> None:
        if ctypes.CDLL(None, use_errno=True).syscall(call, *given) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    which = platform.machine() == "aarch64"
    for names in ((29, 194), (64, 190), (68, 186)):
        assert attempt(partial(work, names[which], 7, 1, 0o1600), **places) == "PermissionError"


def test_threads_that_come_later_are_confined_as_well(places: dict[str, Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(socket.socket, socket.AF_INET).result()

    assert attempt(work, **places) == "PermissionError"


def test_nothing_else_stops_any_of_this(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above see the confinement, not the machine they run on."""
    monkeypatch.setattr(confinement, "confine", lambda **_: None)
    other = places["looks_at"].parent / "elsewhere" / "file"
    assert attempt(other.read_text, **places) == "done"
    assert attempt(lambda: socket.socket(socket.AF_INET), **places) == "done"
