"""The requester's side: ask with tables or sketches, and use what was found.

corpus = Corpus(Path("corpus"))
request = local_request("train.csv", test="test.csv", target="delay", keys=["day"], domains=Domains(corpus))
found = find_augmentation(request, corpus)
found.to_frame(); found.plot("gains.png"); found.augment(frame); found.model().predict(frame); found.save("result.json")
"""

from saibot.client.augmented import Augmented, find_augmentation
from saibot.client.domains import Domains
from saibot.client.local import local_request
from saibot.client.model import LinearModel
from saibot.client.packing import Packed, pack_sketches
from saibot.client.request import private_request
from saibot.client.values import ValueSource
from saibot.search import Corpus, SearchOptions, SearchRequest
from saibot.search.terms import KeyColumn

__all__ = [
    "Augmented",
    "Corpus",
    "Domains",
    "KeyColumn",
    "LinearModel",
    "Packed",
    "SearchOptions",
    "SearchRequest",
    "ValueSource",
    "find_augmentation",
    "local_request",
    "pack_sketches",
    "private_request",
]
