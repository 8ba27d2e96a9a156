"""A sketch shows itself in a few lines, wherever it is printed."""

from __future__ import annotations

from saibot.privacy.ledger import Ledger
from tests.support.noise import NoNoise
from tests.support.releases import release, rows


def test_a_sketch_prints_as_a_few_lines_and_in_notebooks_as_a_table(saibot_home) -> None:
    sketch = release(rows(), Ledger(saibot_home), noise=NoNoise()).sketch
    text, page = repr(sketch), sketch._repr_html_()
    assert len(text.splitlines()) == 5 and len(text) < 500
    for part in ("t, edition 1", "x, y, o=a, o=b", "epsilon", "replace-one", "SIMULATED", sketch.digest[:16]):
        assert part in text and part in page
    assert page.startswith("<table>") and "array(" not in text
