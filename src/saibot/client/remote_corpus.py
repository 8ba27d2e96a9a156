"""What a platform has published, on this machine: sketches by digest, and slices of the corpus to be searched at home.

Everything is cached by digest, so a sketch crosses the network once. A slice is brought up to date each time: what was
published since is added, what was withdrawn is gone from it.

A slice comes with all that using it can need: every sketch, and every key domain that any of them names. Which requests
that takes depends on what is published and on what is here already, never on anybody's rows. What the platform does not
give at that time is absent for good: the search goes on without, and nothing is asked for later.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from saibot.client.answers import Progress
from saibot.client.cache import SketchCache
from saibot.client.errors import NotFound, PlatformError, PlatformUnreachable
from saibot.client.in_process import ADDRESS
from saibot.client.kept import Kept
from saibot.client.known_signers import KnownSigners
from saibot.client.packing import Packed, pack_sketches
from saibot.client.platform import Platform
from saibot.client.transport import PASSING
from saibot.domains import DomainRegistry, KnownDomains, NamedDomain
from saibot.domains.finding import spelled_out
from saibot.errors import InvalidDomain, InvalidInput, InvalidSketch
from saibot.report.format import plural
from saibot.search import Corpus
from saibot.search.shared_factors import SharedFactors
from saibot.sketch import Header, KeyDomain, KeyPart, Sketch, read_sketch, signer_of
from saibot.wire import CorpusEntry, NewColumn, ProviderStanding

AT_ONCE = 8  # downloads
LARGEST_FACTORS = 1 << 28  # bytes; a hundred thousand keys with a dozen factors take 60 MB


class Published:
    """Sketches and key domains of one platform, fetched where they are not on this machine.

    As the source of a result it asks for what was chosen, and nothing else: right for a private request, whose choice the
    platform made itself. After a search at home the platform would learn the choice from it; `Kept` asks nobody.
    """

    def __init__(self, platform: Platform, cache: SketchCache | None = None, signers: KnownSigners | None = None) -> None:
        self.platform = platform
        self.kept = Kept(cache)
        self.cache = self.kept.cache
        self.signers = signers or KnownSigners()
        self.standings: dict[str, ProviderStanding] = {}  # of the platform's providers, when a slice was last brought
        self._place = hashlib.sha256(platform.url.encode()).hexdigest()[:16]

    # ---------------------------------------------------------------------------------- a source of values

    def sketch(self, digest: str) -> Sketch:
        """A published sketch; older versions can be had as long as their dataset is not withdrawn."""
        try:
            return read_sketch(self.cache.fetch(self.platform.wire, digest))
        except NotFound:
            raise NotFound(
                f"the platform has no sketch {digest[:12]}, and it was not downloaded before.",
                hint="Its provider may have withdrawn it: search again.",
                status=404,
            ) from None

    def domain(self, part: NamedDomain) -> KeyDomain | None:
        """The domain of a sketch's key with its coarser levels, if its id spells it out or anyone registered it."""
        return KnownDomains((self.kept.domain, self._registered)).find(part)

    def _registered(self, part: NamedDomain) -> KeyDomain | None:
        try:
            facts = self.platform.domain_facts(part.domain, part.version)
            if facts.digest != part.digest:
                return None  # another one under its name
            found = self.platform.keys_of(facts, part.domain, part.version)
        except NotFound:
            return None
        with suppress(InvalidDomain):  # no file can hold it: this once it serves all the same
            self.kept.keep_domain(found)
        return found

    def factors_named(self, version: str) -> SharedFactors:
        """Shared factors of this version, fetched where they are not here."""
        with suppress(InvalidInput):
            return self.kept.factors_named(version)
        return self._fetched_factors(version, LARGEST_FACTORS)

    def _fetched_factors(self, version: str, most: int) -> SharedFactors:
        content = bytearray()
        with self.platform.wire.stream(f"/v1/factors/{quote(version, safe='')}") as response:
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > most:
                    raise PlatformError("the platform sent more than the size of the shared factors that it lists.")
        try:
            return self.kept.keep_factors(bytes(content), version)
        except InvalidInput:
            raise PlatformError(
                f"the platform sent something else than the shared factors {version[:12]} that it lists.",
                hint="Nothing of it was kept. Tell whoever runs the platform.",
            ) from None

    def fetch(self, columns: Iterable[NewColumn]) -> None:
        """Fetch what the chosen columns of a result need and is not here. The platform learns which they are."""
        for digest in dict.fromkeys(one for column in columns for one in (column.digest, column.via) if one):
            key = self.sketch(digest).header.key
            if key is not None and key.levels:
                self.domain(key.parts[0])

    # ---------------------------------------------------------------------------------- slices

    def corpus(
        self, domain: str | None = None, *, progress: Progress = lambda stage, part: None
    ) -> tuple[Corpus, tuple[str, ...]]:
        """The corpus, or the slice with one key domain, ready to be searched here; and what to know about it."""
        progress("asking what is published", None)
        items = {item.digest: item for item in self.platform.manifest(domain)}
        self.standings = self._standings()
        if not items:
            narrowed = f" with the key domain {domain!r}" if domain else ""
            raise InvalidInput(
                f"nothing is published at {self.platform.url}{narrowed}.", hint="`saibot datasets` lists what there is."
            )
        paths, notes = self._download(items.values(), progress)
        headers = _headers(paths)
        notes += self._pass_over_unsigned(items, paths, headers)
        if self.platform.url != ADDRESS:  # one in this process is the user's own, and the next one another
            notes += self.signers.meet(self.platform.url, self.standings.values())
        notes += self._pass_over_unbelieved(items, paths, headers)
        self._bring_domains(headers.values(), progress)
        factors = self._bring_factors(progress)
        folder = self.cache.folder / "slices" / f"{self._place}-{hashlib.sha256((domain or '').encode()).hexdigest()[:16]}"
        progress("packing", None)
        corpus, packed = self._packed(folder, paths, headers, {item.digest: item.provider for item in items.values()})
        for shared in factors:
            learned = corpus.learned(shared.key)
            if shared.key in corpus.key_ids and (learned is None or learned.version != shared.version):
                corpus.adopt(shared)
        notes += [f"a sketch was passed over: {reason}" for _, reason in packed.refused]
        notes += [f"{name} has the numbers of {other}, and is counted once" for _, name, other in packed.copies]
        verified = {name for name, standing in self.standings.items() if standing.verified}
        return corpus.with_verified(verified), (*notes, *packed.notes)

    def _standings(self) -> dict[str, ProviderStanding]:
        """How all providers of the platform stand; nothing is known of those of an old one."""
        try:
            return {standing.name: standing for standing in self.platform.providers()}
        except NotFound:
            return {}

    def _pass_over_unsigned(
        self, items: Mapping[str, CorpusEntry], paths: dict[str, Path], headers: dict[str, Header]
    ) -> list[str]:
        """Sketches that are not signed as the platform says they are go, from the slice and from this machine."""
        wrong = []
        for digest, header in list(headers.items()):
            key, said = signer_of(header), items[digest].signer
            if said is not None and (key is None or key.fingerprint != said):
                paths.pop(digest)
                headers.pop(digest)
                self.cache.path(digest).unlink(missing_ok=True)
                wrong.append(f"a sketch was passed over: {header.dataset.name} is not signed as the platform says it is.")
        return sorted(wrong)

    def _pass_over_unbelieved(
        self, items: Mapping[str, CorpusEntry], paths: dict[str, Path], headers: dict[str, Header]
    ) -> list[str]:
        """Where an account has another key than this machine knows, only what the known key has signed is used."""
        known = self.signers.read().get(self.platform.url, {})
        gone: dict[str, int] = {}
        for digest, header in list(headers.items()):
            account, key = items[digest].provider, signer_of(header)
            standing = self.standings.get(account)
            believed = known.get(account) is None or (standing is not None and standing.key == known[account])
            if not believed and (key is None or key.text != known[account]):
                paths.pop(digest)
                headers.pop(digest)
                gone[account] = gone.get(account, 0) + 1
        return [
            f"{plural(count, 'sketch', 'sketches')} of {account} {'was' if count == 1 else 'were'} passed over: "
            "not signed with the key that you know"
            for account, count in sorted(gone.items())
        ]

    def _download(self, items: Iterable[CorpusEntry], progress: Progress) -> tuple[dict[str, Path], list[str]]:
        """Where the sketches are, and what to say about those that did not come."""
        listed = list(items)
        for item in listed:
            self._drop_unsigned(item)
        missing = [item for item in listed if not self.cache.has(item.digest)]
        total, done = sum(item.bytes for item in missing), 0
        withdrawn: set[str] = set()
        wrong: set[str] = set()

        def fetch(item: CorpusEntry) -> CorpusEntry:
            try:
                self.cache.fetch(self.platform.wire, item.digest, expected=item.bytes)
            except NotFound:  # since it was listed
                withdrawn.add(item.digest)
            except PlatformError as problem:
                if isinstance(problem, PlatformUnreachable) or problem.status in PASSING:
                    raise  # half of a corpus gives other answers: better none, and no row was read yet
                wrong.add(item.digest)
            return item

        if missing:
            progress(f"downloading {len(missing)} sketches", 0.0)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for item in pool.map(fetch, missing):
                done += item.bytes
                progress(f"downloading {len(missing)} sketches", done / max(total, 1))
        paths = {item.digest: self.cache.path(item.digest) for item in listed}
        for digest in withdrawn | wrong:
            paths.pop(digest)
        notes = [f"a sketch was passed over: the platform did not send {digest[:12]}, which it lists." for digest in wrong]
        return paths, sorted(notes)

    def _drop_unsigned(self, item: CorpusEntry) -> None:
        """A sketch that was fetched before its provider signed it, or signed it anew, is fetched again."""
        if item.signer is None or not self.cache.has(item.digest):
            return
        with suppress(InvalidSketch):  # damaged: whoever reads it says so
            key = signer_of(read_sketch(self.cache.path(item.digest)).header)
            if key is None or key.fingerprint != item.signer:
                self.cache.path(item.digest).unlink(missing_ok=True)

    def _bring_domains(self, headers: Iterable[Header], progress: Progress) -> None:
        """Every key domain that a sketch of the slice names, with levels or without: kept here from now on, or absent."""
        parts = [part for header in headers if header.key for part in header.key.parts]
        named = {(part.domain, part.version, part.digest): part for part in parts}
        missing = [part for part in named.values() if self.kept.domain(part) is None]
        if missing:
            progress(f"fetching {len(missing)} key domains", None)

        def fetch(part: KeyPart) -> None:
            try:
                self.domain(part)
            except (PlatformError, InvalidDomain):  # the keys are in the sketch; without levels, values are less sharp
                return

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(fetch, missing))

    def _bring_factors(self, progress: Progress) -> list[SharedFactors]:
        """The factors that the platform's own values use; without them, values at home would be less sharp than there."""
        try:
            entries = list(self.platform.factors())
        except NotFound:  # a platform of before there were any
            return []
        progress("fetching what tables have in common", None)
        found = []
        for entry in entries:
            try:
                found.append(self.kept.factors_named(entry.version))
            except InvalidInput:
                with suppress(NotFound):  # learned anew since it was listed
                    found.append(self._fetched_factors(entry.version, min(entry.bytes, LARGEST_FACTORS)))
        return found

    def _packed(
        self, folder: Path, paths: dict[str, Path], headers: dict[str, Header], providers: dict[str, str]
    ) -> tuple[Corpus, Packed]:
        """The slice's corpus with exactly these sketches; one that cannot be brought up to date is made anew."""
        try:
            return self._updated(folder, paths, headers, providers)
        except (InvalidInput, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            return self._updated(folder, paths, headers, providers)

    def _updated(
        self, folder: Path, paths: dict[str, Path], headers: dict[str, Header], providers: dict[str, str]
    ) -> tuple[Corpus, Packed]:
        corpus = Corpus.open_or_create(folder)
        if not corpus.tells_providers:
            raise InvalidInput("an earlier saibot packed this slice, and did not say whose sketches are.")
        known = set(corpus.digests)
        for digest in known - paths.keys():
            corpus.remove(digest)
        domains, stale = self._domains(corpus, headers)
        stale |= _packed_otherwise(corpus, headers, providers)
        for digest in stale:
            corpus.remove(digest)
        registry = DomainRegistry(folder / "domains")
        for domain in domains:
            registry.register(domain)
        new = [path for digest, path in paths.items() if digest not in known or digest in stale]
        if not new:
            return corpus, Packed()
        return pack_sketches(folder, new, domains=domains, providers=providers, learn=False)

    def _domains(self, corpus: Corpus, headers: dict[str, Header]) -> tuple[list[KeyDomain], set[str]]:
        """The domains of the slice that are here, and the sketches with levels that were packed before theirs was known."""
        before = {card.digest for card in DomainRegistry(corpus.folder / "domains").entries()}
        packed = set(corpus.digests)
        found: dict[tuple[str, int], KeyDomain] = {}  # a name stands for one domain: the first that a sketch names
        stale = set()
        for digest, header in headers.items():
            for part in header.key.parts if header.key else ():
                if spelled_out(part) is not None:
                    continue  # known wherever its id is read
                domain = found.get((part.domain, part.version)) or self.kept.domain(part)
                if domain is None or domain.digest != part.digest:
                    continue
                found[part.domain, part.version] = domain
                if header.key and header.key.levels and digest in packed and part.digest not in before:
                    stale.add(digest)
        return list(found.values()), stale


def _packed_otherwise(corpus: Corpus, headers: Mapping[str, Header], providers: Mapping[str, str]) -> set[str]:
    """Sketches that were packed as somebody else's, or before they were signed."""
    found = set()
    for digest, entry in corpus.entries(headers).items():
        key = signer_of(headers[digest])
        if (entry.provider, entry.signer) != (providers[digest], None if key is None else key.fingerprint):
            found.add(digest)
    return found


def _headers(paths: Mapping[str, Path]) -> dict[str, Header]:
    found = {}
    for digest, path in paths.items():
        try:
            found[digest] = read_sketch(path).header
        except InvalidSketch:  # damaged since it was fetched: whoever packs it says so
            continue
    return found
