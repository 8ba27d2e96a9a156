"""Pictures of a result: files, and what a notebook shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saibot.errors import InvalidInput
from saibot.report.picture import MOST_CANDIDATES, Picture, result_picture
from saibot.report.result import view_result

Make = Callable[..., dict[str, Any]]


def picture_of(document: dict[str, Any]) -> Picture:
    return result_picture(view_result(document))


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF")])
def test_the_ending_of_a_name_says_what_is_written(
    result_document: Make, tmp_path: Path, suffix: str, begins: bytes
) -> None:
    picture_of(result_document()).save(tmp_path / f"found{suffix}")
    content = (tmp_path / f"found{suffix}").read_bytes()
    assert content.startswith(begins) and len(content) > 5_000


def test_other_endings_are_refused(result_document: Make, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\.png, \.svg or \.pdf"):
        picture_of(result_document()).save(tmp_path / "found.gif")
    assert not list(tmp_path.iterdir())


def test_a_notebook_shows_both_panels_with_their_titles_axes_and_legends(result_document: Make) -> None:
    shown = picture_of(result_document())._repr_svg_()
    for told in ("what explains arr_delay", "R² step by step", "gain in R² of each candidate by itself", ">gain in R²<"):
        assert told in shown
    for told in ("training rows", "held-out rows", "taken", "not taken"):
        assert f">{told}</text>" in shown


def test_a_picture_has_real_colours_and_a_background_of_its_own(result_document: Make) -> None:
    """Stand-ins for the stylesheet's colours mean nothing outside a report, and a notebook may be dark."""
    drawn = picture_of(result_document())
    assert '"@' not in drawn._text()
    assert json.loads(drawn._text())["background"] == "#ffffff" and 'fill="#ffffff"' in drawn.svg()


def test_a_picture_shows_the_first_candidates_only(result_document: Make) -> None:
    gains = picture_of(result_document(candidates=100)).spec["hconcat"][1]
    assert len(gains["data"]["values"]) == MOST_CANDIDATES


def test_a_search_that_found_nothing_still_has_a_picture_of_its_own_model(result_document: Make) -> None:
    drawn = picture_of(result_document(candidates=0, steps=0, held_out=False))
    assert len(drawn.spec["hconcat"]) == 1 and "own features" in drawn.svg()
