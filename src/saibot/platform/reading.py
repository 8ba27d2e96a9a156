"""Large files from strangers are read in a process of their own, which cannot take much memory or time, nor anything else.

What such a file holds is written anew by that process, and only this is read by the platform. Small files are read where
they arrive: what they can cost is bounded by their size.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from saibot.platform.errors import Unusable
from saibot.platform.freed_memory import allocated_bytes
from saibot.platform.jobs.heavy import heavy
from saibot.safe_arrow import mapped

LARGE = 256 << 10
MEMORY = 1 << 30
SECONDS = 120.0
PATIENCE = 20.0  # for what else the process does: whoever waits holds one of the threads that answer requests


def read_elsewhere(source: Path, kind: str, **facts: Any) -> tuple[pa.Buffer, dict[str, Any]]:
    """What is in a file, written anew and mapped into memory, under no name any more; and what was said of it."""
    # A folder of its own: the process that reads may write there, and should see nobody else's file.
    with tempfile.TemporaryDirectory(prefix="read-", dir=source.parent) as folder:
        target = Path(folder) / "file"
        answer = _run(kind, source=str(source), target=str(target), **facts)
        return mapped(str(target)), answer


def write_csv_elsewhere(source: Path, target: Path) -> None:
    """The file of a key domain as CSV."""
    with tempfile.TemporaryDirectory(prefix="read-", dir=target.parent) as folder:
        made = Path(folder) / "file"
        _run("csv", source=str(source), target=str(made))
        made.replace(target)


@contextmanager
def on_disk(content: bytes | memoryview | Path) -> Iterator[Path]:
    """A file with this content: that which it is in, or one for a while."""
    if isinstance(content, Path):
        yield content
        return
    with tempfile.TemporaryDirectory(prefix="saibot-reading-") as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        yield path


def size_of(content: bytes | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _run(kind: str, **facts: Any) -> dict[str, Any]:
    outcome = heavy().run({"read": {"kind": kind} | facts}, seconds=SECONDS, patience=PATIENCE)
    if outcome.status == "done":
        return outcome.answer
    error = outcome.error or {}
    if error.get("code") in ("too_long", "worker_died", "internal"):
        raise Unusable(
            "to check this file takes more memory or time than the platform gives to one file.",
            hint="Send fewer keys or features at a time.",
            code="too_much_work",
        )
    raise Unusable(error["message"], hint=error["hint"], code=error["code"], details=error["details"])


# ------------------------------------------------------------------------------------------------ in the process


def read_sketch_file(source: str, target: str, accept_unsafe: bool) -> dict[str, Any]:
    from saibot.platform.validation import checked_sketch
    from saibot.sketch.file import write_sketch_to

    sketch = checked_sketch(mapped(source), accept_unsafe=accept_unsafe)
    with pa.OSFile(target, "wb") as sink:
        write_sketch_to(sink, sketch)
    return {}


def read_keys_file(source: str, target: str, id: str, version: int, most: int) -> dict[str, Any]:
    from saibot.domains.file import card_of, write_domain_to
    from saibot.platform.sent_keys import read_csv

    domain = read_csv(Path(source), id=id, version=version, most=most)
    card = card_of(domain)
    with pa.OSFile(target, "wb") as sink:
        write_domain_to(sink, domain, card)
    return {"card": card.model_dump_json()}


def write_csv_file(source: str, target: str) -> dict[str, Any]:
    from saibot.domains.csv_text import write_csv
    from saibot.domains.file import read_domain
    from saibot.safe_file import writing

    domain = read_domain(mapped(source), name="file")[1]
    with writing(Path(target)) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        write_csv(domain, file)
    return {}


def read_here(kind: str, **facts: Any) -> dict[str, Any]:
    """In the process: with less memory than it may have for other work, beyond what libraries set aside in earlier work."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    already = allocated_bytes()
    if already:  # elsewhere the limit of the process holds alone
        most = already + MEMORY
        most = most if before[1] == resource.RLIM_INFINITY else min(most, before[1])
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        return KINDS[kind](**facts)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "sketch": read_sketch_file,
    "keys": read_keys_file,
    "csv": write_csv_file,
}
