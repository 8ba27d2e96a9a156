"""Which published tables join or union with one's own: a table, a sketch, or a column of keys. Nothing leaves here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saibot.client.domains import Domains
from saibot.client.sketch_request import is_sketch, open_sketch
from saibot.client.tables import key_codes, read_columns
from saibot.discover import OwnKeys, Subject, related
from saibot.errors import InvalidInput, InvalidSketch
from saibot.privatize import Card
from saibot.privatize.read import TableLike
from saibot.search import Corpus
from saibot.sketch import Feature, Header, Sketch
from saibot.wire import Discovered


def discover(
    own: TableLike | Sketch | Path | str,
    corpus: Corpus,
    *,
    keys: Sequence[str] = (),
    features: Sequence[str] = (),
    card: Card | None = None,
    domains: Domains | None = None,
) -> Discovered:
    """The tables of a corpus that join or union with a sketch, or with a table by these key columns and features.

    A sketch has its key and features. Of a table, `keys` names columns whose values are looked up, and `features` those that
    a further table must have for its rows to be added; with a card, their units count.
    """
    known = domains or Domains(corpus)
    subject = _of_sketch(open_sketch(own), known) if is_sketch(own) else _of_table(own, keys, features, card)
    signal = {digest: share for id in corpus.key_ids for digest, share in corpus.signal(id).items()}
    return related(subject, _headers(corpus), corpus, signal=signal)


def _of_sketch(sketch: Sketch, known: Domains) -> Subject:
    header = sketch.header
    parts = enumerate(header.key.parts if header.key else ())
    keys = [own for number, part in parts for own in OwnKeys.of(part.name, known.of_part(sketch, number))]
    own = frozenset({sketch.digest, header.dataset.name})
    return Subject(header.dataset.name, tuple(keys), header.features, header.protected_under, own)


def _of_table(table: TableLike, keys: Sequence[str], features: Sequence[str], card: Card | None) -> Subject:
    if not keys and not features:
        raise InvalidInput(
            "a table is related by its keys and its features: name some.",
            hint="`--key COLUMN` finds what can be joined, `--feature COLUMN` what can be added.",
        )
    facts = card.features if card is not None else {}
    columns = {key: card.keys[key].column or key if card is not None and key in card.keys else key for key in keys}
    rows = read_columns(table, list(columns.values()), text=list(columns.values())) if columns else None
    own = []
    for name, column in columns.items():
        assert rows is not None
        texts = tuple(text for text in key_codes(rows, column)[1] if text)
        own.append(OwnKeys((name, None), f"column {column}", texts))
    wanted = tuple(
        Feature(name=name, kind="numeric", lower=0.0, upper=1.0, unit=facts[name].unit if name in facts else "")
        for name in features
    )
    return Subject("table", tuple(own), wanted, own=frozenset() if card is None else frozenset({card.dataset.name}))


def _headers(corpus: Corpus) -> list[Header]:
    found = []
    for digest in corpus.digests:
        try:
            found.append(corpus.sketch(digest).header)
        except InvalidSketch:  # damaged since it was packed
            continue
    return found
