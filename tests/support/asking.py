"""Somebody at the page that `saibot ask-page` writes, in a browser, opened from disk: what they choose, type and save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from saibot.ask_page import ask_page

FLIGHTS = {
    "arr_delay": {"lower": "-30", "upper": "120", "unit": "minute", "missing": "0"},
    "dep_delay": {"lower": "-30", "upper": "120", "unit": "minute", "missing": "0"},
    "distance": {"lower": "0", "upper": "3000", "unit": "mile"},
}
DAYS_OF_2013 = {"kind": "dates", "first": "2013-01-01", "last": "2013-12-31"}


@dataclass
class Visit:
    """One visit of the page. `requests` are all addresses that it asked for, `problems` what its console says."""

    page: Page
    folder: Path
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def step(self, name: str) -> Locator:
        return self.page.locator(f"#{name}-step")

    def begin(self, ledger: Path | None = None) -> None:
        if ledger is None:
            self.page.get_by_role("button", name="Begin a new ledger").click()
        else:
            self.page.get_by_label("Your newest ledger").set_input_files(ledger)
        expect(self.step("table")).to_be_visible()

    def choose_table(self, path: Path) -> None:
        self.page.get_by_label("The table", exact=True).set_input_files(path)

    def describe(self, name: str, columns: Mapping[str, Mapping[str, str]], **more: str) -> None:
        """Type what is public: the name, columns with their facts, and further fields by their ids."""
        expect(self.step("facts")).to_be_visible()
        self.page.locator("#name").fill(name)
        for column, facts in columns.items():
            entry = self.page.locator(f'#columns li[data-at="{column}"]')
            entry.get_by_role("checkbox").check()
            for fact, value in facts.items():
                place = entry.locator(f"[data-{fact}]")
                place.select_option(value) if fact == "kind" else place.fill(value)
        self.fill(**more)

    def fill(self, **more: str) -> None:
        for name, value in more.items():
            place = self.page.locator(f"#{name.replace('_', '-')}")
            place.select_option(value) if place.evaluate("one => one.tagName") == "SELECT" else place.fill(value)

    def key(self, column: str, **facts: str) -> None:
        self.page.locator("#key").select_option(column)
        kind = facts.pop("kind")
        self.page.locator("#key-kind").select_option(kind)
        for name, value in facts.items():
            self.page.locator(f"#key-{name}").fill(value)

    def plan(self) -> None:
        self.page.get_by_role("button", name="Read the table and plan").click()
        expect(self.step("plan")).to_be_visible()

    def charge(self) -> Path:
        """Save the ledger with the charge."""
        return self.saved("Save the ledger with this charge")

    def confirm(self, ledger: Path) -> None:
        self.page.get_by_label("The ledger that was just saved").set_input_files(ledger)

    def saved(self, words: str) -> Path:
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=words).click()
        path = self.folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def ask(self) -> dict[str, Path]:
        """Charge, draw, and save all files."""
        ledger = self.charge()
        self.confirm(ledger)
        expect(self.step("files")).to_be_visible()
        named = {"train": "Save the training sketch", "test": "Save the test sketch", "card": "Save the card"}
        found = {name: self.saved(words) for name, words in named.items()}
        return found | {"charged": ledger, "ledger": self.saved("Save the ledger with its receipt")}

    def check(self) -> None:
        """The page reached nothing but itself, and nothing went wrong in it."""
        assert self.problems == []
        assert {address for address in self.requests if not address.startswith("blob:")} <= {self.page.url.split("#")[0]}


@dataclass
class AtTheBrowser:
    """Opens the page, each time in a profile of its own."""

    browser: Browser
    folder: Path
    contexts: list[BrowserContext] = field(default_factory=list)

    def visit(self, *, width: int = 1200, scheme: str = "light") -> Visit:
        file = self.folder / "saibot-ask.html"
        file.write_text(ask_page(), encoding="utf-8")
        size: Any = {"width": width, "height": 850}
        context = self.browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)  # type: ignore[arg-type]
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        made = Visit(page, self.folder)
        context.on("request", lambda request: made.requests.append(request.url))
        context.on("weberror", lambda error: made.problems.append(str(error.error)))
        context.on("console", lambda said: made.problems.append(said.text) if said.type in ("error", "warning") else None)
        page.goto(file.as_uri())
        return made

    def close(self) -> None:
        for context in self.contexts:
            context.close()


def modules_of(page: Page, body: str, data: Any = None) -> Any:
    """What `body` returns, run in the page that is open: `page("plan")` is a module of it, `data` what is given."""
    return page.evaluate(f"async (data) => {{ const page = (name) => modules[`${{name}}.js`];\n{body}\n}}", data)


def csv_of(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in (names, *rows))
