"""result.json: which augmentations were chosen, in plain JSON. Unknown formats and versions are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from saibot.discover.domains import generated_domain
from saibot.errors import InvalidDomain, InvalidInput
from saibot.sketch import KeyDomain

FORMAT, VERSION = "saibot-result", 1
FIELDS = {"base": dict, "steps": list, "ranked": list, "keys": list, "columns": list, "notes": list}


def read_result(path: Path) -> dict[str, Any]:
    """The document of a result, checked for what every use of it needs."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"there is no result {path}.", hint="`saibot search --out FILE` writes one.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError, RecursionError):
        raise InvalidInput(f"{path} is no result of a search, or it is damaged.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f"{path} is no result of a search.", hint="`saibot search --out FILE` writes one.")
    if document.get("version") != VERSION:
        raise InvalidInput(f"{path} has another format version.", hint="Search again with this saibot.")
    wrong = [name for name, kind in FIELDS.items() if not isinstance(document.get(name), kind)]
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
        raise InvalidInput(f"the result {path} is damaged: its {wrong[0]} cannot be read.", hint="Search again.")
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
