"""The guide under /help, in a browser: found, read and searched with nothing but this platform, light and dark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from saibot.platform.pages import help_site
from tests.support.built_site import PACKED

Open = Callable[..., Page]
READ = ("index", "tutorials/requester", "guides/publish-a-table", "notebooks/pipeline", "reference/python/providers")


@pytest.fixture(autouse=True)
def guide(guide_site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(help_site, "ARCHIVE", guide_site.parent / PACKED)


def test_the_search_box_finds_a_place_by_keyboard(visit: Open, site: Any) -> None:
    page = visit("/plan")
    page.get_by_role("link", name="Help").click()
    page.wait_for_url("**/help/index.html#how-many-rows-a-key-it-takes")
    page.keyboard.press("/")
    page.keyboard.type("withdraw a dataset")
    options = page.get_by_role("option")
    expect(options.first).to_be_visible()
    assert any("withdraw" in text.lower() for text in options.all_inner_texts())
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    chosen = options.nth(1).get_attribute("href") or ""
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{chosen.lstrip('.')}")
    page.get_by_role("link", name="Platform", exact=True).click()
    page.wait_for_url(f"{site.address}/")


def test_the_name_of_a_greek_letter_finds_the_letter(visit: Open) -> None:
    page = visit("/help/index.html")
    page.keyboard.press("/")
    page.keyboard.type("epsilon rows per key")
    expect(page.get_by_role("option").filter(has_text="How many rows a key it takes")).to_be_visible()


@pytest.mark.parametrize(
    "words, heading",
    [
        ("rows per key", "How many rows a key it takes"),
        ("buy bounds", "Bounds that nobody knows"),
        ("backup", "Backup, restore, upgrade"),
        ("SAIBOT_WORKERS", "Settings of a platform"),
        ("privatising", "Privatising"),
    ],
)
def test_a_search_comes_up_with_what_was_meant(visit: Open, words: str, heading: str) -> None:
    page = visit("/help/index.html")
    page.get_by_role("combobox", name="Search the guide").fill(words)
    expect(page.get_by_role("option").first).to_be_visible()
    assert any(heading in text for text in page.get_by_role("option").all_inner_texts()[:3])


def test_a_search_for_nothing_that_is_there_says_so(visit: Open) -> None:
    page = visit("/help/index.html")
    page.get_by_role("combobox").fill("xyzzyplugh")
    expect(page.get_by_text("Nothing found. Try fewer or other words.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Nothing found. Try")).to_have_count(0)


def test_dark_colours_are_a_button_and_are_remembered(visit: Open) -> None:
    page = visit("/help/guides/install.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Dark colours").click()
    dark = page.evaluate(colour)
    assert dark != light
    page.goto(page.url.replace("install", "run-a-platform"))
    assert page.evaluate(colour) == dark
    expect(page.get_by_role("button", name="Dark colours")).to_have_attribute("aria-pressed", "true")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(colour) == light  # what a reader chooses counts more than the system


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1280)])
def test_no_page_of_the_guide_has_a_serious_finding(visit: Open, site: Any, scheme: str, width: int) -> None:
    page = visit("/help/index.html", scheme=scheme, width=width)
    found = {}
    for name in READ:
        page.goto(f"{site.address}/help/{name}.html")
        report = Axe().run(page, options={"resultTypes": ["violations"]}).response
        serious = [v for v in report["violations"] if v["impact"] in ("serious", "critical")]
        found |= {f"{name}: {v['id']}": [node["html"][:150] for node in v["nodes"]] for v in serious}
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found[f"{name}: wider than the screen"] = []
    assert found == {}


def test_a_script_that_is_not_of_the_guide_does_not_run(visit: Open, watch: Any) -> None:
    watch.expected = ("Content Security Policy", "console")
    page = visit("/help/index.html")
    page.evaluate("""() => {
      window.ran = 0;
      for (const text of [null, "window.ran = 1"]) {
        const script = document.createElement("script");
        if (text) script.textContent = text; else script.src = "/static/saibot.js";
        document.head.append(script);
      }
    }""")
    deadline = time.monotonic() + 30
    while len(refused := [each for each in watch.problems if "Content Security Policy" in each]) < 2:
        assert time.monotonic() < deadline, refused
        page.wait_for_timeout(50)
    assert page.evaluate("window.ran") == 0


def test_the_guide_can_be_read_from_a_disk(browser: Browser, guide_site: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((guide_site / "index.html").as_uri())
    page.get_by_role("combobox", name="Search the guide").fill("ledger")
    expect(page.get_by_role("option").first).to_be_visible()
    page.get_by_role("option").first.click()
    expect(page.get_by_role("link", name="Platform", exact=True)).to_be_hidden()
    assert asked and all(url.startswith("file:") for url in asked)
    page.close()
