"""The process that workers are forked from: killed, standing still, or without room for one more; and workers that lie."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from saibot.platform.jobs import nursery as module
from saibot.platform.jobs import worker as worker_module
from saibot.platform.jobs.nursery import GivenUp, Nursery
from saibot.platform.jobs.process import LONGEST_LINE, LONGEST_WORDS, Outcome, WorkerProcess


@pytest.fixture
def nursery(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    made = Nursery()
    monkeypatch.setattr(module, "END_SECONDS", 60.0)  # five can be short on a busy machine
    monkeypatch.setattr("saibot.platform.jobs.process.nursery", lambda: made)
    with made.in_use():
        yield made


def handles() -> int:
    gc.collect()  # what earlier tests have left closes now, not between two looks
    return len(os.listdir("/proc/self/fd"))


def test_a_killed_one_is_replaced_and_its_children_go_on(nursery: Nursery) -> None:
    first = nursery.child(memory=None)
    assert nursery.pid is not None
    os.kill(nursery.pid, signal.SIGKILL)
    second = nursery.child(memory=None)
    assert Path(f"/proc/{first.pid}").exists() and first.pid != second.pid
    for child in (first, second):
        child.end(kill=True)


def test_one_that_stands_still_holds_nobody_up_who_gives_up(nursery: Nursery) -> None:
    nursery.child(memory=None).end(kill=True)
    assert nursery.pid is not None
    os.kill(nursery.pid, signal.SIGSTOP)
    worker, started = WorkerProcess(), time.monotonic()
    task: dict[str, Any] = {"read": {"kind": "none"}}
    outcome = worker.run(task, progress=lambda *_: None, cancelled=lambda: False, seconds=0.3)
    assert outcome.error is not None and outcome.error["code"] == "too_long"
    outcome = worker.run(task, progress=lambda *_: None, cancelled=lambda: time.monotonic() > started + 1, seconds=60)
    assert outcome.status == "cancelled" and time.monotonic() < started + 50
    os.kill(nursery.pid, signal.SIGCONT)  # what was asked meanwhile is answered, and is nobody's
    child = nursery.child(memory=None)
    assert Path(f"/proc/{child.pid}/stat").read_text().split()[3] == str(nursery.pid)
    assert child.end(kill=True) == -signal.SIGKILL


def test_one_that_does_not_answer_is_replaced(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    nursery.child(memory=None).end(kill=True)
    stopped = nursery.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    nursery.child(memory=None).end(kill=True)
    assert nursery.pid != stopped and not Path(f"/proc/{stopped}").exists()


def test_whoever_waits_behind_another_may_give_up_as_well(nursery: Nursery) -> None:
    nursery.child(memory=None).end(kill=True)
    assert nursery.pid is not None
    os.kill(nursery.pid, signal.SIGSTOP)
    ends = threading.Event()

    def wait() -> None:
        with pytest.raises(GivenUp):
            nursery.child(memory=None, given_up=ends.is_set)

    first = threading.Thread(target=wait)
    first.start()
    with pytest.raises(GivenUp):
        nursery.child(memory=None, given_up=lambda: True)
    ends.set()
    first.join(60)
    assert not first.is_alive()


def test_no_room_for_one_more_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> int:
        raise BlockingIOError(errno.EAGAIN, "no room")

    monkeypatch.setattr(os, "fork", no_room)
    assert worker_module._forked(None, [], memory=None) == {"error": errno.EAGAIN}  # type: ignore[arg-type]


def test_a_worker_that_does_not_come_leaves_no_handle_open(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    nursery.child(memory=None).end(kill=True)
    monkeypatch.setattr(nursery, "_ask", lambda *_: {"error": errno.EAGAIN})
    before = handles()
    for _ in range(5):
        with pytest.raises(BlockingIOError):
            nursery.child(memory=None)
    assert handles() == before


def test_how_children_ended_is_known_and_none_stays_unburied(nursery: Nursery) -> None:
    children = [nursery.child(memory=None) for _ in range(3)]
    for child in children[:2]:
        child.signal(signal.SIGTERM)
    while Path(f"/proc/{children[0].pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)
    assert children[2].end(kill=True) == -signal.SIGKILL  # the others are looked after, though nobody asked for them
    assert not Path(f"/proc/{children[0].pid}").exists()
    assert [child.end(kill=False) for child in children[:2]] == [-signal.SIGTERM] * 2


def test_a_worker_is_told_where_programs_are_and_nothing_else(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("SAIBOT_DATABASE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "POSTGRES_PASSWORD", "MINIO_KEY", "ANY_OTHER")
    for name in names:
        monkeypatch.setenv(name, "a-secret")
    child = nursery.child(memory=None)
    told = Path(f"/proc/{child.pid}/environ").read_bytes()
    child.end(kill=True)
    assert b"a-secret" not in told and b"PATH=" in told


def test_what_lies_in_the_working_folder_is_not_run(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ctypes.py").write_text("open('owned', 'w').close()")
    monkeypatch.chdir(tmp_path)
    nursery.child(memory=None).end(kill=True)
    assert not (tmp_path / "owned").exists()


# ------------------------------------------------------------------------------------------------ workers that lie


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], tuple[WorkerProcess, Outcome]]:
    """A worker that says this, whatever it is asked, and goes on living."""

    def made(words: bytes, progress: Any = lambda *_: None) -> tuple[WorkerProcess, Outcome]:
        class Liar:
            pid = os.getpid()

            def __init__(self) -> None:
                self.stdout, self._end = os.pipe()
                threading.Thread(target=self._say, daemon=True).start()

            def _say(self) -> None:
                with suppress(OSError):  # nobody listens to the end
                    os.write(self._end, words)

            def tell(self, line: bytes) -> None: ...

            def end(self, *, kill: bool) -> int | None:
                os.close(self.stdout)
                return None

        worker = WorkerProcess()
        monkeypatch.setattr(worker, "_start", lambda *_: setattr(worker, "_process", Liar()) or worker._process)
        outcome = worker.run({}, progress=progress, cancelled=lambda: False, seconds=10)
        return worker, outcome

    return made


@pytest.mark.parametrize(
    "words",
    [
        b"x\n",
        b"[1, 2]\n",
        b"[" * 100_000 + b"\n",
        b'{"over": true}\n',
        b'{"over": true, "holds_much": true, "refused": "no"}\n',
        b'{"over": true, "holds_much": true, "refused": {"code": 1}}\n',
        b'{"stage": {}, "part": 1}\n',
        b'{"stage": "searching"}\n',
        b'{"stage": "searching", "part": NaN}\n',
        b'{"stage": "searching", "part": 1' + b"0" * 400 + b"}\n",
        b'{"stage": "\\ud800", "part": 1}\n',
        b'{"not_confined": 7}\n',
        b'{"over": true, "holds_much": true, "done": -Infinity}\n',
        b"x" * (LONGEST_LINE + (1 << 20)),
    ],
)
def test_what_workers_do_not_say_ends_them(says: Any, words: bytes) -> None:
    worker, outcome = says(words)
    assert outcome.status == "failed" and outcome.error["code"] in ("internal", "worker_died")
    assert worker.pid is None


def test_words_of_two_kinds_say_what_the_first_kind_says(says: Any) -> None:
    heard: list[Any] = []
    last = b'{"over": true, "holds_much": true, "done": true, "stage": 5, "not_confined": 7}\n'
    two = b'{"stage": "a\\u001b[2J' + b"x" * 1000 + b'", "part": 7, "over": 1}\n{"ready": true, "over": 1}\n'
    _, outcome = says(two + last, lambda *said: heard.append(said))
    assert outcome.status == "done"
    assert heard == [("a [2J" + "x" * (LONGEST_WORDS - 5), 1.0)]


def test_a_worker_does_not_stay_because_it_says_so(says: Any) -> None:
    worker, outcome = says(b'{"over": true, "holds_much": true, "done": true}\n')
    assert outcome.status == "done" and worker.pid is None
