"""A process that runs searches, or packs shards, one after the other: tasks come in as JSON lines, answers go out so.

It ends when the platform does: a thread watches the input, which the platform holds open as long as it lives. Nothing but
the answers leaves it: error messages of libraries may quote what they were handling.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import resource
import sys
import threading
import traceback
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from saibot.platform.freed_memory import return_what_is_freed

if TYPE_CHECKING:
    from saibot.wire import Result

RETRIES = 5
_NO_NEW_PRIVILEGES = 38  # as prctl(2) numbers it
NICENESS = 15  # answering people goes before searching
REMEMBERED_KEYS = 300_000  # of lists in a search; longer ones are read when they are needed, one at a time


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.nice(NICENESS)
    return_what_is_freed()
    _limit_itself(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    tasks: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    import saibot.search  # noqa: F401  (loaded before the first task comes)

    _say(answers, {"ready": True})
    while True:
        task = json.loads(tasks.get())
        try:
            if "pack" in task:
                _say(answers, pack(task["pack"]))
            elif "learn" in task:
                _say(answers, learn(task["learn"]))
            elif "read" in task:
                _say(answers, read(task["read"]))
            else:
                _say(answers, run(task, lambda stage, part: _say(answers, {"stage": stage, "part": part})))
        except Exception as problem:
            frames = traceback.extract_tb(problem.__traceback__)[-6:]
            places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
            _say(answers, {"broken": type(problem).__name__, "at": places})


def _limit_itself(memory: int | None) -> None:
    """So many bytes to allocate, files of a size, no cores left behind, and nothing gained by running another program."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold what requesters sent
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with suppress(OSError, AttributeError):  # Linux: no setuid program gives a worker more than it has
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def _listen(tasks: queue.Queue[str]) -> None:
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def pack(task: dict[str, Any]) -> dict[str, Any]:
    """Change the shards."""
    packing = _packing(task["folder"])
    from saibot.search.corpus import PreparedValues

    install = [PreparedValues(**one) for one in task["install"]]
    terms = {name: task[name] for name in ("add", "remove", "providers")}
    answer: dict[str, Any] = packing.apply(**terms, install=install)
    return answer | {"done": True}


def learn(task: dict[str, Any]) -> dict[str, Any]:
    """Write what sketches have in common, and the values that it improves, beside what is in use."""
    from dataclasses import asdict

    from saibot.search.corpus import Corpus
    from saibot.search.learning import lessons

    corpus = Corpus(Path(task["folder"]))
    found = lessons(corpus, providers=task["providers"], teachers=set(task["teachers"]))
    return {"prepared": [asdict(prepared) for prepared in found], "done": True}


def read(task: dict[str, Any]) -> dict[str, Any]:
    """A file from a stranger: what is in it is written anew, or refused."""
    from saibot.errors import SaibotError
    from saibot.platform.errors import error_document
    from saibot.platform.reading import read_here

    try:
        return read_here(**task) | {"done": True}
    except SaibotError as problem:
        return {"refused": error_document(problem)["error"]}


@lru_cache(1)
def _packing(folder: str) -> Any:
    from saibot.platform.packing import Packing

    return Packing(Path(folder))


def run(task: dict[str, Any], progress: Any) -> dict[str, Any]:
    """One search: the request's sketches from its folder, the result into it."""
    from saibot.errors import SaibotError
    from saibot.platform.errors import error_document

    for attempt in range(RETRIES):
        try:
            found = _search(task, progress)
        except FileNotFoundError:
            if attempt == RETRIES - 1:
                raise
            continue  # a shard was rewritten between the index and now: look at the index again
        except SaibotError as problem:
            return {"refused": error_document(problem)["error"]}
        from saibot.safe_file import write_safely

        write_safely(Path(task["folder"]) / "result.json", found.text().encode())
        return {"done": True}
    raise AssertionError


def _search(task: dict[str, Any], progress: Any) -> Result:
    from saibot.domains import DomainRegistry, KnownDomains
    from saibot.search import search
    from saibot.search.corpus import Corpus
    from saibot.search.document import result_of
    from saibot.search.from_sketches import search_request
    from saibot.sketch import Header, read_sketch
    from saibot.wire import Question

    class AddableCorpus(Corpus):
        """With the headers of those sketches that could be added."""

        @cached_property
        def headers(self) -> dict[str, Header]:
            known = set(self.digests) - self.hidden if task["addable"] else set()  # of all, which takes a while to read
            return {digest: self.sketch(digest).header for digest in task["addable"] if digest in known}

    folder, question = Path(task["folder"]), Question.read(task["question"])
    progress("reading the request", None)
    test = folder / "test.saibot"
    request = search_request(
        read_sketch(folder / "train.saibot"),
        read_sketch(test) if test.exists() else None,
        target=question.target,
        features=question.features,
        domains=KnownDomains.of(registry=DomainRegistry(Path(task["corpus"]) / "domains")),
    )
    corpus = AddableCorpus(Path(task["corpus"])).for_provider(task["account"]).without(task["hidden"])
    corpus = corpus.with_verified(task["verified"])
    corpus.remember(REMEMBERED_KEYS)
    found = search(request, corpus, question.on(**task["on"]), progress=progress)
    progress("writing the result", 1.0)
    return result_of(found, request, corpus, at_home=False)


if __name__ == "__main__":
    main()
