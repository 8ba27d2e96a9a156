"""What workers do: search, pack shards, learn from sketches, read strangers' files. One task, one JSON document in, one out.

All of what tasks need is loaded with this module and `load`, in the process that workers are forked from: what each loaded
for itself would be there once for each, take longer than most searches, and be read by a process that is confined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saibot.domains import DomainRegistry, KnownDomains, vocabularies
from saibot.errors import SaibotError
from saibot.platform.errors import error_document
from saibot.platform.packing import Packing
from saibot.platform.reading import read_here
from saibot.safe_file import write_safely
from saibot.search import Corpus, search
from saibot.search.corpus import PreparedValues
from saibot.search.document import result_of
from saibot.search.from_sketches import search_request
from saibot.search.learning import lessons
from saibot.search.scored_sweep import compile_sweep
from saibot.sketch import Header, read_sketch
from saibot.wire import Question, Result

RETRIES = 5
REMEMBERED_KEYS = 60_000  # of lists in a search; longer ones are read when they are needed, one at a time

# What functions load where they use it; what only a GPU or Spark needs is left to them.
LATE = (
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "datasketch",
    "encodings.utf_8_sig",
    "saibot.platform.sent_keys",
    "saibot.platform.validation",
    "saibot.search.expected",
)

Progress = Callable[[str, float | None], None]


def load() -> None:
    """What is loaded, or compiled, at its first use."""
    for name in LATE:
        import_module(name)
    pa.array(np.zeros(1))  # looks for other libraries
    compile_sweep()  # what was compiled is kept here, in a place that workers cannot write to
    vocabularies.catalogue()


def pack(task: dict[str, Any]) -> dict[str, Any]:
    """Change the shards."""
    install = [PreparedValues(**one) for one in task["install"]]
    terms = {name: task[name] for name in ("add", "remove", "providers")}
    return Packing(Path(task["folder"])).apply(**terms, install=install) | {"done": True}


def learn(task: dict[str, Any]) -> dict[str, Any]:
    """Write what sketches have in common, and the values that it improves, beside what is in use."""
    corpus = Corpus(Path(task["folder"]))
    found = lessons(corpus, providers=task["providers"], teachers=set(task["teachers"]))
    return {"prepared": [asdict(prepared) for prepared in found], "done": True}


def read(task: dict[str, Any]) -> dict[str, Any]:
    """A file from a stranger: what is in it is written anew, or refused."""
    try:
        return read_here(**task) | {"done": True}
    except SaibotError as problem:
        return {"refused": error_document(problem)["error"]}


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """One search: the request's sketches from its folder, the result into it."""
    for attempt in range(RETRIES):
        try:
            found = _search(task, progress)
        except FileNotFoundError:
            if attempt == RETRIES - 1:
                raise
            continue  # a shard was rewritten between the index and now: look at the index again
        except SaibotError as problem:
            return {"refused": error_document(problem)["error"]}
        write_safely(Path(task["folder"]) / "result.json", found.text().encode())
        return {"done": True}
    raise AssertionError


class _AddableCorpus(Corpus):
    """With the headers of those sketches that could be added."""

    addable: Collection[str] = ()

    @cached_property
    def headers(self) -> dict[str, Header]:
        known = set(self.digests) - self.hidden if self.addable else set()  # of all, which takes a while to read
        return {digest: self.sketch(digest).header for digest in self.addable if digest in known}


def _search(task: dict[str, Any], progress: Progress) -> Result:
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
    corpus = _AddableCorpus(Path(task["corpus"])).for_provider(task["account"]).without(task["hidden"])
    corpus = corpus.with_verified(task["verified"])
    corpus.addable = task["addable"]
    corpus.remember(REMEMBERED_KEYS)
    found = search(request, corpus, question.on(**task["on"]), progress=progress)
    progress("writing the result", 1.0)
    return result_of(found, request, corpus, at_home=False)
