"""The guide builds without a warning, leads nowhere wrong, and loads nothing from elsewhere."""

from __future__ import annotations

import ast
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from jinja2 import Environment, meta

from saibot.platform.pages.guides import GUIDES
from saibot.platform.pages.render import pages as page_templates
from sitebuild import checks, python_reference, rows_per_key
from sitebuild.pack import pack
from tests.support.built_site import PACKED

ROOT = Path(__file__).resolve().parents[2]


def test_every_link_and_anchor_leads_somewhere_and_nothing_is_loaded_from_elsewhere(guide_site: Path) -> None:
    assert checks.problems(guide_site) == []
    assert checks.style_problems(guide_site) == []
    assert checks.counts(guide_site)["pages"] > 50


@pytest.mark.parametrize(
    "added, told",
    [
        ('<a href="nowhere.html">x</a>', "nowhere.html leads nowhere"),
        ('<a href="guides/install.html#nowhere">x</a>', "there is no such place"),
        ('<a href="/admin">x</a>', "leads out of the site"),
        ('<img src="https://example.org/x.png" alt="">', "from elsewhere"),
        ('<script src="https://example.org/x.js"></script>', "from elsewhere"),
        ("<script>alert(1)</script>", "inline script"),
        ('<p style="color: red">x</p>', "inline style"),
        ('<p onclick="x()">x</p>', "handler onclick"),
    ],
)
def test_the_checks_notice(guide_site: Path, tmp_path: Path, added: str, told: str) -> None:
    shutil.copytree(guide_site, tmp_path / "site")
    page = tmp_path / "site" / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("</main>", f"{added}</main>"), encoding="utf-8")
    found = checks.problems(tmp_path / "site")
    assert [one for one in found if told in one] and all(one.startswith("index.html: ") for one in found)


def test_a_stylesheet_that_fetches_something_is_noticed(guide_site: Path, tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://example.org/fonts.css';")
    assert len(checks.style_problems(tmp_path)) == 2


def test_every_page_of_docs_and_every_proof_is_on_the_site(guide_site: Path) -> None:
    there = {str(path.relative_to(guide_site).with_suffix("")) for path in guide_site.rglob("*.html")}
    written = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    proofs = {path.name.removesuffix(".proof.md") for path in (ROOT / "src").rglob("*.proof.md")}
    notebooks = {path.stem for path in (ROOT / "examples").glob("*.ipynb")}
    assert written <= there
    assert {f"explanation/proofs/{name}" for name in proofs} | {f"notebooks/{name}" for name in notebooks} <= there


def test_the_search_box_knows_every_page(guide_site: Path) -> None:
    text = (guide_site / "assets" / "index.js").read_text(encoding="utf-8")
    sections = json.loads(text.removeprefix("window.guideSections = ").removesuffix(";\n"))
    found = {url.partition("#")[0] for url, *_ in sections}
    assert found == {str(path.relative_to(guide_site)) for path in guide_site.rglob("*.html")}
    assert all(len(section) == 5 and section[3] for section in sections)
    assert not any("─" in section[4] for section in sections), "lines of tables are no words"


# ------------------------------------------------------------------------------------------------ for the platform


def test_the_archive_names_every_script_by_its_digest(guide_site: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(guide_site.parent / PACKED) as archive:
        digests = json.loads(archive.read("manifest.json"))["scripts"]
        assert len(digests) == len(list(guide_site.rglob("*.js")))
        for name in archive.namelist():
            if name.endswith(".html"):
                text = archive.read(name).decode()
                named = re.findall(r'<script src="[^"]+" integrity="([^"]+)"', text)
                assert len(named) == text.count("<script") > 0 and set(named) <= set(digests)
                assert re.findall(r'data-index-digest="([^"]+)"', text)[0] in digests
    pack(guide_site, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (guide_site.parent / PACKED).read_bytes()


def test_every_page_of_the_platform_has_its_guide_and_it_is_there(guide_site: Path) -> None:
    templates = page_templates()
    framed = {name for name in templates.list_templates() if _extends(templates, name) == "base.html"}
    assert set(GUIDES) == framed
    for target in GUIDES.values():
        page, _, anchor = target.partition("#")
        text = (guide_site / page).read_text(encoding="utf-8")
        assert not anchor or f'id="{anchor}"' in text, target


def _extends(templates: Environment, name: str) -> str | None:
    assert templates.loader is not None
    source = templates.loader.get_source(templates, name)[0]
    return next(iter(meta.find_referenced_templates(templates.parse(source))), None)


# ------------------------------------------------------------------------------------------------ what is said


@pytest.mark.parametrize("room", sorted({room for _, _, rooms in python_reference.PAGES.values() for room in rooms}))
def test_every_name_that_a_room_offers_is_in_the_python_reference(room: str) -> None:
    from importlib import import_module

    offered = set(getattr(import_module(room), "__all__", ()))
    told = {name for _, _, rooms in python_reference.PAGES.values() for name in rooms.get(room, ())}
    apart = {name for names in python_reference.LEFT_OUT.get(room, {}).values() for name in names}
    for other in python_reference.PAGES.values():
        told |= {name for names in other[2].values() for name in names} & offered
    assert offered - told - apart == set()
    assert not apart & told, "what is told needs no reason to be left out"


def test_the_python_reference_shows_signatures_that_can_be_parsed() -> None:
    for text in python_reference.pages().values():
        for signature in re.findall(r"```\{ .python .signature \}\n(.*?)\n```", text, flags=re.DOTALL):
            ast.parse("def " + re.sub(r"^[\w.]*?(\w+)\(", r"\1(", signature) + ": ...")


def test_the_rule_of_the_first_page_is_what_preview_says() -> None:
    """Half at about 55 rows per key and epsilon 1, four fifths at 110, nine tenths at 160, next to nothing below 15."""

    def left(rows: float, epsilon: str = "1") -> float:
        found = rows_per_key.expected(epsilon, rows_per_key=rows).reliability
        assert found is not None
        return found["moderate"]

    assert abs(left(55) - 0.5) < 0.02 and abs(left(110) - 0.8) < 0.02 and abs(left(160) - 0.9) < 0.02 and left(15) < 0.08
    for epsilon in ("0.3", "3", "10"):  # the product of rows and epsilon is what counts, within a fifth
        half = rows_per_key.rows_for_half(epsilon)
        assert abs(left(half, epsilon) - 0.5) < 0.01
        assert 0.8 < half * float(epsilon) / 55 < 1.3
    half = rows_per_key.rows_for_half("1")
    for rows in (5, 30, 200):  # the curve of the picture
        assert abs(left(rows) - rows**2 / (rows**2 + half**2)) < 0.01
    assert abs(rows_per_key.rows_for_half("1", share="strong") / half - (0.1 / 0.3) ** 0.5) < 1e-9
    strong = rows_per_key.expected("1", rows_per_key=rows_per_key.rows_for_half("1", share="strong")).reliability
    assert strong is not None and abs(strong["strong"] - 0.5) < 0.01
