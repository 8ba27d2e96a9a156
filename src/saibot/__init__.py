"""Saibot: differentially private data search.

A provider turns a table about individuals into a *sketch*, noisy sufficient statistics grouped by a join key,
on its own machine and once. A platform that nobody has to trust stores sketches and finds the combination
that most improves a requester's regression; every such use is post-processing and costs no further budget.

    import saibot
    found = saibot.Requester(saibot.connect()).search("mine.csv", target="cost", key="ward", local=True)

What is offered here is loaded when it is first used: `import saibot` itself takes no time.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "saibot.client": (
        *("Augmented", "Corpus", "Platform", "Provider", "Requester", "SearchOptions", "connect"),
        *("find_augmentation", "local_request", "pack_sketches", "synthesize"),
    ),
    "saibot.errors": ("SaibotError",),
    "saibot.privatize": ("Card",),
    "saibot.sketch": ("Sketch", "read_sketch"),
    "saibot.sklearn": ("PrivateAugmenter", "PrivateRegressor"),
}
_ROOM = {name: room for room, names in _WHERE.items() for name in names}

__all__ = ["__version__", *sorted(_ROOM)]


def __getattr__(name: str) -> Any:
    if name not in _ROOM:
        raise AttributeError(f"module 'saibot' has no attribute {name!r}")
    found = getattr(import_module(_ROOM[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
