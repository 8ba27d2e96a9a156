"""Keep the factors of a corpus's key domains in step with its sketches.

Learning reads the clearest sketches of a domain; all of its sketches then get better values. Searches go on meanwhile with
the values there are: the corpus changes in one step at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from saibot.errors import InvalidSketch
from saibot.estimate.factors import KeyTree
from saibot.search.corpus import Corpus, PreparedValues
from saibot.search.shared_factors import FEWEST, SharedFactors, key_tree, learn_shared, nothing_shared
from saibot.sketch import Header, Sketch, signer_of

MOST_TEACHERS = 2000  # sketches of a domain that factors are learned from: the clearest ones
GROWN = 1.2  # times as many sketches as were there at the last lesson make another one due


def learn(
    corpus: Corpus,
    *,
    providers: Mapping[str, str] | None = None,
    teachers: Collection[str] | None = None,
    progress: Callable[[str, float | None], None] = lambda stage, part: None,
) -> list[str]:
    """Learn the factors of key domains where that is due, and use them; which domains those were."""
    found = []
    for prepared in lessons(corpus, providers=providers, teachers=teachers, progress=progress):
        corpus.install(prepared)
        found.append(prepared.key)
    return found


def lessons(
    corpus: Corpus,
    *,
    providers: Mapping[str, str] | None = None,
    teachers: Collection[str] | None = None,
    progress: Callable[[str, float | None], None] = lambda stage, part: None,
) -> Iterator[PreparedValues]:
    """The same, prepared beside what is in use, for whoever changes the corpus to install.

    It is due where nothing was learned yet, where a domain has grown by a fifth since, and where something that taught was
    withdrawn or may teach no longer, or an open table may teach that did not. `providers` names the provider of each sketch
    by digest; by default that is the key that signed it, and where nobody did, its own word. `teachers` are the digests that
    may teach; by default all but open tables, for whose sources nobody has vouched.
    """
    due = [id for id in corpus.key_ids if is_due(corpus, id, teachers)]
    for done, id in enumerate(due):
        digests = corpus.digests_with(id)
        progress(f"learning what {len(digests):,} sketches have in common", done / len(due))
        yield corpus.prepare(lesson(corpus, id, digests, providers or {}, teachers))


def is_due(corpus: Corpus, id: str, teachers: Collection[str] | None = None) -> bool:
    learned = corpus.learned(id)
    if learned is None or learned.withdrawn:
        return True
    if len(digests := corpus.digests_with(id)) >= GROWN * max(learned.sketches, 1):
        return True
    may, taught = set(_may_teach(corpus, id, digests, teachers)), set(corpus.factors_named(learned.version).taught)
    if taught - may:
        return True
    return len(may) >= FEWEST and len(taught) < MOST_TEACHERS and bool((corpus.open_with(id) & may) - taught)


def _may_teach(corpus: Corpus, id: str, digests: Sequence[str], teachers: Collection[str] | None) -> list[str]:
    if teachers is not None:
        return [digest for digest in digests if digest in teachers]
    is_open = corpus.open_with(id)
    return [digest for digest in digests if digest not in is_open]


def lesson(
    corpus: Corpus, id: str, digests: Sequence[str], providers: Mapping[str, str], teachers: Collection[str] | None
) -> SharedFactors:
    """The factors that the clearest of these sketches have in common, as far as they may teach."""
    signal = corpus.signal(id)
    may = _may_teach(corpus, id, digests, teachers)
    chosen = sorted(may, key=lambda digest: -signal.get(digest, 0.0))[:MOST_TEACHERS]
    sketches = [sketch for digest in chosen if (sketch := _stored(corpus, digest)) is not None]
    if not sketches:
        return nothing_shared(id, KeyTree(corpus.keys_in(id)))
    domain = next((one for sketch in sketches if (one := corpus.domain_of(sketch)) is not None), None)
    named = [providers.get(sketch.digest) or provider_of(sketch.header) for sketch in sketches]
    return learn_shared(id, sketches, key_tree(sketches, domain), domain, named)


def provider_of(header: Header) -> str:
    """Who published a sketch, as far as it says so itself: the key that signed it, or else a name that nobody vouches for.

    Whatever accounts sketches claim, one key is one provider, and has a fifth of what is learned at most.
    """
    key = signer_of(header)
    return header.account or header.dataset.name if key is None else key.fingerprint


def owner(corpus: Corpus, datasets: Collection[str]) -> str | None:
    """Who published a dataset with one of these names or digests: the account of a platform, where that is known, or as far
    as the sketches of a corpus say so."""
    for digest in corpus.digests if datasets else ():
        if (digest in datasets or corpus.name_of(digest) in datasets) and (sketch := _stored(corpus, digest)):
            return corpus.entries([digest])[digest].provider or provider_of(sketch.header)
    return None


def _stored(corpus: Corpus, digest: str) -> Sketch | None:
    with suppress(InvalidSketch, OSError):  # bare values of an experiment, or it is being withdrawn
        return corpus.sketch(digest)
    return None
