"""The table of small letters that the page carries: `python -m tests.support.case_folding` writes it anew."""

from __future__ import annotations

import unicodedata
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "src/saibot/ask_page/script/case_folding.js"
_HEAD = """// Small letters, as Python's casefold has them (Unicode {version}); a browser has no such function of its own.
//
// Written by tests/support/case_folding.py. Runs are [first, last, step, distance]; the others fold to several letters.

const RUNS = [
{runs}
];
const SEVERAL = {{
{several}
}};
"""
_TAIL = """
const FOLDS = new Map(Object.entries(SEVERAL).map(([letter, fold]) => [Number(letter), fold]));
for (const [first, last, step, distance] of RUNS) {
  for (let letter = first; letter <= last; letter += step) FOLDS.set(letter, String.fromCodePoint(letter + distance));
}

export function caseFolded(text) {
  return Array.from(text, (letter) => FOLDS.get(letter.codePointAt(0)) ?? letter).join("");
}
"""


def folds() -> dict[int, str]:
    letters = (chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    return {ord(letter): letter.casefold() for letter in letters if letter.casefold() != letter}


def table() -> str:
    """The module's text, by this Python's Unicode."""
    runs: list[tuple[int, int, int, int]] = []
    several = {code: fold for code, fold in folds().items() if len(fold) > 1}
    for code, fold in folds().items():
        if code in several:
            continue
        distance = ord(fold) - code
        if runs:
            first, last, step, same = runs[-1]
            if same == distance and code - last in (1, 2) and (step == code - last or first == last):
                runs[-1] = (first, code, code - last, distance)
                continue
        runs.append((code, code, 1, distance))
    listed = _lines(f"[{', '.join(map(str, run))}]" for run in runs)
    escaped = _lines(f'{code}: "{_escaped(fold)}"' for code, fold in several.items())
    return _HEAD.format(version=unicodedata.unidata_version, runs=listed, several=escaped) + _TAIL


def _escaped(text: str) -> str:
    return "".join(letter if letter.isascii() else f"\\u{ord(letter):04x}" for letter in text)


def _lines(entries) -> str:
    lines, line = [], " "
    for entry in entries:
        if len(line) + len(entry) > 118:
            lines.append(line)
            line = " "
        line += f" {entry},"
    return "\n".join([*lines, line])


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
