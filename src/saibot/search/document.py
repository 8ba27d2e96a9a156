"""From what a search computed to the result that is exchanged: in the requester's own units, sketches named by digest."""

from __future__ import annotations

import numpy as np

from saibot.domains import generated_domain
from saibot.errors import InvalidDomain, InvalidInput
from saibot.search.coefficients import INTERCEPT, CoefficientIntervals, coefficient_intervals
from saibot.search.corpus import Corpus
from saibot.search.found import Found, SearchResult
from saibot.search.request import SearchRequest
from saibot.search.residuals import key_residuals
from saibot.search.state import State
from saibot.search.units import Units, new_name
from saibot.search.what_if import what_if
from saibot.sketch import KeyDomain
from saibot.wire import Entry, Flag, KeyResiduals, Measured, NewColumn, Result, Step
from saibot.wire.result import KeyLevel, KeyOfRequest, ListedDomain, Model, Pair, RowCounts, TargetColumn


def result_of(found: SearchResult, request: SearchRequest, corpus: Corpus | None = None, *, at_home: bool) -> Result:
    """The result with coefficients in original units, and with what it takes to use it.

    With the corpus that was searched, it says what the chosen columns would be worth at other budgets.
    """
    if request.terms is None:
        raise InvalidInput("this request does not say what its numbers mean.", hint="Make it with search_request.")
    target_scale = request.terms.units[found.target].scale
    steps: list[Step] = []
    columns: list[NewColumn] = []
    lookups: dict[str, Units] = {}
    names = set(request.train.features)
    for step in found.steps:
        new: list[str] = []
        if step.found.kind == "join":  # the only kind with values that can be joined to rows
            new = [new_name(name, names) for name in step.columns]
            lookups |= dict(zip(new, step.found.units, strict=True))
            columns += [_column(name, step.found, place) for place, name in enumerate(new)]
        steps.append(
            Step(
                **dict(entry_of(step.found, target_scale)),
                train_r2=step.train_r2,
                test_r2=step.test_r2,
                test_interval=step.test_interval,
                column=", ".join(new or step.columns) or step.found.dataset,
                columns=tuple(new),
            )
        )
    return Result(
        request=found.request,
        target=found.target,
        private=found.private,
        base=Measured(train_r2=found.base_train_r2, test_r2=found.base_test_r2, test_interval=found.base_test_interval),
        steps=tuple(steps),
        ranked=tuple(entry_of(one, target_scale) for one in found.ranked),
        dropped=found.dropped,
        candidates=found.candidates,
        unions=found.unions,
        rank=found.rank,
        join=found.join,
        interval_confidence=found.interval_confidence,
        stopped=found.stopped,
        rows=RowCounts(train=int(request.train.count), test=None if request.test is None else int(request.test.count)),
        keys=tuple(
            KeyOfRequest(name=key.name, column=key.column, domains=tuple(map(listed_domain, key.domains)))
            for key in request.terms.keys
        ),
        columns=tuple(columns),
        model=None if found.final is None else _model(request, found.final, lookups, _intervals(request, found, lookups)),
        base_model=None if found.first is None else _model(request, found.first, {}, CoefficientIntervals()),
        residuals=_residuals(request, found, target_scale),
        what_if=None if corpus is None else what_if(found, request, corpus),
        notes=(*request.terms.notes, *found.notes),
        at_home=at_home,
    )


def entry_of(found: Found, target_scale: float = 1.0) -> Entry:
    def scaled(pair: Pair | None) -> Pair | None:
        return None if pair is None else (pair[0] * target_scale, pair[1] * target_scale)

    return Entry(
        kind=found.kind,
        dataset=found.dataset,
        digest=found.digest,
        feature=found.feature,
        features=found.features,
        key=_levels(found),
        via=found.via,
        gain=found.gain,
        interval=(found.lower, found.upper),
        new_keys=found.new_keys,
        potential=found.potential,
        potential_interval=found.potential_interval,
        expected=found.expected,
        coefficient=None if found.coefficient is None else found.coefficient * target_scale,
        coefficient_interval=scaled(found.coefficient_interval),
        reliability=found.reliability,
        coverage=found.coverage,
        privacy_share=found.privacy_share,
        rows=found.rows,
        note=found.note,
        provider=found.provider,
        signer=found.signer,
        flags=tuple(Flag(code=flag.code, text=flag.text) for flag in found.flags),
    )


def listed_domain(domain: KeyDomain) -> ListedDomain:
    """A domain whose id spells it out is named only; of others the keys are written down, which are public."""
    generated = generated_domain(domain.id, size=len(domain))
    spelled_out = generated is not None and generated.digest == domain.digest
    return ListedDomain(
        id=domain.id,
        version=domain.version,
        digest=domain.digest,
        values=None if spelled_out else domain.values,
        parents=None if spelled_out else dict(domain.parents),
    )


def domain_listed(entry: ListedDomain) -> KeyDomain:
    """The domain itself, again."""
    try:
        if entry.values is not None:
            parents = tuple((entry.parents or {}).items())
            domain: KeyDomain | None = KeyDomain(entry.id, entry.version, entry.values, parents)
        else:
            domain = generated_domain(entry.id)
        if domain is not None and domain.digest == entry.digest:
            return domain
    except InvalidDomain:
        pass
    raise InvalidInput("the result is damaged: a key domain of it cannot be read.", hint="Search again.")


def _column(name: str, found: Found, place: int) -> NewColumn:
    return NewColumn(
        name=name,
        dataset=found.dataset,
        digest=found.digest,
        feature=found.features[place],
        unit=found.unit[place],
        key=_levels(found),
        via=found.via,
        mean=found.units[place].offset,
        spread=found.spread[place],
        reliability=found.reliability,
        factors=found.factors or None,
    )


def _levels(found: Found) -> tuple[KeyLevel, ...]:
    return tuple(KeyLevel(part=part, level=level) for part, level in found.key)


def _residuals(request: SearchRequest, found: SearchResult, scale: float) -> tuple[KeyResiduals, ...]:
    """Of a private request only: exact sums by key are as good as rows, and rows are in no result."""
    if not request.private or request.key is None or found.first is None or found.final is None:
        return ()
    return key_residuals(request.key, found.first, found.final, scale=scale)


def _intervals(request: SearchRequest, found: SearchResult, lookups: dict[str, Units]) -> CoefficientIntervals:
    assert request.terms is not None
    if found.table is None:
        return CoefficientIntervals()
    return coefficient_intervals(found.table, request.terms.units, lookups, confidence=found.interval_confidence)


def _model(request: SearchRequest, state: State, lookups: dict[str, Units], intervals: CoefficientIntervals) -> Model:
    """The model of a state in original units, as the plain values that a client's model is made of."""
    assert request.terms is not None
    target = request.target
    names = (*request.train.features, *lookups)  # as the state has them, in order
    units = {**request.terms.units, **lookups}
    means = {n: units[n].offset + units[n].scale * float(at) for n, at in zip(names, state.origin, strict=True)}
    squares = np.maximum(np.diag(state.moments.products), 0.0) / max(state.count, 1.0)
    spreads = {n: units[n].scale * float(square) ** 0.5 for n, square in zip(names, squares, strict=True)}
    explaining = [name for name in names if name != target]
    coefficients = {
        name: float(slope) * units[target].scale / units[name].scale
        for name, slope in zip(explaining, state.theta(), strict=True)
    }
    unit = next((fact.unit for fact in request.facts if fact.name == target), "")
    return Model(
        target=TargetColumn(name=target, column=request.terms.target_column, unit=unit),
        own=request.terms.features,
        lookups=tuple(lookups),
        coefficients=coefficients,
        intercept=means[target] - sum(slope * means[name] for name, slope in coefficients.items()),
        intercept_interval=intervals.fieller.pop(INTERCEPT, None),
        intervals=intervals.fieller,
        exact_intervals=intervals.exact,
        bounds=intervals.bound,
        spreads={name: spreads[name] for name in explaining},
    )
