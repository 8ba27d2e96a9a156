"""Which sketches can be added to a request as further rows, and which of their features stands for which of the request's.

Rows add where every feature of the request exists on the other side with the same meaning: name, kind and unit. Bounds may
differ: scaled units follow from bounds by an affine map, so statistics move from one to the other without loss.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saibot.errors import InvalidInput
from saibot.privacy.neighbours import Neighbours
from saibot.sketch.header import Feature, Header


@dataclass(frozen=True)
class FeatureMap:
    """A feature of the request and its counterpart: `request scaled = factor * sketch scaled + shift`."""

    request: str
    sketch: str
    position: int  # of the counterpart among the sketch's features
    factor: float
    shift: float
    notes: tuple[str, ...] = ()

    @property
    def identical(self) -> bool:
        return self.factor == 1.0 and self.shift == 0.0

    @property
    def same(self) -> bool:
        """Whether there is nothing to say of it: the same name, the same bounds, and no doubt."""
        return self.identical and self.request == self.sketch and not self.notes

    def explain(self) -> str:
        how = "identical" if self.identical else f"scaled × {self.factor:.6g} {self.shift:+.6g}"
        return f"{self.request} ↔ {self.sketch} ({'; '.join([how, *self.notes])})"


@dataclass(frozen=True)
class Addable:
    """A sketch that can be added, with its mapping shown.

    `keyed`: its keys are the request's too, so that rows add key by key; otherwise only sums over the whole table do, and
    nothing can be joined to the rows that it brings.
    """

    dataset: str
    digest: str | None
    features: tuple[FeatureMap, ...]
    ignored: tuple[str, ...]
    keyed: bool

    @property
    def identical(self) -> bool:
        return all(feature.identical for feature in self.features)

    def transform(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """(A, b) such that `request scaled = A @ sketch scaled + b`, for a sketch of `width` features.

        Moments follow: s' = A s + c b, and Q' = A Q Aᵀ + A s bᵀ + b (A s)ᵀ + c b bᵀ.
        """
        matrix = np.zeros((len(self.features), width))
        for row, feature in enumerate(self.features):
            matrix[row, feature.position] = feature.factor
        return matrix, np.array([feature.shift for feature in self.features])

    def explain(self) -> str:
        mapped = [feature for feature in self.features if not feature.same]
        same = [feature.request for feature in self.features if feature.same]
        parts = [f"the same {', '.join(same)}"] if same else []
        parts += [", ".join(feature.explain() for feature in mapped)] if mapped else []
        parts += [f"ignored: {', '.join(self.ignored)}"] if self.ignored else []
        parts += [] if self.keyed else ["not by the same key: adds to whole-table sums only"]
        return f"{self.dataset}: {'; '.join(parts)}"


@dataclass(frozen=True)
class NotAddable:
    """A sketch that cannot be added, and why."""

    dataset: str
    digest: str | None
    reason: str

    def explain(self) -> str:
        return f"{self.dataset}: {self.reason}"


def match_union(
    features: Sequence[Feature],
    header: Header,
    *,
    neighbours: Neighbours | None = None,
    keys: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Addable | NotAddable:
    """Whether a sketch can be added to a request with these features, its target among them.

    `neighbours` is the relation that protects the request, None for a local one; a sum of statistics protected under
    different relations has no guarantee that can be named. `keys`: for each part of the request's key, the digest of its
    domain's keys. `names` maps features of the request to features of the sketch by hand.
    """
    if not features:
        raise InvalidInput("a request has at least one feature, its target.")
    refuse = _does_not_add(header, neighbours)
    chosen = dict(names or {})
    unknown = chosen.keys() - {feature.name for feature in features}
    if unknown:
        raise InvalidInput(f"the request has no feature {sorted(unknown)[0]!r} to be mapped.")
    maps: list[FeatureMap] = []
    for feature in features if refuse is None else ():
        found = _counterpart(feature, header.features, chosen.get(feature.name))
        if isinstance(found, str):
            refuse = found
            break
        maps.append(_map(feature, found, header.features))
    taken = {each.position for each in maps}
    if refuse is None and len(taken) < len(maps):
        refuse = "two features of the request would stand for one of its features."
    if refuse is not None:
        return NotAddable(header.dataset.name, header.digest, refuse)
    ignored = tuple(other.name for i, other in enumerate(header.features) if i not in taken)
    return Addable(header.dataset.name, header.digest, tuple(maps), ignored, _keyed(header, keys))


def find_unions(
    features: Sequence[Feature],
    headers: Iterable[Header],
    *,
    neighbours: Neighbours | None = None,
    keys: Sequence[str] | None = None,
) -> list[Addable | NotAddable]:
    """For every sketch, in order, how it can be added, or why not."""
    return [match_union(features, header, neighbours=neighbours, keys=keys) for header in headers]


# ------------------------------------------------------------------------------------------------ inside


def _does_not_add(header: Header, neighbours: Neighbours | None) -> str | None:
    if header.open:
        return None  # exact, of order 2, and no protection that could differ from the request's
    try:
        # As the header states them: whoever read the sketch has checked its plan, and planning anew takes long.
        orders = {int(block["order"]) for block in header.plan["blocks"]}
        centred = any(block.get("centred", False) for block in header.plan["blocks"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return "its plan cannot be read."
    if centred:
        return "it holds the scatter around its own mean (fpm-opt for unions), which does not add to another table's."
    if 2 not in orders:
        return "it holds no products of features (order 1), which a regression needs."
    if neighbours is not None and header.neighbours is not neighbours:
        return f"it is protected under {header.neighbours}, the request under {neighbours}: their sum under neither."
    return None


def _counterpart(feature: Feature, others: Sequence[Feature], chosen: str | None) -> Feature | str:
    """The sketch's feature for a feature of the request, or why there is none."""
    found = _by_name(feature, others, chosen)
    if found is None:
        name = feature.name if chosen is None else chosen
        return f"it has no feature {name!r}; it has {', '.join(other.name for other in others)}."
    if found.kind != feature.kind:
        return f"its feature {found.name!r} is of kind {found.kind}, the request's {feature.name!r} {feature.kind}."
    if _plain(found.unit) != _plain(feature.unit):
        theirs, ours = found.unit or "no unit", feature.unit or "no unit"
        return f"its feature {found.name!r} is in {theirs}, the request's {feature.name!r} in {ours}."
    if feature.kind == "indicator" and found.level != feature.level:
        return f"its feature {found.name!r} stands for another level than the request's {feature.name!r}."
    if feature.kind == "component" and found.weights != feature.weights:
        return f"its component {found.name!r} has other weights: it is another direction."
    return found


def _by_name(feature: Feature, others: Sequence[Feature], chosen: str | None) -> Feature | None:
    wanted = feature.name if chosen is None else chosen
    exact = [other for other in others if other.name == wanted]
    if exact or chosen is not None:
        return exact[0] if exact else None
    alike = [other for other in others if _letters(other.name) == _letters(wanted)]
    return alike[0] if len(alike) == 1 else None


def _map(feature: Feature, other: Feature, others: Sequence[Feature]) -> FeatureMap:
    notes = []
    if other.name != feature.name:
        notes.append("named differently")
    factor, shift = other.scale / feature.scale, (other.offset - feature.offset) / feature.scale
    if (other.lower, other.upper) != (feature.lower, feature.upper):
        notes.append(f"bounds [{other.lower:g}, {other.upper:g}] to [{feature.lower:g}, {feature.upper:g}]")
        if other.upper < feature.lower or feature.upper < other.lower:
            notes.append("the bounds do not even touch")
    if other.missing != feature.missing and other.missing is not None:
        notes.append(f"missing cells are {other.missing:g} there")
    if feature.kind == "indicator":
        more = [each.level for each in others if each.column == other.column and each.level != other.level]
        notes += [f"one of {1 + len(more)} levels there"] if more else []
    return FeatureMap(feature.name, other.name, others.index(other), factor, shift, tuple(notes))


def _keyed(header: Header, keys: Sequence[str] | None) -> bool:
    """A list of keys may be named by the first digits of its digest, as a corpus names it."""
    if keys is None or header.key is None or len(keys) != len(header.key.parts):
        return False
    return all(key and part.keys_digest.startswith(key) for key, part in zip(keys, header.key.parts, strict=True))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _letters(name: str) -> str:
    """`Arr Delay`, `arr_delay` and `ARR-DELAY` read the same."""
    return "".join(letter for letter in unicodedata.normalize("NFKC", name).casefold() if letter.isalnum())
