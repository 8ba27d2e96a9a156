"""Writes deploy/hashes.txt: every package of the container image at its pinned version, with the SHA-256 of the files that
may be installed, for amd64 and arm64. `make hashes`, after constraints.txt or an extra has changed.

With it pip takes these very files or none (--require-hashes), whatever a registry or a network hands over. Where they come
from is nobody's business but pip's, so no address is in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "deploy" / "hashes.txt"
EXTRAS = "platform,fast,postgres,vocabularies"
# Its shapes of places are read as files, so it comes without what it would need to run. pip installs, and leaves.
ALONE = ("bqplot", "pip")
PYTHON = "3.11"  # Debian bookworm's, which the image is made of
MACHINES = ("x86_64", "aarch64")
GLIBC = range(36, 4, -1)  # bookworm's, and what is older
HEAD = """\
# Written by deploy/hashes.py (make hashes). Change constraints.txt, not this file.
# What the container image installs, for Python {python} on {machines}, with pip install --no-deps --require-hashes.
"""


def resolved(machine: str, *wanted: str, alone: bool = False) -> dict[str, str]:
    """`name==version` and the hash of its file, as pip would install them on such a machine."""
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC] + [f"--platform=manylinux2014_{machine}"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed", f"--report={report}"]
        command += ["--only-binary=:all:", f"--target={folder}/none", f"--python-version={PYTHON}", "--implementation=cp"]
        command += [*platforms, *(["--no-deps"] if alone else []), *wanted, "-c", str(ROOT / "constraints.txt")]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        found = json.loads(report.read_text())["install"]
    named = {f"{one['metadata']['name']}=={one['metadata']['version']}": one["download_info"] for one in found}
    return {
        name: facts["archive_info"]["hashes"]["sha256"] for name, facts in named.items() if not name.startswith("saibot==")
    }


def main() -> None:
    wheel = next((ROOT / "dist").glob("saibot-*.whl"), None)
    if wheel is None:
        sys.exit("There is no wheel in dist yet: make dist")
    hashes: dict[str, set[str]] = {}
    for machine in MACHINES:
        parts = (resolved(machine, f"saibot[{EXTRAS}] @ {wheel.as_uri()}"), resolved(machine, *ALONE, alone=True))
        for name, digest in (item for part in parts for item in part.items()):
            hashes.setdefault(name, set()).add(digest)
    lines = [HEAD.format(python=PYTHON, machines=" and ".join(MACHINES))]
    for name in sorted(hashes, key=str.lower):
        lines.append(" \\\n".join([name, *(f"    --hash=sha256:{digest}" for digest in sorted(hashes[name]))]) + "\n")
    TARGET.write_text("".join(lines), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}: {len(hashes)} packages")


if __name__ == "__main__":
    main()
