"""`make screenshots`: every page and every state of it, light and dark, wide and narrow, into docs/screenshots.

Not collected with the tests; it shares their platform and their browser.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image, ImageColor
from playwright.sync_api import Browser, Page

from saibot.ask_page import ask_page
from saibot.platform.pages import help_site
from saibot.report.picture import colours
from saibot.wire import Question
from tests.support.asking import Visit, csv_of
from tests.support.built_site import PACKED
from tests.support.serving import signed_in

from .conftest import drawn, lottery_request, state_request

OUT = Path(os.environ.get("SAIBOT_SCREENSHOTS", Path(__file__).parents[2] / "docs" / "screenshots"))  # elsewhere: to look at
LOOKS = [(scheme, shape) for scheme in ("light", "dark") for shape in ("wide", "narrow")]
STATES = [("light", "wide"), ("dark", "narrow")]  # of pages that are shown in all four looks otherwise
WIDTHS = {"wide": 1200, "narrow": 390}
TALLEST = 8000
COLOURS = 96

Scene = Callable[[Page, Any], None]


def at(path: str) -> Scene:
    return lambda page, site: page.goto(site.address + path) and None


def dataset(provider: str, suffix: str = "", *, key: str = "", of: str = "") -> Scene:
    from saibot.platform.catalog import Filter

    def go(page: Page, site: Any) -> None:
        listed = [
            json.loads(one) for one in site.platform.catalog.list(site.caller("admin"), Filter(provider=provider)).items
        ]
        chosen = next(
            one
            for one in listed
            if (not key or one["key"]["name"] == key) and (not of or one["key"]["parts"][0]["domain"] == of)
        )
        page.goto(f"{site.address}/datasets/{chosen['id']}{suffix}")

    return go


def values(page: Page, site: Any, provider: str, key: str = "", *, of: str = "", query: str = "") -> None:
    """What a sketch says of each key, alone and with the corpus."""
    dataset(provider, query, key=key, of=of)(page, site)
    drawn(page)
    only(page, "#values")


def result(page: Page, site: Any) -> None:
    page.goto(f"{site.address}/searches/{site.found_by('united')}")


def only(page: Page, shown: str, among: str = "main section.card") -> None:
    """Pictures end somewhere: this one shows these parts of its page alone."""
    hide = "(all, shown) => { for (const one of all) one.hidden ||= !one.matches(shown); }"
    page.locator(among).evaluate_all(hide, shown)


def explored(page: Page, site: Any) -> None:
    page.goto(f"{site.address}/searches/{site.found_by('united')}?epsilon=10")
    drawn(page)
    only(page, "#model, #left, #budgets")


def explored_by_state(page: Page, site: Any) -> None:
    """What a model leaves unexplained, on two maps; asked once."""
    done = [search for search in site.platform.searches.list(site.caller("agency-0"), None, 5).items]
    parts = [] if done else [state_request(part, rows) for part, rows in (("train", 12_000), ("test", 4_000))]
    id = done[0].id if done else site.asked("agency-0", *parts, Question(target="cost", steps=2))
    page.goto(f"{site.address}/searches/{id}")
    drawn(page)
    only(page, "#model, #left, #budgets")


def compared(page: Page, site: Any) -> None:
    page.goto("{}/searches/{}/compare/{}".format(site.address, *site.both_by("united")[:2]))


def nothing_found(page: Page, site: Any) -> None:
    """A search for what explains chance, of which no candidate knows anything; asked once."""
    listed = site.platform.searches.list(site.caller("newcomer"), None, 5).items
    done = [search.id for search in listed if search.target == "lottery"]
    if not done:
        parts = [lottery_request(part, rows) for part, rows in (("train", 4000), ("test", 2000))]
        done = [site.asked("newcomer", *parts, Question(target="lottery", steps=3))]
    page.goto(f"{site.address}/searches/{done[0]}")


def waiting(page: Page, site: Any) -> None:
    """Until the page is closed: one that hears that its search was cancelled says so."""
    asked = Question(target="arr_delay", steps=3)
    take, site.platform.searches.next = site.platform.searches.next, lambda **_: None
    id = site.platform.submit(site.caller("ana"), site.sketch("train"), None, asked).id

    def end(_: Page) -> None:
        site.platform.searches.cancel(site.caller("ana"), id)
        site.platform.searches.next = take

    page.on("close", end)
    page.goto(f"{site.address}/searches/{id}", wait_until="domcontentloaded")
    page.locator("progress").wait_for()


def failed(page: Page, site: Any) -> None:
    from sqlalchemy import update

    from saibot.platform.storage.tables import searches

    id = site.found_by("united")
    error = {"code": "died", "message": "the search needed more memory than there is.", "hint": "Ask for fewer candidates."}

    def set_status(status: str, error: str | None) -> None:
        with site.platform.database.write() as connection:
            connection.execute(update(searches).where(searches.c.id == id).values(status=status, error=error))

    set_status("failed", json.dumps(error | {"details": {}}))
    page.goto(f"{site.address}/searches/{id}")
    set_status("done", None)


def refused_table(page: Page, site: Any) -> None:
    page.goto(f"{site.address}/ask")
    rows = {"name": "flights.csv", "mimeType": "text/csv", "buffer": b"day,arr_delay\n"}
    page.get_by_label("Training sketch").set_input_files(rows)
    page.locator("#train-told.bad").wait_for()


def filled_in(page: Page, site: Any) -> None:
    page.goto(f"{site.address}/ask")
    page.get_by_label("Training sketch").set_input_files(site.sketches / "train.saibot")
    page.get_by_label("Held-out sketch").set_input_files(site.sketches / "test.saibot")
    page.locator("select#target").select_option("arr_delay")
    page.get_by_text("Options").click()


def refused_token(page: Page, site: Any) -> None:
    page.goto(f"{site.address}/sign-in")
    page.get_by_label("Access token").fill("saibot_of-last-year")
    page.get_by_role("button", name="Sign in").click()


def report(page: Page, site: Any) -> None:
    from saibot.report.html import report_html

    found = site.platform.result(site.caller("united"), site.found_by("united"))
    page.set_content(report_html(found, created="2013-12-31"))


def copied(page: Page, site: Any) -> None:
    """Delta's flights under another name, and with more rows than their counts have; published once."""
    from saibot.platform.catalog import Filter
    from saibot.sketch import read_sketch, write_sketch
    from tests.support.fabricating import renamed

    newcomer = site.caller("newcomer")
    if not site.platform.catalog.list(newcomer, Filter(provider="newcomer")).items:
        sketch = read_sketch(site.sketch("dl"))
        rows = {"invariants": {"rows": 10**9}}
        plan = sketch.header.plan | {"request": sketch.header.plan["request"] | {"rows": 10**9}}
        site.platform.accept(newcomer, write_sketch(renamed(sketch, "all-flights", plan=plan, **rows)))
    dataset("newcomer")(page, site)


def enquiry(page: Page, site: Any) -> None:
    """One of Ana's, as whoever looks sees it; asked once."""
    from saibot.platform.catalog import Filter
    from saibot.wire import Enquire

    ana, book = site.caller("ana"), site.platform.enquiries
    if not book.list(ana).items:
        listed = site.platform.catalog.list(ana, Filter(provider="united")).items
        why = "We plan crews for the winter of 2014.\nThe delay by day helps, and by airport it would help more."
        wish = {"columns": ("arr_delay", "taxi_out"), "keys": ("airport_day",), "budget": {"epsilon": "3", "delta": "1e-6"}}
        book.ask(ana, Enquire(dataset=json.loads(listed[0])["id"], why=why, understood=True, **wish))
    page.goto(f"{site.address}/enquiries/{book.list(ana).items[0].id}")


def enquiries(page: Page, site: Any) -> None:
    enquiry(page, site)
    page.goto(f"{site.address}/enquiries")


def from_disk(page: Page, *, until: str) -> None:
    """The page of `saibot ask-page`, from a file: what was typed, what would be sent, or the files."""
    folder = Path(tempfile.mkdtemp())
    rows = [[f"p{n}", 40 + n % 50, n % 90, "fm"[n % 2], f"2024-01-{1 + n % 28:02d}"] for n in range(500)]
    (folder / "patients.csv").write_text(csv_of(["patient", "cost", "age", "sex", "arrived"], rows))
    (folder / "ask.html").write_text(ask_page(), encoding="utf-8")
    page.goto((folder / "ask.html").as_uri())
    visit = Visit(page, folder)
    visit.begin()
    visit.choose_table(folder / "patients.csv")
    numbers = {"cost": {"lower": "0", "upper": "100", "unit": "EUR"}, "age": {"lower": "0", "upper": "110", "unit": "year"}}
    category = {"sex": {"kind": "levels", "levels": "f\nm"}}
    visit.describe("my-clinic-2024", numbers | category, individual="one patient", cap_epsilon="4")
    visit.key("arrived", kind="months", first="2024-01", last="2024-12")
    if until != "typed":
        visit.plan()
    if until == "files":
        visit.ask()
        page.locator("#files-step summary").first.click()
    shown = {"typed": "#ledger-step, #table-step, #facts-step", "plan": "#plan-step", "files": "#files-step"}[until]
    only(page, shown, "main > .card, main > form")


SCENES: dict[str, tuple[str | None, Scene]] = {
    "catalogue": ("united", at("/")),
    "catalogue-filtered": (None, at("/?q=flights&domain=dates%3A2013-01-01%3A2013-12-31&sort=rows")),
    "catalogue-nothing-found": (None, at("/?q=unicorns")),
    "dataset": (None, dataset("weather-service")),
    "values-airports": (
        None,
        lambda page, site: values(page, site, "weather-service", "airport_day", query="?within=JFK&feature=temp"),
    ),
    "dataset-without-key": (None, dataset("port-authority")),
    "ask": ("ana", filled_in),
    "ask-table-refused": ("ana", refused_table),
    "ask-signed-out": (None, at("/ask")),
    "ask-page": (None, lambda page, site: from_disk(page, until="typed")),
    "ask-page-plan": (None, lambda page, site: from_disk(page, until="plan")),
    "ask-page-files": (None, lambda page, site: from_disk(page, until="files")),
    "search-waiting": ("ana", waiting),
    "search-failed": ("united", failed),
    "searches": ("united", at("/searches")),
    "searches-empty": ("newcomer", at("/searches")),  # before that account has asked anything
    "result": ("united", result),
    "result-nothing-found": ("newcomer", nothing_found),
    "result-explored": ("united", explored),
    "compare": ("united", compared),
    "report": ("united", report),
    "budget": ("weather-service", at("/budget")),
    "budget-empty": ("newcomer", at("/budget")),
    "provider": (None, at("/providers/weather-service")),
    "account": ("united", at("/account")),
    "admin": ("admin", at("/admin")),
    "enquire": ("ana", dataset("united", "/enquire")),
    "enquiry": ("united", enquiry),
    "enquiries": ("united", enquiries),
    "describe": ("united", dataset("united", "/about")),
    "withdraw": ("united", dataset("united", "/withdraw")),
    "plan": (None, at("/plan?rows=100000&keys=365&features=2&epsilon=1")),
    "plan-refused": (None, at("/plan?epsilon=-1")),
    "sign-in": (None, at("/sign-in")),
    "sign-in-refused": (None, refused_token),
    "docs": (None, at("/docs")),
    "help": (None, at("/help/index.html")),
    "not-found": (None, at("/datasets/nowhere")),
    "dataset-copy": (None, copied),  # the last: from now on it is there
}


WHOLE = (
    "catalogue",
    "dataset",
    "ask",
    "ask-page",
    "search-waiting",
    "searches",
    "result",
    "result-explored",
    "compare",
    "report",
    "budget",
    "provider",
    "admin",
    "withdraw",
    "plan",
    "sign-in",
    "help",
)
ALL = [(name, *look) for name in SCENES for look in (LOOKS if name in WHOLE else STATES)]


FIRST_DAY = "catalogue-empty"


@pytest.fixture(scope="session", autouse=True)
def tidy() -> None:
    """Pictures of scenes that are no more go; those of a part of the scenes can be taken alone, with -k."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.png"):
        if old.stem.rsplit("-", 2)[0] not in (*SCENES, *KNOWN, FIRST_DAY):
            old.unlink()


@pytest.fixture(autouse=True)
def guide(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built for its own pictures alone: it shows others, which may be about to be taken for the first time."""
    if "[help-" in request.node.name:
        monkeypatch.setattr(help_site, "ARCHIVE", request.getfixturevalue("guide_site").parent / PACKED)


@pytest.mark.parametrize("name, scheme, shape", ALL)
def test_take(name: str, scheme: str, shape: str, site: Any, browser: Browser) -> None:
    user, scene = SCENES[name]
    take(browser, site, user, scene, f"{name}-{shape}-{scheme}", WIDTHS[shape], scheme)


KNOWN: dict[str, tuple[str | None, Scene]] = {
    "keys": (None, at("/domains")),
    "domain-days": (None, at("/domains/dates:2013-01-01:2013-12-31")),
    "domain-states": (None, at("/domains/us-state?factor=2")),
    "dataset-states": (None, dataset("agency-0", key="us-state")),
    "values-days": (None, lambda page, site: values(page, site, "agency-0", "dates:2013-01-01:2013-12-31")),
    "values-states": (None, lambda page, site: values(page, site, "agency-0", "us-state")),
    "values-counties": (None, lambda page, site: values(page, site, "survey", of="us-county-fips")),
    "values-counties-by-state": (
        None,
        lambda page, site: values(page, site, "survey", of="us-county-fips", query="?level=state"),
    ),
    "values-countries": (None, lambda page, site: values(page, site, "survey", of="iso-country")),
    "result-explored-by-state": ("agency-0", explored_by_state),
}


@pytest.mark.parametrize("name, scheme, shape", [(name, *look) for name in KNOWN for look in LOOKS])
def test_take_what_the_corpus_knows(name: str, scheme: str, shape: str, known_site: Any, browser: Browser) -> None:
    take(browser, known_site, *KNOWN[name], f"{name}-{shape}-{scheme}", WIDTHS[shape], scheme)


@pytest.mark.parametrize("scheme, shape", STATES)
def test_take_the_first_day(scheme: str, shape: str, empty_site: Any, browser: Browser) -> None:
    take(browser, empty_site, None, at("/"), f"{FIRST_DAY}-{shape}-{scheme}", WIDTHS[shape], scheme)


def take(browser: Browser, site: Any, user: str | None, scene: Scene, name: str, width: int, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    if user is not None:
        with httpx.Client(base_url=site.address, timeout=120) as client:
            session = signed_in(client, site.tokens[user])
        context.add_cookies([{"name": "saibot_session", "value": session, "url": site.address}])
    page = context.new_page()
    page.set_default_timeout(120_000)
    scene(page, site)
    if name.split("-")[0] != "search":
        page.wait_for_load_state("networkidle")
    for figure in page.locator("figure[data-chart]:visible").all():
        figure.locator("svg").wait_for()
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), "wider than the screen"
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    clip: Any = {"x": 0, "y": 0, "width": width, "height": height}
    drawn = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")
    with_few_colours(drawn, (one for one in colours(scheme).values() if one.startswith("#"))).save(
        OUT / f"{name}.png", optimize=True
    )
    context.close()


def with_few_colours(drawn: Image.Image, named: Iterable[str] = ()) -> Image.Image:
    """The named colours and the most common others, exactly as they are: backgrounds keep their tone, the dots of a legend
    theirs, and files stay small."""
    counted: Any = drawn.getcolors(drawn.width * drawn.height)
    common = [colour for _, colour in sorted(counted, reverse=True)[:COLOURS]]
    kept = [*dict.fromkeys([*map(ImageColor.getrgb, named), *common])][:256]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in kept for part in colour])
    return drawn.quantize(palette=palette, dither=Image.Dither.NONE)
