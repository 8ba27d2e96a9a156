"""The code on the pages: every fenced block with its language, and whether our tests run it.

A block that cannot be run says so to readers, in the caption above it: `title="Not run by our tests: needs a GPU"`. One that
takes long is run in the long form of the tests only, and has `<!-- long: why -->` on a line before it.
`<!-- as: provider -->` says whose machine it is typed on, where a page has several people.

`python -m sitebuild.blocks` counts them and lists both kinds of exceptions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sitebuild import borrowed, python_reference

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("README.md", "examples/README.md", "CONTRIBUTING.md", "SECURITY.md")  # read in the repository, not on the site
NOT_RUN = "Not run by our tests: "
KINDS = {  # language -> what is done with it
    "sh": "shell",
    "console": "console",
    "python": "Python",
    "toml": "TOML",
    "json": "JSON",
    "ini": "INI",
    "nginx": "nginx",
    "text": "words",
    "signature": "signature",
    "": "words",
}
_NOTE = re.compile(r"<!-- (long|as): (.+) -->")
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    text: str
    not_run: str = ""  # the reason that readers see, or nothing
    long: str = ""  # why only the long form runs it, or nothing
    file: str = ""  # what the block is called, where it is a file of the page's story
    who: str = ""  # on whose machine it is typed, where a page has several people

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> dict[str, str]:
    """Every page with code that is not a notebook: by its place in the repository, or on the site."""
    written = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "docs").rglob("*.md"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in written.items()}
    texts |= {name: (ROOT / name).read_text(encoding="utf-8") for name in OUTSIDE}
    return texts | borrowed.pages() | python_reference.pages()


def blocks_of(page: str, text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), 1))
    notes: dict[str, str] = {}
    for number, line in lines:
        opened = _FENCE.match(line)
        if opened is None:
            if noted := _NOTE.fullmatch(line.strip()):
                notes[noted[1]] = noted[2]
            elif line.strip():
                notes.clear()
            continue
        body = []
        for _, inner in lines:
            if re.match(rf"^{opened['indent']}{opened['fence']}\s*$", inner):
                break
            body.append(inner.removeprefix(opened["indent"]))
        else:
            raise ValueError(f"{page}:{number}: the block is never closed")
        yield _block(page, number, opened["info"].strip(), notes, "\n".join(body) + "\n")
        notes.clear()


def all_blocks() -> list[Block]:
    return [block for page, text in pages().items() for block in blocks_of(page, text)]


def _block(page: str, line: int, info: str, notes: dict[str, str], text: str) -> Block:
    titled = re.search(r'title="([^"]*)"', info)
    title = titled[1] if titled else ""
    language = "signature" if ".signature" in info else re.sub(r'\s*title="[^"]*"', "", info)
    if language not in KINDS:
        raise ValueError(f"{page}:{line}: nobody knows what to do with a block of {language!r}")
    not_run = title.removeprefix(NOT_RUN) if title.startswith(NOT_RUN) else ""
    file = title if re.fullmatch(r"[\w-]+\.\w+", title) else ""
    return Block(page, line, KINDS[language], text, not_run, notes.get("long", ""), file, notes.get("as", ""))


def main() -> None:
    found = all_blocks()
    counts = Counter(block.kind for block in found)
    for kind, count in counts.most_common():
        apart = sum(bool(block.not_run) for block in found if block.kind == kind)
        print(f"{count:4} {kind}" + (f", {apart} of them not run" if apart else ""))
    for block in found:
        if block.not_run:
            print(f"not run: {block.place}: {block.not_run}")
        elif block.long:
            print(f"long form only: {block.place}: {block.long}")


if __name__ == "__main__":
    main()
