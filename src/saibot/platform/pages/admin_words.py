"""What the page of administration calls things: facts of the trail, files on the disk, and how far a search is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from saibot.report.format import count, day, delta, epsilon, number, percent
from saibot.wire import Search

SHORT = 12  # letters of a digest
_DIGEST = re.compile(r"[0-9a-f]{40,}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_KEPT = (  # under the platform's folder: what a name begins with, and what that is
    ("saibot.db", "Database"),
    ("sketches", "Published sketches and registered lists of keys"),
    ("corpus", "What searches read: sketches packed together, lists of keys, shared factors"),
    ("searches", "Requests of searches under way, and results"),
    ("cache", "Files that are made from others when they are missing"),
    ("incoming", "Uploads while they are checked"),
    ("reserve", "Put by: with it, a full disk still lets anybody withdraw"),
    ("admin-token", "The first admin's token"),
    ("server", "What this server is called among others"),
    ("lock", "Keeps a second server out of this folder"),
)


@dataclass(frozen=True)
class Told:
    """A fact of the trail: its name, what a page shows of it, and all of it where that is less."""

    name: str
    text: str
    whole: str = ""


def facts_told(facts: Mapping[str, Any]) -> list[Told]:
    """Facts as people read them, those with a value."""
    return [_told(name.replace("_", " "), value) for name, value in facts.items() if value not in (None, "", [], {})]


def kept_on_disk(sizes: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """What it is, names of the files, and bytes; the largest first. Files of one thing are told together."""
    found: dict[str, list[str]] = {}
    for name in sorted(sizes):
        what = next((words for start, words in _KEPT if name.startswith(start)), "Not of this platform")
        found.setdefault(what, []).append(name)
    told = [(words, ", ".join(names), sum(sizes[name] for name in names)) for words, names in found.items()]
    return sorted(told, key=lambda one: (-one[2], one[0]))


def how_far(search: Search) -> str:
    """How a search stands beyond its status, in some words."""
    if search.error is not None:
        return search.error.message
    if search.status == "running":
        part = search.progress.part
        return (search.progress.stage or "starting") + ("" if part is None else f", {percent(part)}")
    if search.status == "queued":
        return search.progress.stage
    seconds = taken(search)
    return "" if seconds is None else f"took {number(seconds, 2)} s"


def taken(search: Search) -> float | None:
    """Seconds that a search ran."""
    if not search.started or not search.finished:
        return None
    ran = datetime.fromisoformat(search.finished) - datetime.fromisoformat(search.started)
    return max(ran.total_seconds(), 0.0)


def _told(name: str, value: Any) -> Told:
    if isinstance(value, Mapping):
        if value.keys() >= {"epsilon", "delta"}:
            return Told(name, f"ε\u00a0{epsilon(value['epsilon'])}, δ\u00a0{delta(value['delta'])}")
        return Told(name, ", ".join(f"{one.name} {one.text}" for one in facts_told(value)))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return Told(name, ", ".join(_told(name, one).text for one in value))
    if isinstance(value, bool):
        return Told(name, "yes" if value else "no")
    if isinstance(value, int):
        return Told(name, count(value))
    if isinstance(value, float):
        return Told(name, number(value))
    text = str(value)
    if _DIGEST.fullmatch(text):
        return Told(name, f"{text[:SHORT]}…", text)
    return Told(name, _moment(text), text if _MOMENT.fullmatch(text) else "")


def _moment(text: str) -> str:
    try:
        return day(text) if _MOMENT.fullmatch(text) else text
    except ValueError:  # what somebody called something only looks like a day
        return text
