"""A card's template is made of column names and types. A table whose first line holds cells has no column names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from saibot.audit.promises.verdict import Verdict
from saibot.errors import SaibotError
from saibot.privatize.template import card_template

ROWS = ("Grace Hopper,85,1906-12-09,3.5", "Ada Lovelace,36,1815-12-10,4.5", "Emmy Noether,53,1882-03-23,5.5")
CELLS = ("Grace Hopper", "85", "1906-12-09", "3.5")


def template_has_no_cells() -> Iterable[Verdict]:
    """`saibot init` on files without a header: nothing of the first row may stand in the card, nor in the refusal."""
    promise = "init writes no cell of a table without a header into the card"
    for name, separator in (("people.csv", ","), ("people.tsv", "\t")):
        with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
            table = Path(folder) / name
            table.write_text("\n".join(ROWS).replace(",", separator) + "\n", encoding="utf-8")
            try:
                written = card_template(table)
            except SaibotError as problem:
                written = f"{problem.message} {problem.hint}"
        told = [cell for cell in CELLS if cell in written]
        if told:
            yield Verdict(promise, f"{name}: {len(told)} cells of the first row are in what init wrote")
            return
    yield Verdict(promise)
