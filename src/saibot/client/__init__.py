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

from saibot.client.augmented import Augmented, find_augmentation
from saibot.client.cache import SketchCache
from saibot.client.config import Config, connect
from saibot.client.discovering import discover
from saibot.client.domains import Domains
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
from saibot.client.model import LinearModel
from saibot.client.open_tables import open_sketches
from saibot.client.packing import Packed, pack_sketches
from saibot.client.platform import Platform
from saibot.client.provider import Provider
from saibot.client.remote_corpus import Published
from saibot.client.requester import Requester
from saibot.client.sketch_request import private_request
from saibot.client.synthesizing import synthesize
from saibot.client.values import ValueSource
from saibot.search import Corpus, SearchOptions, SearchRequest
from saibot.search.units import KeyColumn
from saibot.wire import Account, Dataset, Domain, NewToken, Search, Token

__all__ = [
    "Account",
    "Augmented",
    "Config",
    "Corpus",
    "Dataset",
    "Domain",
    "Domains",
    "Job",
    "Kept",
    "KeyColumn",
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
    "Published",
    "Requester",
    "Search",
    "SearchFailed",
    "SearchOptions",
    "SearchRequest",
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
