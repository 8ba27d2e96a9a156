"""What a wheel holds, looked at before anybody installs it: `python deploy/check_wheel.py dist/saibot-*.whl`.

The package and nothing beside it; every file of the package, with the guide; metadata that a registry shows as it stands.
"""

from __future__ import annotations

import re
import sys
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

SOURCE = Path(__file__).resolve().parents[1] / "src"
BESIDE = {"share/man/man1/saibot.1", "share/saibot/saibot.service"}
ABOUT = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
GUIDE = "saibot/platform/pages/help.zip"  # made by `make site`, kept nowhere, and served under /help
LARGEST, LARGEST_GUIDE = 2_000_000, 4_000_000  # bytes; code, templates and proofs; the guide: what is near has strayed in


def problems(wheel: Path) -> list[str]:
    """What is wrong with it, a line each."""
    with ZipFile(wheel) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
        packed = {one.filename: one.compress_size for one in archive.infolist()}
        root = next((name.split("/")[0] for name in sizes if name.endswith(".dist-info/METADATA")), None)
        if root is None:
            return ["it has no METADATA"]
        facts = message_from_bytes(archive.read(f"{root}/METADATA"))
    data = f"{root.removesuffix('.dist-info')}.data/data/"
    wanted = {f"{root}/{name}" for name in ABOUT} | {f"{data}{name}" for name in BESIDE} | _of_the_package()
    found = [f"{name} is missing" for name in sorted(wanted - sizes.keys())]
    found += [f"{name} does not belong in it" for name in sorted(sizes.keys() - wanted)]
    guide = packed.pop(GUIDE, 0)
    for what, size, most in (("it", sum(packed.values()), LARGEST), ("its guide", guide, LARGEST_GUIDE)):
        found += [f"{what} is {size:,} bytes large"] if size > most else []
    return found + _of_the_metadata(facts.get_payload(), {name: facts.get(name, "") for name in facts})


def _of_the_package() -> set[str]:
    files = (path for path in (SOURCE / "saibot").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).as_posix() for path in files} | {GUIDE}


def _of_the_metadata(text: object, facts: dict[str, str]) -> list[str]:
    version = re.search(r'^__version__ = "(.+)"$', (SOURCE / "saibot" / "__init__.py").read_text(), flags=re.MULTILINE)
    wanted = {"Name": "saibot", "Version": version[1] if version else "", "License-Expression": "Apache-2.0"}
    wanted |= {"Description-Content-Type": "text/markdown", "Requires-Python": ">=3.11"}
    found = [f"{name} is {facts.get(name)!r}, not {value!r}" for name, value in wanted.items() if facts.get(name) != value]
    broken = re.findall(r"\]\((?!https?:)[^)]*\)|<img [^>]*>", str(text))
    return found + [f"its description points at a file that a registry does not have: {one}" for one in broken]


def main() -> None:
    found = {wheel: problems(Path(wheel)) for wheel in sys.argv[1:]}
    for wheel, said in found.items():
        print(f"{wheel}: {'; '.join(said) or 'as it should be'}")
    sys.exit(any(found.values()) or not found)


if __name__ == "__main__":
    main()
