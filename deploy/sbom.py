"""What is installed beside Saibot, as a CycloneDX document: names, versions, licences."""

from __future__ import annotations

import json
import sys
from importlib.metadata import distributions
from pathlib import Path


def components() -> list[dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for one in distributions():
        name, facts = one.metadata["Name"], one.metadata
        licence = facts.get("License-Expression") or (facts.get("License") or "").splitlines()[:1] or ["unknown"]
        said = licence if isinstance(licence, str) else licence[0]
        found[name.lower()] = {
            "type": "library",
            "name": name,
            "version": one.version,
            "purl": f"pkg:pypi/{name.lower()}@{one.version}",
            "licenses": [{"license": {"name": said[:200] or "unknown"}}],
        }
    return [found[name] for name in sorted(found)]


def main() -> None:
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components()}
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {target}: {len(components())} components")


if __name__ == "__main__":
    main()
