"""What Saibot runs on, as a CycloneDX document: every package with version and licence, and who needs whom.

python deploy/sbom.py build/sbom.json         # of this environment: what Saibot needs, without the developers' tools
python deploy/sbom.py sbom.json --debian /    # of an image: all that is installed, Debian's packages included
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

Component = dict[str, Any]
TOOLS_ONLY = "dev"
_REQUIREMENT = re.compile(r"^([\w.-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?$")


def plain(name: str) -> str:
    """As registries compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    for one in distributions():
        found.setdefault(plain(one.metadata["Name"]), one)  # the first on the path is the one that is imported
    return found


def needs(one: Distribution, extras: set[str]) -> Iterator[tuple[str, set[str]]]:
    """Names of what it needs, with the extras it asks for: of itself, and of those extras of its own."""
    for line in one.requires or ():
        said = _REQUIREMENT.match(line)
        if said is None:
            continue
        name, wanted, marker = said[1], said[2] or "", said[3] or ""
        only_for = set(re.findall(r"extra\s*==\s*['\"]([\w.-]+)['\"]", marker))
        if not only_for or only_for & extras:
            yield plain(name), {word.strip() for word in wanted.split(",") if word.strip()}


def reached(there: dict[str, Distribution]) -> tuple[set[str], dict[str, set[str]]]:
    """What Saibot with all its extras but the tools comes to, and who needs whom of it."""
    own = set(there["saibot"].metadata.get_all("Provides-Extra") or ()) - {TOOLS_ONLY}
    left, done, edges = [("saibot", frozenset(own))], set(), {}
    while left:
        name, extras = left.pop()
        if (name, extras) in done:
            continue
        done.add((name, extras))
        wanted = [(other, frozenset(more)) for other, more in needs(there[name], set(extras)) if other in there]
        edges.setdefault(name, set()).update(other for other, _ in wanted if other != name)
        left += wanted
    return set(edges), edges


def described(one: Distribution) -> Component:
    name = plain(one.metadata["Name"])
    purl = f"pkg:pypi/{name}@{one.version}"
    return {
        "type": "library",
        "name": name,
        "version": one.version,
        "bom-ref": purl,
        "purl": purl,
        "licenses": _licences(one),
    }


def _licences(one: Distribution) -> list[dict[str, Any]]:
    if expression := one.metadata.get("License-Expression"):
        return [{"expression": expression}]
    names = [
        line.rpartition(" :: ")[2] for line in one.metadata.get_all("Classifier") or () if line.startswith("License ::")
    ]
    said = (one.metadata.get("License") or "").strip().splitlines()
    short = [said[0][:200]] if said and said[0].strip() else []
    return [{"license": {"name": name}} for name in names or short or ["unknown"]]


def of_debian(root: Path) -> Iterator[Component]:
    """Debian's packages of a root, with the licences that their copyright files name."""
    release = re.search(r"^VERSION_ID=\"?(\w+)", (root / "etc/os-release").read_text(), flags=re.MULTILINE)
    for entry in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        facts = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and not line.startswith(" "))
        if not facts.get("Status", "").endswith(" installed"):
            continue
        name, version = facts["Package"], facts["Version"]
        where = f"arch={facts['Architecture']}&distro=debian-{release[1] if release else ''}"
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?{where}"
        text = root / f"usr/share/doc/{name}/copyright"
        lines = re.findall(
            r"^License: *(\S.*)$", text.read_text(errors="replace") if text.is_file() else "", flags=re.MULTILINE
        )
        licences = [{"license": {"name": one[:200]}} for one in sorted(set(lines)) or ["see its copyright file"]]
        yield {"type": "library", "name": name, "version": version, "bom-ref": purl, "purl": purl, "licenses": licences}


def document(root: Path | None = None) -> dict[str, Any]:
    there = installed()
    names, edges = reached(there)
    shown = names if root is None else set(there)
    described_ones = {name: described(there[name]) for name in sorted(shown)}
    saibot = described_ones.pop("saibot") | {"type": "application"}
    refs = {"saibot": saibot["bom-ref"]} | {name: one["bom-ref"] for name, one in described_ones.items()}
    components = [*described_ones.values(), *(of_debian(root) if root else ())]
    whole = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid5(NAMESPACE_URL, whole).urn,  # of what is listed, so that the same list has the same number
        "version": 1,
        "metadata": {
            "component": saibot,
            "properties": [{"name": "python", "value": platform.python_version()}],
        },
        "components": components,
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(refs[other] for other in edges.get(name, ()) if other in refs)}
            for name, ref in refs.items()
        ],
    }


def main() -> None:
    words = argparse.ArgumentParser(description="Write what Saibot runs on as a CycloneDX document.")
    words.add_argument("target", type=Path)
    words.add_argument("--debian", type=Path, metavar="ROOT", help="of an image: everything there, Debian's packages too")
    asked = words.parse_args()
    asked.target.parent.mkdir(parents=True, exist_ok=True)
    made = document(asked.debian)
    asked.target.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {asked.target}: {len(made['components'])} components")


if __name__ == "__main__":
    main()
