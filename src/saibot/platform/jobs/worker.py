"""Processes that search, pack shards or read strangers' files: tasks come in as JSON lines, answers go out so.

They are forked from one that has loaded everything (`main`; the platform's side of it is `nursery`). All end when the
platform does: a thread watches the input, which the platform holds open as long as it lives. Nothing but the answers leaves
them: error messages of libraries may quote what they were handling.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import resource
import socket
import sys
import threading
import traceback
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TextIO

from saibot.platform.freed_memory import return_what_is_freed
from saibot.platform.jobs.confinement import confine, give_up_privileges

NICENESS = 15  # answering people goes before searching
REMEMBERED_CHILDREN = 1000
FIRST_TO_GO = 500  # of 1000, added to what the system thinks itself
LARGEST_FILE = 4 << 30  # that is written of what one stranger sent


def main() -> None:
    """The process that workers are forked from: asked for one, by a line that ends with the platform, it says its number."""
    return_what_is_freed()
    from saibot.platform.jobs import tasks

    tasks.load()
    os.nice(NICENESS)  # from here on: whoever waits for the first worker should not wait for everybody else
    gc.collect()
    gc.freeze()  # what is looked through for garbage is written to, and shared no longer
    control = socket.socket(fileno=int(sys.argv[1]))
    codes: dict[int, int] = {}  # of children that have ended
    while True:
        message, handles, _, _ = socket.recv_fds(control, 4096, 2)
        if not message:
            os._exit(0)
        asked = json.loads(message)
        _reap(codes)
        if "ended" in asked:
            answer = _ended(asked["ended"], codes)
        else:
            answer = _forked(control, handles, memory=asked["memory"])
        for handle in handles:
            os.close(handle)
        control.send(json.dumps(answer | {"number": asked["number"]}).encode())


def _forked(control: socket.socket, handles: list[int], *, memory: int | None) -> dict[str, Any]:
    """A new worker's number, or why the system gives none."""
    try:
        pid = os.fork()
    except OSError as problem:
        return {"error": problem.errno}
    if pid == 0:
        control.close()
        work(*handles, memory=memory)
    return {"pid": pid}


def _reap(codes: dict[int, int]) -> None:
    """How each child ended that has; of the last ones, for nobody may ask for some."""
    with suppress(ChildProcessError):  # there is none
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            codes[pid] = os.waitstatus_to_exitcode(status)
    while len(codes) > REMEMBERED_CHILDREN:
        del codes[next(iter(codes))]


def _ended(child: int, codes: dict[int, int]) -> dict[str, Any]:
    if child in codes:
        return {"over": True, "code": codes.pop(child)}
    try:
        os.kill(child, 0)  # of another process that was here before
    except ProcessLookupError:
        return {"over": True, "code": None}
    return {"over": False, "code": None}


def work(stdin: int, stdout: int, *, memory: int | None) -> NoReturn:
    """One task, or one after the other, until the platform has ended or stops this process."""
    from saibot.platform.jobs import tasks

    os.setpgid(0, 0)
    os.dup2(stdin, 0)
    answers = os.fdopen(os.dup(stdout), "w", encoding="utf-8")
    os.close(stdin)
    os.close(stdout)
    _limit_itself(memory)
    _say(answers, {"ready": True})
    first = sys.stdin.readline()
    if not first:
        os._exit(0)
    waiting: queue.Queue[str] = queue.Queue()
    waiting.put(first)
    lacking = _confine_itself(json.loads(first))  # before there is a second thread
    if lacking is not None:
        _say(answers, {"not_confined": lacking})
    threading.Thread(target=_listen, args=(waiting,), daemon=True).start()
    while True:
        task = json.loads(waiting.get())
        _limit_processor(task["seconds"], for_good="stays" not in task)
        try:
            if "pack" in task:
                found = tasks.pack(task["pack"])
            elif "learn" in task:
                found = tasks.learn(task["learn"])
            elif "read" in task:
                found = tasks.read(task["read"])
            else:
                found = tasks.run(task, lambda stage, part: _say(answers, {"stage": stage, "part": part}))
        except Exception as problem:
            frames = traceback.extract_tb(problem.__traceback__)[-6:]
            places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
            found = {"broken": type(problem).__name__, "at": places}
        _say(answers, found | {"over": True, "holds_much": "torch" in sys.modules or "pyspark" in sys.modules})


def _limit_itself(memory: int | None) -> None:
    """So many bytes to allocate, no cores left behind, the first to go where the machine's memory ends, and nothing gained
    by running another program."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold what requesters sent
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO))
    give_up_privileges()


def _limit_processor(seconds: float, *, for_good: bool) -> None:
    """The platform ends a task after so many seconds. Should it not be there to do so, the system does, when all processors
    have worked on it for so long."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(min(used.ru_utime + used.ru_stime + seconds * (os.cpu_count() or 1), 1e9)) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most if for_good else resource.RLIM_INFINITY))


def _confine_itself(task: dict[str, Any]) -> list[str] | None:
    """To the folders of its task; what of it the system does not do. One that searches on a GPU or a cluster talks to
    devices and other machines, and is not confined at all: None."""
    if "read" in task:
        facts = task["read"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        return confine(looks_at=[facts["source"]], changes=[str(Path(facts["target"]).parent)])
    if "pack" in task or "learn" in task:
        return confine(looks_at=[], changes=[(task.get("pack") or task["learn"])["folder"]])
    if task["on"]["engine"] == "spark" or (task["on"]["engine"] != "threads" and _may_have_gpu()):
        return None
    return confine(looks_at=[task["corpus"]], changes=[task["folder"]])


def _may_have_gpu() -> bool:
    """Without asking its library, which starts threads."""
    return find_spec("torch") is not None and any(Path("/dev").glob("nvidia[0-9]*"))


def _listen(waiting: queue.Queue[str]) -> None:
    for line in sys.stdin:
        waiting.put(line)
    os._exit(0)


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
