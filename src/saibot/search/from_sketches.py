"""A private request from sketches: what a requester's client and a platform both make of a training and a test sketch.

Everything comes from the sketches' own headers and numbers; key domains give the coarser levels that a sketch only names.
"""

from __future__ import annotations

from collections.abc import Sequence

from saibot.domains import KnownDomains
from saibot.errors import InvalidInput
from saibot.estimate.moments import moments_of_sketch
from saibot.search.key_maps import RequestKey
from saibot.search.request import SearchRequest
from saibot.search.units import KeyColumn, Terms, Units
from saibot.sketch import Feature, KeyDomain, Sketch, listed_domain
from saibot.wire.result import OwnColumn


def search_request(
    train: Sketch,
    test: Sketch | None = None,
    *,
    target: str,
    features: Sequence[str] | None = None,
    keys: Sequence[str] = (),
    domains: KnownDomains | None = None,
) -> SearchRequest:
    """A request on the sketches' own key and every coarser level that its domain is known to have.

    Own features are those named, or all of the sketch but the target.
    `keys`, where given, must name that key or its parts: a private request has the key it was privatised with.
    """
    header = train.header
    if header.open or (test is not None and test.header.open):
        raise InvalidInput(
            "an open sketch is no private request: its rows are public, and gains on them have no privacy noise to tell.",
            hint="Search with the table itself: `saibot search --local` sends nothing and spends nothing.",
        )
    chosen = tuple(name for name in train.features if name != target) if features is None else tuple(features)
    _check_features(train, target, chosen, "training")
    notes = _notes(train, "training")
    if test is not None:
        _check_pair(train, test, (*chosen, target))
        notes += _notes(test, "test")
        if test.header.budget != header.budget:
            budgets = f"{_budget(train)} and {_budget(test)}"
            notes += (f"training and test sketch have different budgets ({budgets}); each is read with its own noise",)
    if any(sketch is not None and sketch.header.key is not None and sketch.header.key.levels for sketch in (train, test)):
        notes += ("a request is read at its finest keys only: made with --part, its sketches spend nothing on coarser ones",)
    names = (*chosen, target)
    known = {feature.name: feature for feature in header.features}
    _check_key(train, keys)
    columns, key = _key(train, domains or KnownDomains.of())
    if key is None:
        notes += ("the sketch has no key, so nothing can be joined with it; only unions are left",)
    return SearchRequest(
        train=moments_of_sketch(train).select(names),
        test=None if test is None else moments_of_sketch(test).select(names),
        target=target,
        key=key,
        name=header.dataset.name,
        facts=tuple(known[name] for name in names),
        neighbours=header.neighbours,
        own=tuple(name for sketch in (train, test) if sketch for name in (sketch.digest, sketch.header.dataset.name)),
        plan=train.plan,
        terms=Terms(
            units={name: Units(known[name].offset, known[name].scale) for name in names},
            features=tuple(_column(known[name]) for name in chosen),
            target_column=target,
            keys=columns,
            notes=notes,
        ),
    )


def domain_of_part(sketch: Sketch, number: int, known: KnownDomains) -> KeyDomain:
    """The domain of one part of a sketch's key, with coarser levels where anyone knows them; else as the sketch lists it."""
    assert sketch.header.key is not None
    return known.find(sketch.header.key.parts[number]) or listed_domain(sketch, number)


# ------------------------------------------------------------------------------------------------ inside


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
    if header.preparation.kind == "tuned":
        found.append(f"the {which} sketch is of a card that was changed after a look at its rows: it is not private")
    return tuple(found)


def _budget(sketch: Sketch) -> str:
    budget = sketch.header.budget
    return f"ε={budget['epsilon']}, δ={budget['delta']}"


def _column(feature: Feature) -> OwnColumn:
    column = feature.column or feature.name
    missing = 0.0 if feature.kind == "indicator" else (feature.lower + feature.upper) / 2
    return OwnColumn(
        name=feature.name,
        column=column,
        missing=feature.missing if feature.missing is not None else missing,
        lower=feature.lower,
        upper=feature.upper,
        level=feature.level,
        unit=feature.unit,
    )


def _key(sketch: Sketch, domains: KnownDomains) -> tuple[tuple[KeyColumn, ...], RequestKey | None]:
    """The sketch's key over its whole domain: a private request does not say which keys its rows have."""
    if sketch.header.key is None:
        return (), None
    parts = [(part.name, domain_of_part(sketch, i, domains)) for i, part in enumerate(sketch.header.key.parts)]
    return tuple(KeyColumn(name, name, (domain,)) for name, domain in parts), RequestKey.product(parts)
