"""Which published tables join or union with a given one, how far, and why the others do not.

From what is published alone: the schema, the lists of keys, the sketches' headers and private profiles. It costs nobody
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from saibot.discover.joins import Joinable, KeyLists, Meetings, OwnKeys
from saibot.discover.unions import Addable, match_union
from saibot.privacy.neighbours import Neighbours
from saibot.sketch.header import Feature, Header


@dataclass(frozen=True)
class Subject:
    """The table that relatives are looked for: its keys, and its features where they are known."""

    name: str
    keys: tuple[OwnKeys, ...]
    features: tuple[Feature, ...] = ()
    neighbours: Neighbours | None = None  # None: a table that is not private, whose sums may be added to any
    own: frozenset[str] = frozenset()  # digests and names that are the subject itself


@dataclass(frozen=True)
class JoinsWith:
    """A table whose values can be looked up by the subject's keys."""

    dataset: str
    digest: str
    key: str
    on: tuple[str, ...]  # parts of the subject's key, or their levels
    share: float  # of the subject's keys
    features: tuple[str, ...]
    rows: int | None
    signal: float | None  # how much of the spread of its clearest feature between keys is signal, not noise
    why: str


@dataclass(frozen=True)
class UnionsWith:
    """A table whose rows can be added to the subject's."""

    dataset: str
    digest: str
    rows: int | None
    why: str


@dataclass(frozen=True)
class Unrelated:
    """A table that can be neither joined nor added, and why."""

    dataset: str
    digest: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Related:
    joins: tuple[JoinsWith, ...]  # the largest share first
    unions: tuple[UnionsWith, ...]
    unrelated: tuple[Unrelated, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def related(
    subject: Subject, headers: Iterable[Header], lists: KeyLists, *, signal: Mapping[str, float] | None = None
) -> Related:
    """Every table once more: as a join, as a union, as both, or as neither.

    `signal` is by digest: how much of a sketch's values between keys is signal, from its own numbers and known noise.
    """
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
        if isinstance(join, Joinable) and key is not None:
            features = tuple(feature.name for feature in header.features)
            on = tuple(map(label_text, join.labels))
            joins.append(
                JoinsWith(name, digest, key.name, on, join.share, features, header.rows, heard.get(digest), join.why)
            )
        else:
            reasons.append(f"no join: {getattr(join, 'reason', '')}")
        if subject.features:
            union = match_union(subject.features, header, neighbours=subject.neighbours)
            if isinstance(union, Addable):
                unions.append(UnionsWith(name, digest, header.rows, union.explain()))
            else:
                reasons.append(f"no union: {union.reason}")
        if len(reasons) == (2 if subject.features else 1):
            unrelated.append(Unrelated(name, digest, tuple(reasons)))
    joins.sort(key=lambda one: (-one.share, one.dataset, one.digest))
    return Related(tuple(joins), tuple(unions), tuple(unrelated))


def label_text(label: tuple[str, str | None]) -> str:
    """For people: `day`, or `school.district`."""
    return label[0] if label[1] is None else f"{label[0]}.{label[1]}"
