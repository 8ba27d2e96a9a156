"""Workers find everything loaded: what one loads for itself takes longer than its search, and memory once for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from saibot.search.corpus import Corpus
from saibot.sketch import SUFFIX, Sketch, write_sketch
from saibot.wire import RANKINGS, Question

IN_A_PROCESS_OF_ITS_OWN = """
import json, sys
from saibot.platform.jobs import tasks

tasks.load()
loaded = set(sys.modules)
for kind, task in json.loads(sys.stdin.read()):
    answer = getattr(tasks, kind)(task) if kind != "run" else tasks.run(task, lambda *_: None)
    assert answer.get("done"), (kind, answer)
print(json.dumps(sorted(set(sys.modules) - loaded)))
"""

OPTIONS: list[dict[str, Any]] = [
    *({"rank": ranking} for ranking in RANKINGS),
    {"shared": True, "hops": True, "whole_datasets": True},
    {"strategy": "exhaustive"},
]


def test_tasks_find_everything_loaded(made_sketches: dict[str, Sketch], tmp_path: Path) -> None:
    corpus, request = tmp_path / "corpus", tmp_path / "request"
    Corpus.create(corpus)
    (corpus / "sketches").mkdir(exist_ok=True)
    request.mkdir()
    stored = [made_sketches[name] for name in ("good", "useless", "whole")]
    digests = [sketch.header.digest for sketch in stored]
    for sketch in stored:
        (corpus / "sketches" / f"{sketch.header.digest}{SUFFIX}").write_bytes(write_sketch(sketch))
    for name in ("train", "test"):
        (request / f"{name}.saibot").write_bytes(write_sketch(made_sketches[name]))
    (request / "keys.csv").write_text("shop\n01\n02\n")

    search = {"folder": str(request), "corpus": str(corpus), "account": "me", "hidden": [], "verified": []}
    search |= {"addable": digests, "on": {"engine": "threads"}}
    read = {
        "kind": "sketch",
        "source": str(request / "train.saibot"),
        "target": str(request / "read"),
        "accept_unsafe": True,
    }
    keys = {"kind": "keys", "source": str(request / "keys.csv"), "target": str(request / "domain")}
    tasks = [
        ("read", read),
        ("read", keys | {"id": "shops-here", "version": 1, "most": 100}),
        ("read", {"kind": "csv", "source": str(request / "domain"), "target": str(request / "csv")}),
        ("pack", {"folder": str(corpus), "add": digests, "remove": [], "providers": {}, "install": []}),
        ("learn", {"folder": str(corpus), "providers": {}, "teachers": digests}),
        *(("run", search | {"question": Question(target="sales", **one).model_dump_json()}) for one in OPTIONS),
    ]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN],
        input=json.dumps(tasks),
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},  # as the nursery has it
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
