"""Which published tables join or union with a given one, how far, and why the others do not.

Computed from published facts alone: lists of keys, sketches' headers and private profiles. Nothing is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from saibot.discover.joins import Joinable, KeyLists, Meetings, OwnKeys
from saibot.discover.unions import Addable, match_union
from saibot.privacy.neighbours import Neighbours
from saibot.sketch.header import Feature, Header
from saibot.wire import Discovered, JoinsWith, UnionsWith, Unrelated


@dataclass(frozen=True)
class Subject:
    """The table that related tables are looked up for: its keys, and its features where they are known."""

    name: str
    keys: tuple[OwnKeys, ...]
    features: tuple[Feature, ...] = ()
    neighbours: Neighbours | None = None  # None: a table that is not private, whose sums may be added to any
    own: frozenset[str] = frozenset()  # digests and names that are the subject itself


def related(
    subject: Subject, headers: Iterable[Header], lists: KeyLists, *, signal: Mapping[str, float] | None = None
) -> Discovered:
    """Sort every table into joins, unions, both, or neither.

    `signal` is by digest: how much of a sketch's values between keys is signal, from its own numbers and known noise.
    """
    parts = [one.part for one in subject.keys if one.label[1] is None]
    meetings, heard = Meetings(subject.keys, lists), signal or {}
    joins: list[JoinsWith] = []
    unions: list[UnionsWith] = []
    unrelated: list[Unrelated] = []
    for header in headers:
        name, digest = header.dataset.name, header.digest or ""
        if name in subject.own or digest in subject.own:
            continue
        key = header.key
        join = meetings.join([(part.keys_digest, part.domain) for part in key.parts] if key else [])
        reasons = []
        facts: dict[str, Any] = {"id": None, "provider": None, "name": name, "title": header.dataset.title, "digest": digest}
        facts |= {"rows": header.rows, "key": None if key is None else key.name}
        if isinstance(join, Joinable) and key is not None:
            joins.append(
                JoinsWith(
                    **facts,
                    why=join.why,
                    on=tuple(map(label_text, join.labels)),
                    share=join.share,
                    features=tuple(feature.name for feature in header.features),
                    signal=heard.get(digest),
                )
            )
        else:
            reasons.append(f"no join: {getattr(join, 'reason', '')}")
        if subject.features:
            union = match_union(subject.features, header, neighbours=subject.neighbours, keys=parts)
            if isinstance(union, Addable):
                unions.append(UnionsWith(**facts, why=union.explain()))
            else:
                reasons.append(f"no union: {union.reason}")
        if len(reasons) == (2 if subject.features else 1):
            unrelated.append(Unrelated(name=name, digest=digest, reasons=tuple(reasons)))
    joins.sort(key=lambda one: (-one.share, one.name, one.digest))
    return Discovered(joins=tuple(joins), unions=tuple(unions), unrelated=tuple(unrelated))


def label_text(label: tuple[str, str | None]) -> str:
    """For people: `day`, or `school.district`."""
    return label[0] if label[1] is None else f"{label[0]}.{label[1]}"
