"""A search's result as one JSON document: what a platform answers, what `saibot search --out` writes, and what is read back.

It is in the requester's own units and names sketches by digest: whoever holds the document and can get at those sketches
can join the chosen values to rows and predict with the model. Unknown formats and versions are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from saibot.discover.domains import generated_domain
from saibot.errors import InvalidDomain, InvalidInput
from saibot.search.request import SearchRequest
from saibot.search.result import SearchResult
from saibot.search.state import State
from saibot.search.terms import Units
from saibot.sketch import KeyDomain

FORMAT, VERSION = "saibot-result", 1
FIELDS = {"base": dict, "steps": list, "ranked": list, "keys": list, "columns": list, "notes": list}


def document_of(found: SearchResult, request: SearchRequest) -> dict[str, Any]:
    """The result with coefficients in original units, and with what it takes to use it."""
    if request.terms is None:
        raise InvalidInput("this request does not say what its numbers mean.", hint="Make it with search_request.")
    document = found.to_json()
    target_scale = request.terms.units[found.target].scale
    for entry in (*document["steps"], *document["ranked"]):
        if entry["coefficient"] is not None:
            entry["coefficient"] *= target_scale
        if entry["coefficient_interval"] is not None:
            entry["coefficient_interval"] = [end * target_scale for end in entry["coefficient_interval"]]
    columns: list[dict[str, Any]] = []
    lookups: dict[str, Units] = {}
    names = set(request.train.features)
    for step, entry in zip(found.steps, document["steps"], strict=True):
        if step.found.kind != "join":
            continue
        entry["columns"] = []
        for i, feature in enumerate(step.found.features):
            name = _new_name(step.columns[i], names)
            lookups[name] = step.found.units[i]
            entry["columns"].append(name)
            columns.append({
                "name": name,
                "dataset": step.found.dataset,
                "digest": step.found.digest,
                "feature": feature,
                "unit": step.found.unit[i],
                "key": entry["key"],
                "via": step.found.via,
                "mean": step.found.units[i].offset,
                "spread": step.found.spread[i],
                "reliability": step.found.reliability,
            })  # fmt: skip
        entry["column"] = ", ".join(entry["columns"])
    keys = [
        {"name": key.name, "column": key.column, "domains": [domain_to_json(domain) for domain in key.domains]}
        for key in request.terms.keys
    ]
    return document | {
        "rows": {"train": int(request.train.count), "test": None if request.test is None else int(request.test.count)},
        "keys": keys,
        "columns": columns,
        "model": None if found.final is None else _model(request, found.final, lookups),
        "notes": [*request.terms.notes, *found.notes],
    }


def checked_document(document: Any, name: str) -> dict[str, Any]:
    """The document itself, if it holds what every use of it needs; `name` says in errors where it came from."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f"{name} is no result of a search.", hint="`saibot search --out FILE` writes one.")
    if document.get("version") != VERSION:
        raise InvalidInput(f"{name} has another format version.", hint="Search again with this saibot.")
    wrong = [field for field, kind in FIELDS.items() if not isinstance(document.get(field), kind)]
    try:
        keys = {key["name"] for key in document["keys"] if key["column"] and key["domains"]}
        parts = {part["part"] for column in document["columns"] for part in column["key"]}
        named = all(column["name"] and column["digest"] and column["feature"] for column in document["columns"])
    except (KeyError, TypeError):
        wrong.append("columns")
    else:
        if not named or not parts <= keys:
            wrong.append("columns")
    if wrong:
        raise InvalidInput(f"the result {name} is damaged: its {wrong[0]} cannot be read.", hint="Search again.")
    return document


def domain_to_json(domain: KeyDomain) -> dict[str, Any]:
    """A domain whose id spells it out is named only; of others the keys are written down, which are public."""
    entry: dict[str, Any] = {"id": domain.id, "version": domain.version, "digest": domain.digest}
    generated = generated_domain(domain.id)
    if generated is None or generated.digest != domain.digest:
        entry |= {"values": list(domain.values), "parents": {name: list(column) for name, column in domain.parents}}
    return entry


def domain_from_json(entry: dict[str, Any]) -> KeyDomain:
    try:
        if "values" in entry:
            parents = tuple((str(name), tuple(column)) for name, column in entry["parents"].items())
            domain: KeyDomain | None = KeyDomain(entry["id"], entry["version"], tuple(entry["values"]), parents)
        else:
            domain = generated_domain(entry["id"])
        if domain is not None and domain.digest == entry["digest"]:
            return domain
    except (KeyError, TypeError, AttributeError, InvalidDomain):
        pass
    raise InvalidInput("the result is damaged: a key domain of it cannot be read.", hint="Search again.")


def key_label(key: Sequence[dict[str, Any]]) -> str:
    """What a candidate is joined on, for people: `day`, `school.district`, or several with commas."""
    return ", ".join(part["part"] if part["level"] is None else f"{part['part']}.{part['level']}" for part in key)


def _model(request: SearchRequest, final: State, lookups: dict[str, Units]) -> dict[str, Any]:
    """The model that the search ended with, in original units, as the plain values that a client's model is made of."""
    assert request.terms is not None
    target = request.target
    names = (*request.train.features, *lookups)  # as the state has them, in order
    units = {**request.terms.units, **lookups}
    means = {n: units[n].offset + units[n].scale * float(at) for n, at in zip(names, final.origin, strict=True)}
    explaining = [name for name in names if name != target]
    coefficients = {
        name: float(slope) * units[target].scale / units[name].scale
        for name, slope in zip(explaining, final.theta(), strict=True)
    }
    return {
        "target": {"name": target, "column": request.terms.target_column},
        "own": [asdict(column) for column in request.terms.features],
        "lookups": list(lookups),
        "coefficients": coefficients,
        "intercept": means[target] - sum(slope * means[name] for name, slope in coefficients.items()),
    }


def _new_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, told apart from those there are."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}.{number}", number + 1
    taken.add(name)
    return name
