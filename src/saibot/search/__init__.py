"""Which augmentation helps: every candidate scored in one sweep, greedy search over them, and the reasons."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from saibot.search import rankings as _rankings  # noqa: F401  (whoever searches knows how candidates can be ranked)
    from saibot.wire import SearchOptions
except ModuleNotFoundError as missing:
    if missing.name != "pydantic":  # without it sweeps and scores work all the same: machines with a GPU have little else
        raise

if TYPE_CHECKING:
    from saibot.search.corpus import Corpus
    from saibot.search.found import SearchResult
    from saibot.search.greedy import Greedy
    from saibot.search.key_maps import RequestKey
    from saibot.search.request import SearchRequest
    from saibot.search.strategies import Strategy, search

__all__ = ["Corpus", "Greedy", "RequestKey", "SearchOptions", "SearchRequest", "SearchResult", "Strategy", "search"]
_PLACES = {
    "Corpus": "corpus",
    "Greedy": "greedy",
    "RequestKey": "key_maps",
    "SearchRequest": "request",
    "SearchResult": "found",
    "Strategy": "strategies",
    "search": "strategies",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: the command line needs the rankings' names alone, and scipy takes a second."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
