"""Pages for everybody: by keyboard alone, for assistive technology, on a phone, in dark mode, with large results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from saibot.platform.catalog import Filter
from saibot.wire import Question

from . import screenshots
from .conftest import drawn

Open = Callable[..., Page]
PAGES = (
    *("catalogue", "nothing found", "dataset", "no key", "ask", "plan", "budget", "withdraw", "describe", "enquire"),
    *("providers/united", "providers/weather-service", "account", "searches", "result", "compare", "enquiries", "domains"),
    *("domains/dates:2013-01-01:2013-12-31", "docs", "sign-in", "error"),
)

ENDS = {"withdraw": "/withdraw", "describe": "/about", "enquire": "/enquire"}


def address(site: Any, name: str) -> str:
    """Where a page of the list is on this site."""
    if name in ("dataset", "withdraw", "describe", "enquire", "no key"):
        provider = {"no key": "port-authority", "enquire": "delta"}.get(name, "united")
        listed = site.platform.catalog.list(site.caller("united"), Filter(provider=provider)).items
        return f"/datasets/{json.loads(listed[0])['id']}" + ENDS.get(name, "")
    if name == "result":
        return f"/searches/{site.found_by('united')}"
    if name == "compare":
        return "/searches/{}/compare/{}".format(*site.both_by("united")[:2])
    known = {"catalogue": "/", "nothing found": "/?q=unicorns", "error": "/datasets/nowhere"}
    return known.get(name, f"/{name}")


# Texts of three words or more that are broken to one word a line.
BROKEN = r"""() => {
  const found = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const words = texts.currentNode.data.trim().split(/\s+/).length, range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const lines = new Set([...range.getClientRects()].filter((box) => box.width > 2).map((box) => Math.round(box.bottom)));
    if (words >= 3 && lines.size >= words) found.push(texts.currentNode.data.trim());
  }
  return found;
}"""


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1200)])
def test_no_page_has_a_serious_finding_or_needs_sideways_scrolling(
    visit: Open, site: Any, watch: Any, scheme: str, width: int
) -> None:
    watch.expected = ("404",)
    page = visit("/", user="united", width=width, scheme=scheme)
    found = {}
    for name in PAGES:
        if name == "sign-in":
            page.context.clear_cookies()
        page.goto(site.address + address(site, name))
        drawn(page)
        found |= findings(page, name)
    assert found == {}


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1200)])
@pytest.mark.parametrize(
    "name, user",
    [
        ("enquiry", "united"),
        ("search-failed", "united"),
        ("result-nothing-found", "newcomer"),
        ("plan-refused", None),
    ],
)
def test_pages_of_what_is_open_or_went_wrong_have_no_serious_finding_either(
    visit: Open, site: Any, name: str, user: str | None, scheme: str, width: int
) -> None:
    page = visit("/", user=user, width=width, scheme=scheme)
    screenshots.SCENES[name][1](page, site)
    drawn(page)
    assert findings(page, name) == {}


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1200)])
def test_the_page_of_a_search_that_waits_has_no_serious_finding_either(
    visit: Open, site: Any, monkeypatch: pytest.MonkeyPatch, scheme: str, width: int
) -> None:
    monkeypatch.setattr(site.platform.searches, "next", lambda **_: None)
    ana = site.caller("ana")
    search = site.platform.submit(ana, site.sketch("train"), None, Question(target="arr_delay", steps=3))
    try:
        page = visit(f"/searches/{search.id}", user="ana", width=width, scheme=scheme)
        expect(page.locator("progress")).to_be_visible()
        assert findings(page, "waiting") == {}
        page.goto(site.address)
    finally:
        site.platform.searches.cancel(ana, search.id)


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1200)])
def test_pages_with_maps_have_no_serious_finding_either(visit: Open, known_site: Any, scheme: str, width: int) -> None:
    listed = known_site.platform.catalog.list(known_site.caller("admin"), Filter(provider="agency-0")).items
    states = next(one["id"] for one in map(json.loads, listed) if one["key"]["name"] == "us-state")
    listed = known_site.platform.catalog.list(known_site.caller("admin"), Filter(provider="survey")).items
    surveys = [f"/datasets/{one['id']}" for one in map(json.loads, listed)]
    for path in (f"/datasets/{states}", "/domains/us-state", *surveys):
        page = visit(path, at=known_site, width=width, scheme=scheme)
        drawn(page)
        assert findings(page, path) == {}


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1200)])
def test_the_page_of_an_admin_has_no_serious_finding_either(visit: Open, scheme: str, width: int) -> None:
    assert findings(visit("/admin", user="admin", width=width, scheme=scheme), "admin") == {}


def findings(page: Page, name: str) -> dict[str, list[str]]:
    """What is wrong with a page, everything on it opened."""
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    report = Axe().run(page, options={"resultTypes": ["violations"]}).response
    serious = [v for v in report["violations"] if v["impact"] in ("serious", "critical") or v["id"] == "heading-order"]
    found = {f"{name}: {v['id']}": [node["html"][:150] for node in v["nodes"]] for v in serious}
    if broken := page.evaluate(BROKEN):
        found[f"{name}: one word a line"] = broken
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found[f"{name}: wider than the screen"] = []
    return found


def test_everything_can_be_done_with_the_keyboard_alone(visit: Open, site: Any) -> None:
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    page.keyboard.type("united flights")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=united**")
    tab_to(page, "United flights out of New York, 2013")
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets/*")
    tab_to(page, "The plan: noise of every block")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table").filter(has_text="Sensitivity")).to_be_visible()

    page.goto(f"{site.address}/sign-in?next=/budget")
    expect(page.locator("input:focus")).to_have_count(1)  # the only field has the focus, once the page is drawn
    page.keyboard.type(site.tokens["united"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site.address}/budget")
    tab_to(page, "Withdraw… ua-flights-2013 by day")
    page.keyboard.press("Enter")
    page.wait_for_url("**/withdraw")
    tab_to(page, "Keep it")
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets/*")

    page.goto(site.address + address(site, "result"))
    tab_to(page, "Gain in R²")
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Gain in R²")).to_have_attribute("aria-sort", "descending")


def test_an_admin_verifies_a_provider_and_takes_it_back_with_the_keyboard_alone(visit: Open, site: Any) -> None:
    page = visit("/admin", user="admin")
    tab_to(page, "Verify port-authority")
    page.keyboard.press("Enter")
    page.wait_for_url("**done=verified**")
    assert "port-authority" in site.platform.providers.verified()
    tab_to(page, "Take back the verification of port-authority")
    page.keyboard.press("Enter")
    page.wait_for_url("**done=unverified**")
    assert "port-authority" not in site.platform.providers.verified()


def tab_to(page: Page, text: str) -> None:
    """Press Tab until the element with this text has the focus, and check at each stop that one can see where it is."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            continue  # round the browser's own buttons
        words, outline = page.evaluate(
            "[document.activeElement.textContent.trim(), getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert outline != "none", f"no visible focus on {words[:40]!r}"
        if words.startswith(text):
            return
    raise AssertionError(f"{text!r} cannot be reached by Tab")


def test_charts_follow_the_colour_scheme(visit: Open, site: Any) -> None:
    page = visit(address(site, "dataset"))
    label = page.locator("figure[data-chart=profile-chart] svg text").first
    expect(label).to_be_visible()
    light = label.get_attribute("fill")
    page.emulate_media(color_scheme="dark")
    expect(label).not_to_have_attribute("fill", light or "")


def test_a_result_with_a_thousand_candidates_is_sorted_and_narrowed_in_the_page(visit: Open, site: Any) -> None:
    id = site.found_by("ana")
    path = site.platform.settings.data / "searches" / id / "result.json"
    document = json.loads(path.read_bytes())
    some = document["ranked"]
    many = [
        some[i % len(some)] | {"dataset": f"agency-{i}", "digest": f"{i:064x}", "gain": 1 / (i + 1)} for i in range(1000)
    ]
    path.write_text(json.dumps(document | {"ranked": many}))
    page = visit(f"/searches/{id}", user="ana")
    rows = page.locator("#ranked tbody tr")
    expect(rows).to_have_count(1000)
    expect(page.locator("figure[data-chart=gains-chart] svg")).to_be_visible()
    page.get_by_role("button", name="Gain in R²").click()
    page.get_by_role("button", name="Gain in R²").click()
    expect(rows.first).to_contain_text("agency-999")
    page.get_by_label("Show only candidates with").fill("agency-77")
    assert page.locator("#ranked tbody tr:visible").count() == 11
    path.write_text(json.dumps(document))


def test_an_empty_platform_says_how_to_begin(visit: Open, empty_site: Any) -> None:
    page = visit("/", at=empty_site)
    expect(page.get_by_role("heading", name="No datasets yet")).to_be_visible()
    expect(page.get_by_text("saibot publish")).to_be_visible()


def test_pages_work_without_script(visit: Open, site: Any) -> None:
    page = visit("/plan?rows=5000&keys=100", java_script_enabled=False)
    expect(page.get_by_text("of what the raw values would explain survives,")).to_be_visible()
    page.get_by_label("Rows", exact=True).fill("500000")
    page.get_by_role("button", name="Show what to expect").click()
    expect(page.get_by_role("row", name="Rows per key 5000")).to_be_visible()
    page.goto(site.address + address(site, "dataset"))
    expect(page.get_by_text("The table has the same numbers").first).to_be_visible()


@pytest.mark.parametrize("width", [320, 390, 700])
def test_every_link_of_the_navigation_is_in_sight_on_a_narrow_screen(visit: Open, width: int) -> None:
    links = visit("/", user="united", width=width).locator(".nav a")
    found = {link.inner_text(): link.bounding_box() or {} for link in links.all()}
    assert {"Catalogue", "Plan", "Budget", "Enquiries"} <= found.keys()
    assert [name for name, box in found.items() if box["x"] < 0 or box["x"] + box["width"] > width] == []
