"""Put sketches into a corpus: read each, refuse what cannot be trusted, and find the domains of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from saibot.client.domains import Domains
from saibot.client.leaving import why_not_private
from saibot.domains import DomainRegistry
from saibot.errors import InvalidInput, InvalidSketch
from saibot.search import Corpus
from saibot.search.learning import learn as learn_factors
from saibot.sketch import SUFFIX, KeyDomain, Sketch, payload_of, read_sketch, signer_of


@dataclass
class Packed:
    """What became of each sketch."""

    added: list[tuple[str, str]] = field(default_factory=list)  # path, dataset
    known: list[tuple[str, str]] = field(default_factory=list)  # in the corpus before
    refused: list[tuple[str, str]] = field(default_factory=list)  # path, reason
    copies: list[tuple[str, str, str]] = field(default_factory=list)  # path, dataset, of which dataset; not packed
    notes: list[str] = field(default_factory=list)
    shared: list[tuple[str, int, int]] = field(default_factory=list)  # key domain, sketches, causes in common; learned now

    open_tables: int = 0  # in the corpus, with a key
    open_teach: bool = False  # whether others learn from them

    def to_json(self) -> dict[str, Any]:
        return {
            "added": [{"sketch": path, "dataset": dataset} for path, dataset in self.added],
            "known": [{"sketch": path, "dataset": dataset} for path, dataset in self.known],
            "refused": [{"sketch": path, "reason": reason} for path, reason in self.refused],
            "copies": [{"sketch": path, "dataset": dataset, "of": other} for path, dataset, other in self.copies],
            "notes": self.notes,
            "shared": [{"domain": name, "sketches": count, "factors": rank} for name, count, rank in self.shared],
            "open": {"sketches": self.open_tables, "teach": self.open_teach},
        }


def pack_sketches(
    folder: Path,
    sketches: Iterable[Path],
    *,
    domains: Sequence[KeyDomain] = (),
    providers: Mapping[str, str] | None = None,
    unsafe: bool = False,
    learn: bool = True,
    trust_open: bool = False,
    progress: Callable[[str, float | None], None] = lambda stage, part: None,
) -> tuple[Corpus, Packed]:
    """Make or extend a corpus. A bad sketch is told with its reason; the good ones beside it are packed.

    `domains` are kept with the corpus: with them, coarser key levels can be used. Sketches with simulated noise or a
    preparation that was not paid for are refused unless `unsafe`. With `learn`, what the sketches of a key domain have in
    common improves the values of each. Open tables teach nothing, because nobody has checked their sources, unless
    `trust_open` says so for all of them. A provider is whoever signed, or by digest whom `providers` names: the accounts of
    a platform. Of sketches with the same numbers one is packed, a signed one before those that nobody has signed.
    """
    corpus = Corpus.open_or_create(folder)
    if domains:
        registry = DomainRegistry(folder / "domains")
        for domain in domains:
            registry.register(domain)
    packed = Packed()
    good = _originals(_good(sketches, set(corpus.digests), packed, unsafe=unsafe), corpus, packed)
    parents = _parents(good, Domains(corpus, domains), packed)
    refused = {entry.digest: entry.reason for entry in corpus.add((sketch for _, sketch in good), parents, providers)}
    if learn:
        packed.open_tables = sum(len(corpus.open_with(id)) for id in corpus.key_ids)
        packed.open_teach = trust_open
        for id in learn_factors(corpus, teachers=set(corpus.digests) if trust_open else None, progress=progress):
            shared = corpus.factors(id)
            names = [found.id if (found := corpus.key_list(part)) else "keys" for part in id.split("+")]
            if shared is not None and shared.rank:
                packed.shared.append((" and ".join(names), len(shared.taught), shared.rank))
    for path, sketch in good:
        if sketch.digest in refused:
            packed.refused.append((str(path), refused[sketch.digest]))
        else:
            packed.added.append((str(path), sketch.header.dataset.name))
    return corpus, packed


def _good(sketches: Iterable[Path], known: set[str], packed: Packed, *, unsafe: bool) -> list[tuple[Path, Sketch]]:
    """The sketches to be packed; what becomes of the others is noted."""
    good = []
    for path in _files(sketches):
        try:
            sketch = _open(path)
            reason = None if unsafe else why_not_private(sketch)
        except InvalidSketch as problem:
            reason = problem.message
        if reason is not None:
            packed.refused.append((str(path), reason))
        elif sketch.digest in known:
            packed.known.append((str(path), sketch.header.dataset.name))
        else:
            known.add(sketch.digest)
            good.append((path, sketch))
    return good


def _originals(good: list[tuple[Path, Sketch]], corpus: Corpus, packed: Packed) -> list[tuple[Path, Sketch]]:
    """Without those that have the numbers of another one under another name: that one is signed, or older, or there."""
    there = corpus.payloads()
    signed = {digest for digest, entry in corpus.entries(there.values()).items() if entry.signer is not None}
    names = {payload: corpus.name_of(digest) for payload, digest in there.items()}
    found: list[tuple[Path, Sketch]] = []
    for path, sketch in sorted(good, key=lambda one: (signer_of(one[1].header) is None, one[1].header.created)):
        payload, name = payload_of(sketch), sketch.header.dataset.name
        if signer_of(sketch.header) is not None and payload in there and there[payload] not in signed:
            corpus.remove(there.pop(payload))  # what was there is the copy
            packed.notes.append(f"{names.pop(payload)} has the numbers of {path}, which is signed: it was taken out")
        if payload in names:
            packed.copies.append((str(path), name, names[payload]))
        else:
            names[payload] = name
            found.append((path, sketch))
    return found


def _parents(good: Iterable[tuple[Path, Sketch]], domains: Domains, packed: Packed) -> dict[str, KeyDomain]:
    """By digest, the domains of those sketches that have coarser key levels."""
    found = {}
    for path, sketch in good:
        key = sketch.header.key
        if key is None or not key.levels:
            continue
        domain = domains.known.find(key.parts[0])
        if domain is not None:
            found[key.parts[0].digest] = domain
            continue
        levels, id = ", ".join(key.levels), key.parts[0].domain
        packed.notes.append(
            f"{path} has key levels ({levels}) that only its domain file opens: --domain FILE --domain-id {id}"
        )
    return found


def _files(sketches: Iterable[Path]) -> list[Path]:
    """The paths as given, a folder standing for the sketches in it."""
    found: list[Path] = []
    for path in sketches:
        found += sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not found:
        raise InvalidInput("there is no sketch to pack.", hint=f"Name {SUFFIX} files, or a folder of them.")
    return found


def _open(path: Path) -> Sketch:
    if not path.is_file():
        raise InvalidSketch("there is no such file.")
    return read_sketch(path)
