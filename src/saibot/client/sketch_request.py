"""A private request from sketches or their paths. Its noise goes with it, and anyone may see it.

The other way to ask (`saibot.client.exact_request`) is made of the requester's own rows, exact, and stays at home.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saibot.client.domains import Domains
from saibot.errors import InvalidSketch
from saibot.search import SearchRequest
from saibot.search.from_sketches import search_request
from saibot.sketch import SUFFIX, Sketch, read_sketch


def is_sketch(source: object) -> bool:
    return isinstance(source, Sketch) or (isinstance(source, str | Path) and str(source).endswith(SUFFIX))


def private_request(
    train: Sketch | Path | str,
    *,
    target: str,
    test: Sketch | Path | str | None = None,
    features: Sequence[str] | None = None,
    keys: Sequence[str] = (),
    domains: Domains | None = None,
) -> SearchRequest:
    """A request from sketches, on their own key and every coarser level that its domain is known to have.

    Own features are those named, or all of the sketch but the target.
    `keys`, where given, must name that key or its parts: a private request has the key it was privatised with.
    """
    return search_request(
        open_sketch(train),
        None if test is None else open_sketch(test),
        target=target,
        features=features,
        keys=keys,
        domains=None if domains is None else domains.known,
    )


def open_sketch(source: Sketch | Path | str) -> Sketch:
    """The sketch itself, or the one that lies at a path."""
    if isinstance(source, Sketch):
        return source
    path = Path(source)
    if not path.is_file():
        raise InvalidSketch(f"there is no sketch {path}.", hint="`saibot privatize TABLE` makes one.")
    return read_sketch(path)  # by its path, so that an error names the file and how to make a sketch of a table
