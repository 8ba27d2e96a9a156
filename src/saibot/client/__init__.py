"""SDK of providers and requesters: make sketches and publish them, ask with tables or sketches, use what was found.

platform = Platform("https://saibot.example.org", token="saibot_...")
provider = Provider(platform); provider.publish(provider.privatize("t.csv", "t.toml", epsilon="1", key="day"))
found = Requester(platform).search("train.csv", "test.csv", target="delay", key="day", local=True)

The same without a platform, on a folder of sketches:

corpus = Corpus(Path("corpus"))
request = local_request("train.csv", test="test.csv", target="delay", keys=["day"], domains=Domains(corpus))
found = find_augmentation(request, corpus)
found.to_frame(); found.plot("gains.png"); found.report("found.html")
found.augment(frame); found.model().predict(frame); found.save("result.json")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from saibot.extras import missing_extra

if TYPE_CHECKING:
    from saibot.client.augmented import Augmented, find_augmentation
    from saibot.client.cache import SketchCache
    from saibot.client.config import Config, connect
    from saibot.client.discovering import discover
    from saibot.client.domains import Domains
    from saibot.client.enquiring import Enquiries
    from saibot.client.errors import (
        NotAllowed,
        NotFound,
        PlatformBusy,
        PlatformError,
        PlatformUnreachable,
        SearchFailed,
    )
    from saibot.client.exact_request import local_request
    from saibot.client.job import Job
    from saibot.client.kept import Kept
    from saibot.client.known_signers import KnownSigners
    from saibot.client.model import LinearModel
    from saibot.client.open_tables import open_sketches
    from saibot.client.packing import Packed, pack_sketches
    from saibot.client.platform import Platform
    from saibot.client.provider import Provider
    from saibot.client.remote_corpus import Published
    from saibot.client.requester import Requester
    from saibot.client.signing_keys import SigningKeys
    from saibot.client.sketch_request import private_request
    from saibot.client.synthesizing import synthesize
    from saibot.client.values import ValueSource
    from saibot.search import Corpus, SearchOptions, SearchRequest
    from saibot.search.units import KeyColumn
    from saibot.wire import Account, Dataset, Domain, Enquiry, NewToken, ProviderStanding, Search, Token

__all__ = [
    "Account",
    "Augmented",
    "Config",
    "Corpus",
    "Dataset",
    "Domain",
    "Domains",
    "Enquiries",
    "Enquiry",
    "Job",
    "Kept",
    "KeyColumn",
    "KnownSigners",
    "LinearModel",
    "NewToken",
    "NotAllowed",
    "NotFound",
    "Packed",
    "Platform",
    "PlatformBusy",
    "PlatformError",
    "PlatformUnreachable",
    "Provider",
    "ProviderStanding",
    "Published",
    "Requester",
    "Search",
    "SearchFailed",
    "SearchOptions",
    "SearchRequest",
    "SigningKeys",
    "SketchCache",
    "Token",
    "ValueSource",
    "connect",
    "discover",
    "find_augmentation",
    "local_request",
    "open_sketches",
    "pack_sketches",
    "private_request",
    "synthesize",
]

_WHERE = {
    "saibot.client.augmented": (
        "Augmented",
        "find_augmentation",
    ),
    "saibot.client.cache": ("SketchCache",),
    "saibot.client.config": (
        "Config",
        "connect",
    ),
    "saibot.client.discovering": ("discover",),
    "saibot.client.domains": ("Domains",),
    "saibot.client.enquiring": ("Enquiries",),
    "saibot.client.errors": (
        "NotAllowed",
        "NotFound",
        "PlatformBusy",
        "PlatformError",
        "PlatformUnreachable",
        "SearchFailed",
    ),
    "saibot.client.exact_request": ("local_request",),
    "saibot.client.job": ("Job",),
    "saibot.client.kept": ("Kept",),
    "saibot.client.known_signers": ("KnownSigners",),
    "saibot.client.model": ("LinearModel",),
    "saibot.client.open_tables": ("open_sketches",),
    "saibot.client.packing": (
        "Packed",
        "pack_sketches",
    ),
    "saibot.client.platform": ("Platform",),
    "saibot.client.provider": ("Provider",),
    "saibot.client.remote_corpus": ("Published",),
    "saibot.client.requester": ("Requester",),
    "saibot.client.signing_keys": ("SigningKeys",),
    "saibot.client.sketch_request": ("private_request",),
    "saibot.client.synthesizing": ("synthesize",),
    "saibot.client.values": ("ValueSource",),
    "saibot.search": (
        "Corpus",
        "SearchOptions",
        "SearchRequest",
    ),
    "saibot.search.units": ("KeyColumn",),
    "saibot.wire": (
        "Account",
        "Dataset",
        "Domain",
        "Enquiry",
        "NewToken",
        "ProviderStanding",
        "Search",
        "Token",
    ),
}
_ROOM = {name: room for room, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: who talks to a platform needs neither scipy nor a database engine."""
    if name not in _ROOM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(_ROOM[name]), name)
    except ModuleNotFoundError as problem:
        raise missing_extra(problem) or problem from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
