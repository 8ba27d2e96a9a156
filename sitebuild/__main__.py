"""`python -m sitebuild`: build the site into build/site, check it, and pack it for the platform. Needs no network."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from sitebuild import checks
from sitebuild.build import build
from sitebuild.pack import pack

ROOT = Path(__file__).resolve().parents[1]
PACKED = ROOT / "src" / "saibot" / "platform" / "pages" / "help.zip"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sitebuild", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder of the site")
    parser.add_argument("--packed", type=Path, default=PACKED, help="file for the platform")
    parser.add_argument("--quick", action="store_true", help="do not run the notebooks")
    asked = parser.parse_args()
    started = time.perf_counter()
    build(asked.out, quick=asked.quick)
    if found := [*checks.problems(asked.out), *checks.style_problems(asked.out)]:
        sys.exit("\n".join(found))
    pack(asked.out, asked.packed)
    facts = ", ".join(f"{count} {name}" for name, count in checks.counts(asked.out).items())
    size = sum(path.stat().st_size for path in asked.out.rglob("*") if path.is_file())
    print(f"{asked.out}: {facts}, {size / 1e6:.1f} MB; packed {asked.packed.stat().st_size / 1e6:.2f} MB; no warning, "
          f"{time.perf_counter() - started:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
