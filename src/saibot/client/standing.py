"""Who stands behind what a search at home found: checked against the sketches themselves, as far as they are signed.

In a folder of sketches a provider is the key that signed. The folder's index says who that was; whoever packed it may have
written anything there, so what is shown is read from the sketches again, and their signatures are checked.
"""

from __future__ import annotations

from contextlib import suppress

from saibot.client.known_signers import KnownSigners
from saibot.errors import InvalidSketch
from saibot.search import Corpus, SearchOptions
from saibot.sketch import PublicKey, signer_of
from saibot.wire import ProviderStanding, Result


def with_standings(result: Result, corpus: Corpus, signers: KnownSigners | None = None) -> Result:
    """The same result, its signatures checked, with what is known here of those who are named in it."""
    claimed = {one.digest for one in (*result.ranked, *result.steps) if one.signer is not None}
    keys = {digest: _signer(corpus, digest) for digest in claimed}
    wrong = {one.digest for one in (*result.ranked, *result.steps) if one.signer and one.signer != _text(keys[one.digest])}
    if wrong:
        names = ", ".join(sorted({corpus.name_of(digest) for digest in wrong}))
        note = f"this corpus says of {names} that somebody signed it, and nobody did: pack its sketches anew"
        unsigned = {"signer": None, "provider": None}
        result = result.but(
            ranked=tuple(one.but(**unsigned) if one.digest in wrong else one for one in result.ranked),
            steps=tuple(one.but(**unsigned) if one.digest in wrong else one for one in result.steps),
            notes=(*result.notes, note),
        )
    if not result.named_providers:
        return result
    by_name = {key.fingerprint: key for key in keys.values() if key is not None}
    counted, known = corpus.sketches_of(), signers or KnownSigners()
    standings = []
    for name in result.named_providers:
        key = by_name.get(name)
        standings.append(
            ProviderStanding(
                name=name,
                verified=name in corpus.verified,
                datasets=len(counted.get(name, ())),
                key=None if key is None else key.text,
                fingerprint=None if key is None else key.fingerprint,
                known_as=None if key is None else known.name_of(key.fingerprint),
            )
        )
    return result.but(providers=tuple(standings))


def by_known_names(options: SearchOptions, corpus: Corpus, signers: KnownSigners | None = None) -> SearchOptions:
    """The options with fingerprints in the place of names that this machine knows keys by."""
    if not options.providers:
        return options
    there, known = corpus.sketches_of(), (signers or KnownSigners()).read()
    met = {account: PublicKey.read(key).fingerprint for accounts in known.values() for account, key in accounts.items()}
    return options.but(providers=tuple(name if name in there else met.get(name, name) for name in options.providers))


def _signer(corpus: Corpus, digest: str) -> PublicKey | None:
    with suppress(InvalidSketch, OSError):
        return signer_of(corpus.sketch(digest).header)
    return None


def _text(key: PublicKey | None) -> str | None:
    return None if key is None else key.fingerprint
