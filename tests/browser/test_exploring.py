"""A result explored in a browser: other budgets by a click, residuals on maps, two searches side by side, a file on disk."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from saibot.client.fit_on_rows import fit_on_rows
from saibot.report.html import report_html
from saibot.wire import Question, Result

from .conftest import drawn, state_request
from .test_for_everyone import tab_to

Open = Callable[..., Page]


def test_someone_asks_about_another_budget_and_takes_what_is_left_by_key_along(
    visit: Open, site: Any, tmp_path: Path
) -> None:
    page = visit(f"/searches/{site.found_by('united')}", user="united")
    drawn(page)
    for chart in ("effects-chart", "left-chart-0", "budgets-chart"):
        expect(page.locator(f"figure[data-chart={chart}] svg")).to_be_visible()
    expect(page.get_by_role("region", name="Table of coefficients")).to_contain_text("minute per mile")
    page.get_by_role("navigation", name="On this page").get_by_role("link", name="Other budgets").click()
    page.get_by_role("link", name="ε 10", exact=True).click()
    expect(page.get_by_role("heading", name="What if ε were 10?")).to_be_in_viewport()
    drawn(page)
    kept = [
        page.get_by_role("region", name="Table of other budgets").get_by_role("row").nth(1).get_by_role("cell").nth(i)
        for i in (2, 3)
    ]
    now, then = (float(cell.inner_text().split("\u00a0%")[0]) for cell in kept)
    assert then > now, "more budget keeps more of the signal"
    with page.expect_download() as download:
        page.locator("#left").get_by_role("link", name="CSV").click()
    download.value.save_as(tmp_path / "left.csv")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "left.csv").read_text(encoding="utf-8-sig"))))
    assert len(lines) == 365 and {line["part"] for line in lines} == {"day"}


def test_two_searches_are_compared_with_the_keyboard_alone(visit: Open, site: Any) -> None:
    first, second = site.both_by("united")[:2]
    page = visit(f"/searches/{first}", user="united")
    drawn(page)
    page.get_by_label("The other one").focus()
    page.get_by_label("The other one").select_option(second)
    tab_to(page, "Compare")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/searches/{first}/compare/{second}")
    expect(page.get_by_role("heading", name="Two searches side by side")).to_be_visible()
    drawn(page)
    for chart in ("steps-chart", "pairs-chart", "models-chart"):
        expect(page.locator(f"figure[data-chart={chart}] svg")).to_be_visible()
    facts = page.get_by_role("region", name="Table of both searches")
    expect(
        facts.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Own features", exact=True))
    ).to_contain_text("dep_delay")
    expect(page.locator("main")).to_contain_text("with dep_delay, distance · ε\u00a03 · ")
    tab_to(page, "Swap")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/searches/{second}/compare/{first}")


def test_what_is_left_by_state_is_two_maps_of_one_scale(visit: Open, known_site: Any) -> None:
    parts = [state_request(part, rows) for part, rows in (("train", 12_000), ("test", 4_000))]
    id = known_site.asked("agency-0", *parts, Question(target="cost", steps=2))
    page = visit(f"/searches/{id}", user="agency-0", at=known_site, width=390)
    drawn(page)
    left = page.locator("#left")
    for place in (0, 1):
        shapes = left.locator(f"figure[data-chart=left-chart-0-{place}] svg .mark-shape path")
        assert shapes.count() >= 100, "every state twice: its ground, and its colour"
    expect(left.get_by_role("heading", name="With your own features")).to_be_visible()
    expect(left.get_by_role("heading", name="With what was added")).to_be_visible()
    colours = [
        left.locator(f"figure[data-chart=left-chart-0-{place}] svg .role-legend text").all_inner_texts() for place in (0, 1)
    ]
    assert colours[0] == colours[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_with_rows_opens_from_disk_without_network_or_script(
    site: Any, browser: Browser, tmp_path: Path, scheme: Any
) -> None:
    text = site.platform.searches.result(site.caller("united"), site.found_by("united"))
    rng = np.random.default_rng(0)
    actual = rng.normal(size=3000)
    before, after = actual + rng.normal(size=3000), actual + 0.5 * rng.normal(size=3000)
    fit = fit_on_rows("those held out", actual, before, after, None, np.zeros(3000, np.intp))
    path = tmp_path / "report.html"
    path.write_text(report_html(Result.model_validate_json(text, extra="ignore"), fit), encoding="utf-8")
    context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": 390, "height": 800})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    expect(page.get_by_role("heading", name="Actual against predicted")).to_be_visible()
    expect(page.locator("#predicted svg")).to_have_count(2)
    assert asked == [path.as_uri()] and not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    cells = page.locator("#predicted svg path[fill]").first.evaluate("(path) => getComputedStyle(path).fill")
    main = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--chart-main')").strip()
    assert cells == "rgb({}, {}, {})".format(*(int(main[i : i + 2], 16) for i in (1, 3, 5))), "colours follow the scheme"
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    report = Axe().run(page, options={"resultTypes": ["violations"]}).response
    assert [v["id"] for v in report["violations"] if v["impact"] in ("serious", "critical")] == []
    context.close()
