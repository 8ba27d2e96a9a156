"""A request ready to be searched with: its moments, and what is needed to speak of them in the requester's own units.

Two ways to ask meet here. A *private* request is made of sketches, whose noise goes with it and which anyone may see; a
*local* one (`saibot.client.local`) is made of the requester's own rows, exact, and stays at home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saibot.client.domains import Domains
from saibot.client.keys import KeyColumn
from saibot.errors import InvalidInput, InvalidSketch
from saibot.estimate.moments import moments_of_sketch
from saibot.search import RequestKey, SearchRequest
from saibot.sketch import SUFFIX, Feature, Sketch, read_sketch


@dataclass(frozen=True)
class Units:
    """`original = offset + scale * scaled`."""

    offset: float
    scale: float


@dataclass(frozen=True)
class FeatureColumn:
    """How one of the request's own features is read from a table of raw rows, as it was when the request was made.

    Missing cells take `missing`; values are clipped to `lower` and `upper` where the request's were; with `level` the
    feature is 1 where the column holds that text and 0 elsewhere.
    """

    name: str
    column: str
    missing: float
    lower: float | None = None
    upper: float | None = None
    level: str | None = None


@dataclass(frozen=True)
class Request:
    """What is asked, and how its numbers translate back; `notes` is what its owner should know about it."""

    asked: SearchRequest
    units: dict[str, Units]  # of the target and of every own feature
    features: tuple[FeatureColumn, ...]  # without the target
    target_column: str
    keys: tuple[KeyColumn, ...]
    notes: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        return self.asked.private


def is_sketch(source: object) -> bool:
    return isinstance(source, Sketch) or (isinstance(source, str | Path) and str(source).endswith(SUFFIX))


def private_request(
    train: Sketch | Path | str,
    *,
    target: str,
    test: Sketch | Path | str | None = None,
    features: Sequence[str] | None = None,
    keys: Sequence[str] = (),
    domains: Domains | None = None,
) -> Request:
    """A request from sketches, on their own key and every coarser level that its domain is known to have.

    Own features are those named, or all of the sketch but the target.
    `keys`, where given, must name that key or its parts: a private request has the key it was privatised with.
    """
    sketch = _open(train)
    header = sketch.header
    held_out = None if test is None else _open(test)
    chosen = tuple(name for name in sketch.features if name != target) if features is None else tuple(features)
    _check_features(sketch, target, chosen, "training")
    notes = _notes(sketch, "training")
    if held_out is not None:
        _check_pair(sketch, held_out, (*chosen, target))
        notes += _notes(held_out, "test")
        if held_out.header.budget != header.budget:
            budgets = f"{_budget(sketch)} and {_budget(held_out)}"
            notes += (f"training and test sketch have different budgets ({budgets}); each is read with its own noise",)
    names = (*chosen, target)
    known = {feature.name: feature for feature in header.features}
    _check_key(sketch, keys)
    parts, key = _key(sketch, domains or Domains(None))
    if key is None:
        notes += ("the sketch has no key, so nothing can be joined with it; only unions are left",)
    return Request(
        asked=SearchRequest(
            train=moments_of_sketch(sketch).select(names),
            test=None if held_out is None else moments_of_sketch(held_out).select(names),
            target=target,
            key=key,
            name=header.dataset.name,
            facts=tuple(known[name] for name in names),
            neighbours=header.neighbours,
        ),
        units={name: Units(known[name].offset, known[name].scale) for name in names},
        features=tuple(_column(known[name]) for name in chosen),
        target_column=target,
        keys=parts,
        notes=notes,
    )


def _open(source: Sketch | Path | str) -> Sketch:
    if isinstance(source, Sketch):
        return source
    path = Path(source)
    if not path.is_file():
        raise InvalidSketch(f"there is no sketch {path}.")
    return read_sketch(path)


def _check_features(sketch: Sketch, target: str, chosen: Sequence[str], which: str) -> None:
    have = ", ".join(sketch.features)
    if target not in sketch.features:
        raise InvalidInput(
            f"the {which} sketch has no feature {target!r}, which is the target.",
            hint=f"It has {have}. Privatise the table again with the target among its features.",
        )
    if target in chosen:
        raise InvalidInput(f"the target {target!r} cannot be one of the features that explain it.")
    for name in chosen:
        if name not in sketch.features:
            raise InvalidInput(f"the {which} sketch has no feature {name!r}.", hint=f"It has {have}.")


def _check_pair(train: Sketch, test: Sketch, names: Sequence[str]) -> None:
    """Training and test sketch must say the same things about different rows."""
    if train.digest == test.digest:
        raise InvalidInput(
            "training and test sketch are the same.", hint="`saibot split TABLE` divides a table; privatise both parts."
        )
    _check_features(test, names[-1], names[:-1], "test")
    if train.header.neighbours != test.header.neighbours:
        raise InvalidInput(
            f"the training sketch is private under {train.header.neighbours}, the test sketch under "
            f"{test.header.neighbours}.",
            hint="Privatise both parts under one neighbouring relation.",
        )
    other = {feature.name: feature for feature in test.header.features}
    for feature in train.header.features:
        twin = other.get(feature.name)
        if feature.name in names and twin is not None and (twin.lower, twin.upper) != (feature.lower, feature.upper):
            raise InvalidInput(
                f"feature {feature.name!r} has other bounds in the test sketch than in the training sketch.",
                hint="Privatise both parts with one card.",
            )
    ours, theirs = train.header.key, test.header.key
    if [part.keys_digest for part in (ours.parts if ours else ())] != [
        p.keys_digest for p in (theirs.parts if theirs else ())
    ]:
        raise InvalidInput("training and test sketch do not have the same key.", hint="Privatise both parts with one card.")


def _check_key(sketch: Sketch, names: Sequence[str]) -> None:
    key = sketch.header.key
    own = [key.name, *(part.name for part in key.parts)] if key else []
    strange = [name for name in names if name not in own]
    if strange:
        raise InvalidInput(
            f"the training sketch is keyed by {own[0]!r}, not by {strange[0]!r}."
            if own
            else f"the training sketch has no key, so not {strange[0]!r} either.",
            hint="A private request has the key it was privatised with; a table can be searched by any.",
        )


def _notes(sketch: Sketch, which: str) -> tuple[str, ...]:
    header = sketch.header
    found = []
    if header.simulation:
        found.append(f"the {which} sketch has simulated noise: it is not private")
    if header.preparation.kind == "nonprivate":
        found.append(f"the {which} sketch was prepared from its rows without paying: it is not private")
    return tuple(found)


def _budget(sketch: Sketch) -> str:
    budget = sketch.header.budget
    return f"ε={budget['epsilon']}, δ={budget['delta']}"


def _column(feature: Feature) -> FeatureColumn:
    column = feature.column or feature.name
    missing = 0.0 if feature.kind == "indicator" else (feature.lower + feature.upper) / 2
    return FeatureColumn(
        name=feature.name,
        column=column,
        missing=feature.missing if feature.missing is not None else missing,
        lower=feature.lower,
        upper=feature.upper,
        level=feature.level,
    )


def _key(sketch: Sketch, domains: Domains) -> tuple[tuple[KeyColumn, ...], RequestKey | None]:
    """The sketch's key over its whole domain: a private request does not say which keys its rows have."""
    if sketch.header.key is None:
        return (), None
    parts = [(part.name, domains.of_part(sketch, i)) for i, part in enumerate(sketch.header.key.parts)]
    return tuple(KeyColumn(name, name, (domain,)) for name, domain in parts), RequestKey.product(parts)
