"""What the corpus knows of a key, looked at in a browser: a line over days, a map of states, and who loads on a factor."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

Open = Callable[..., Page]


def drawn(page: Page) -> None:
    expect(page.locator("figure[data-chart]:not([data-drawn])")).to_have_count(0)


def test_someone_looks_a_key_domain_up_and_takes_its_factors_along(visit: Open, known_site: Any, tmp_path: Path) -> None:
    page = visit("/", at=known_site)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Keys").click()
    page.get_by_role("link", name="days of 2013").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Days of 2013")
    drawn(page)
    assert page.locator("figure[data-chart=factor-chart] svg path").count() > 1
    first = page.locator("figure[data-chart=factor-chart] svg").inner_html()
    page.get_by_role("link", name="Factor 2").click()
    drawn(page)
    assert page.locator("figure[data-chart=factor-chart] svg").inner_html() != first
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    download.value.save_as(tmp_path / "factors.csv")
    lines = list(csv.reader(io.StringIO((tmp_path / "factors.csv").read_text(encoding="utf-8-sig"))))
    assert len(lines) == 366 and lines[0][1] == "shared:dates:2013-01-01:2013-12-31.1"
    page.get_by_text("As a table").click()
    page.get_by_role("region", name="Table of datasets by factor").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("daily")
    page.get_by_role("link", name="days of 2013").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Days of 2013")


def test_states_are_a_map(visit: Open, known_site: Any) -> None:
    page = visit("/domains/us-state", at=known_site)
    drawn(page)
    shapes = page.locator("figure[data-chart=factor-chart] svg .mark-shape path")
    assert shapes.count() >= 100, "every state twice: its ground, and its colour"
    box = page.locator("figure[data-chart=factor-chart] svg").bounding_box()
    assert box is not None and box["height"] > 200


def test_pages_of_keys_have_no_serious_finding_and_fit_a_phone(visit: Open, known_site: Any) -> None:
    page = visit("/domains", at=known_site, width=390)
    found = {}
    for path in ("/domains", "/domains/us-state", "/domains/dates:2013-01-01:2013-12-31", "/domains/us-county-fips"):
        page.goto(known_site.address + path)
        drawn(page)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        report = Axe().run(page, options={"resultTypes": ["violations"]}).response
        serious = [v for v in report["violations"] if v["impact"] in ("serious", "critical")]
        found |= {f"{path}: {v['id']}": [node["html"][:150] for node in v["nodes"]] for v in serious}
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found[f"{path}: wider than the screen"] = []
    assert found == {}
