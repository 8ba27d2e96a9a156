"""One story by command, by Python and by page, made to pass through every room: `python story.py PART FOLDER`.

Tables are small, and nothing is checked but that every step succeeds: other tests hold the steps to what they promise.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import httpx
import numpy as np
import pandas as pd
from typer.testing import CliRunner

import saibot
from saibot.cli.app import app, main
from saibot.client import Provider, Requester, SearchOptions
from saibot.demo import story
from saibot.embedded import embedded

WARDS = [f"W{i:02d}" for i in range(12)]
CARD = """
[dataset]
name = "{name}"
title = "Nights in hospital"
individual = "one patient"
neighbours = "replace-one"
[budget]
cap = {{ epsilon = "40", delta = "1e-6" }}
{features}
[keys.ward]
column = "ward"
domain = {{ file = "wards.csv", id = "wards" }}
levels = ["building"]
[keys.day]
domain = {{ dates = ["2024-01-01", "2024-01-31"] }}
[keys.place]
parts = ["ward", "day"]
"""
NIGHTS = '[features.nights]\nbounds = [0, 20]\nunit = "night"\n[features.age]\nbounds = { buy = "0.1" }'
PUBLIC = """
[dataset]
name = "beds"
title = "Beds of every ward"
[features.beds]
bounds = [0, 40]
[keys.ward]
domain = { file = "wards.csv", id = "wards" }
"""
COSTS = '[features.cost]\nbounds = [0, 20]\n[features.age]\nbounds = [0, 100]\n[features.sex]\nlevels = ["f", "m"]'


@dataclass
class Person:
    """Somebody with a machine of their own, that is, a folder."""

    folder: Path

    def type(self, *words: object, reads: str | None = None, fails: bool = False) -> str:
        os.chdir(self.folder)
        environment = {"SAIBOT_HOME": str(self.folder / "home"), "COLUMNS": "160"}
        done = CliRunner().invoke(app, [str(word) for word in words], input=reads, env=environment)
        if (done.exit_code != 0) != fails:
            raise AssertionError(f"{words}: {done.output}") from done.exception
        return done.stdout

    def json(self, *words: object, **more: str) -> dict:
        return json.loads(self.type(*words, "--json", **more))


def people(root: Path) -> tuple[Person, Person, Person]:
    admin, provider, requester = (Person(root / name) for name in ("admin", "provider", "requester"))
    rng = np.random.default_rng(3)
    level = dict(zip(WARDS, rng.uniform(2, 18, len(WARDS)), strict=True))
    lines = ["ward,building"] + [f"{ward},{'north' if i < 6 else 'south'}" for i, ward in enumerate(WARDS)]

    def table(rows: int, name: str, noise: float) -> pd.DataFrame:
        wards = rng.choice(WARDS, rows)
        days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 31, rows), "D")
        values = np.clip([level[ward] for ward in wards] + rng.normal(0, noise, rows), 0, 20)
        frame = pd.DataFrame({"ward": wards, "day": days.strftime("%Y-%m-%d"), name: values})
        return frame.assign(age=rng.integers(20, 90, rows), sex=rng.choice(["f", "m"], rows))

    for person in (admin, provider, requester):
        person.folder.mkdir(parents=True)
        (person.folder / "wards.csv").write_text("\n".join(lines) + "\n")
    (provider.folder / "card.toml").write_text(CARD.format(name="stays", features=NIGHTS))
    (provider.folder / "more.toml").write_text(CARD.format(name="more", features=COSTS))
    (requester.folder / "card.toml").write_text(CARD.format(name="costs", features=COSTS))
    (provider.folder / "beds.toml").write_text(PUBLIC)
    pd.DataFrame({"ward": WARDS, "beds": [2 * level[ward] for ward in WARDS]}).to_csv(provider.folder / "beds.csv")
    table(4000, "nights", 1).to_csv(provider.folder / "stays.csv", index=False)
    for number in range(9):
        table(1500, "nights", 2).to_csv(provider.folder / f"clinic{number}.csv", index=False)
    table(2000, "cost", 3).to_csv(provider.folder / "more.csv", index=False)
    table(3000, "cost", 3).to_parquet(requester.folder / "costs.parquet", index=False)
    table(500, "cost", 3).to_csv(requester.folder / "mine.csv", index=False)
    return admin, provider, requester


# ------------------------------------------------------------------------------------------------ by command


def released(provider: Person) -> None:
    """Sketches of every shape: by a key with levels, for joins row by row, and without a key."""
    provider.type("privatize", "stays.csv", "--card", "card.toml", "--epsilon", 4, "--key", "ward", "--out", "stays.saibot")
    other = ("privatize", "more.csv", "--card", "more.toml", "--epsilon", 1, "--feature", "cost", "--feature", "age")
    provider.type(*other, "--key", "day", "--layout", "semiring", "--out", "pairs.saibot", "--backend", "polars")
    provider.type(*other, "--mechanism", "fpm", "--out", "union.saibot")


def at_home(root: Path) -> None:
    """Everything that needs no platform."""
    _, provider, requester = people(root)
    released(provider)
    provider.type("--version")
    provider.type("completion", "bash")
    provider.type("init", "stays.csv", "--out", "fresh.toml")
    guided = (
        "publish",
        "stays.csv",
        "--card",
        "guided.toml",
        "--name",
        "guided",
        "--individual",
        "one stay",
        "--key",
        "ward",
    )
    guided += ("--domain", "wards.csv", "--feature", "nights", "--feature", "sex=f|m", "--epsilon", 2)
    provider.type(*guided, "--out", "guided.saibot", "--yes")
    provider.type("plan", "--features", 2)
    provider.type("plan", "--features", 2, "--mechanism", "fpm-opt", "--delta", 0)
    provider.type("preview", "--rows", 4000, "--keys", 12)
    release = ("privatize", "stays.csv", "--card", "card.toml", "--feature", "nights")
    provider.type(*release, "--key", "ward", "--dry-run")
    provider.type(*release, "--key", "place", "--out", "places.saibot")
    provider.type(*release, "--key", "ward", "--prepare", "paper", "--out", "paper.saibot")
    provider.type(*release, "--backend", "abacus", fails=True)
    component = (provider.folder / "more.toml").read_text().replace('"more"', '"mixed"')
    (provider.folder / "mixed.toml").write_text(component + '\n[component]\nof = ["cost", "age"]\nbuy = "0.3"\n')
    provider.type("privatize", "more.csv", "--card", "mixed.toml", "--key", "ward", "--out", "mixed.saibot")
    unlisted = (provider.folder / "card.toml").read_text().replace('"stays"', '"unlisted"').split("[keys")[0]
    (provider.folder / "unlisted.toml").write_text(unlisted + '\n[keys.ward]\ndomain = { find = "ward" }\n')
    provider.type("privatize", "stays.csv", "--card", "unlisted.toml", "--key", "ward", "--feature", "nights")
    several = ("privatize", "more.csv", "--card", "more.toml", "--keys", "ward,day", "--out", "several")
    provider.type(*several, "--dry-run")
    provider.type(*several)
    teachers = []
    for number in range(9):  # enough tables by one key to learn what they have in common
        name = f"clinic{number}"
        facts = NIGHTS if number else NIGHTS.replace("[0, 20]", "[1, 20]\nlog = true")
        (provider.folder / f"{name}.toml").write_text(CARD.format(name=name, features=facts))
        clinic = ("privatize", f"{name}.csv", "--feature", "nights", "--epsilon", 4, "--key", "ward")
        provider.type(*clinic, "--out", f"{name}.saibot")
        teachers.append(f"{name}.saibot")
    for id in ("iso-country", "us-county-fips", "nuts-3", "icd-10-cm", "hour-of-day"):
        provider.type("domains", "show", id)
    provider.type("domains", "import", "wards.csv", "--id", "hospital-wards", "--key", "ward", "--levels", "building")
    provider.type("inspect", "stays.saibot")
    provider.type("synthesize", "stays.saibot", "--rows", 500)
    provider.type("ledger")
    provider.type("ledger", "stays")
    wards = ("--domain", "wards.csv", "--domain-id", "wards")
    provider.type("pack", "corpus", "stays.saibot", "places.saibot", "pairs.saibot", "mixed.saibot", *teachers, *wards)
    provider.type("publish", "--open", "beds.csv", "--source", "The hospital's web page", "--yes", "--out", "open")
    provider.type("pack", "corpus", "open", "--trust-open")
    provider.type("inspect", "open/beds-ward.saibot")
    (provider.folder / "wards.csv").write_text("ward\nW99\n")
    provider.type("pack", "corpus", "stays.saibot", *wards, fails=True)  # other wards under the same name
    provider.type("reproduce", "nothing", fails=True)
    provider.type("bench", "privatize", "--rows", 1000, "--keys", 25_000)  # so many that their noise is drawn in bulk
    for who, town in (("anna", "north"), ("bert", "south")):
        (requester.folder / "row.toml").write_text(
            '[dataset]\nname = "commuters"\nneighbours = "replace-one"\n[features.minutes]\nbounds = [0, 120]\n'
            '[keys.town]\ndomain = { values = ["north", "south"], id = "towns" }\n'
        )
        own = Person(requester.folder / who)
        own.folder.mkdir()
        row = ("--value", "minutes=20", "--value", f"town={town}")
        own.type("contribute", *row, "--card", "../row.toml", "--key", "town", "--out", f"../reports/{who}.saibot")
    requester.type("collect", "reports", "--out", "commuters.saibot")
    corpus = provider.folder / "corpus"
    asked = ("search", "--train", "mine.csv", "--target", "cost", "--key", "ward", "--key", "day", "--corpus", corpus)
    requester.type(*asked, "--card", "card.toml", "--out", "found.json", "--plot", "found.png", "--report", "found.html")
    requester.type("augment", "found.json", "mine.csv", "--corpus", corpus, "--out", "wider.csv")
    requester.type("report", "found.json", "--table", "mine.csv", "--corpus", corpus, "--epsilon", 3)
    prepared = ("--card", "card.toml", "--corpus", corpus, "--yes", "--out", "plan.json")
    requester.type("federate", "prepare", "found.json", *prepared)
    first, given, last = "plan-state-0.json", "given.json", "plan-state-1.json"
    agreed = ("--epsilon", "1", "--delta", "1e-6")
    requester.type("federate", "round", "plan.json", first, "mine.csv", "--card", "card.toml", *agreed, "--out", given)
    requester.type("federate", "step", "plan.json", first, given, "--out", last)
    requester.type("federate", "show", "plan.json", last)
    requester.type("federate", "predict", "plan.json", last, "mine.csv", "--card", "card.toml", "--out", "told.csv")
    for more in (
        ["--rank", "potential", "--whole-datasets"],
        ["--rank", "expected"],
        ["--exhaustive"],
        ["--model", "gbm"],
        ["--hops"],
        ["--shared"],
    ):
        requester.type(*asked, "--card", "card.toml", *more)
    with patch.dict(sys.modules, {"sklearn": None}):  # as where its extra is not installed
        requester.type(*asked, "--card", "card.toml", "--model", "gbm", fails=True)
    one = ("search", "--train", "mine.csv", "--target", "cost", "--key", "day", "--corpus", corpus, "--card", "card.toml")
    requester.type(*one, "--join", "many-to-many-unbiased")
    counts = ("search", "--train", "mine.csv", "--target", "age", "--family", "poisson")
    requester.type(*counts, "--key", "ward", "--corpus", corpus)
    requester.type("discover", "mine.csv", "--card", "card.toml", "--key", "ward", "--corpus", corpus)


def on_a_platform(root: Path) -> None:
    """A server in a process of its own, what three people type, and what one of them sees in a browser."""
    admin, provider, requester = people(root)
    released(provider)
    server = subprocess.Popen(
        [sys.executable, "-m", "saibot.cli", "serve", "--port", "0", "--data", "data", "--json"],
        cwd=admin.folder,
        env=os.environ | {"SAIBOT_LOG_LEVEL": "error", "SAIBOT_WORKERS": "1", "SAIBOT_HOME": str(admin.folder / "home")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        tokens: list[str] = []
        ready = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        admin.type("login", ready["address"], "--token-file", ready["admin_token_file"])
        for person, role in ((provider, "provider"), (requester, "requester")):
            made = admin.json("token", "create", f"the-{role}", "--role", role)
            tokens.append(made["token"])
            person.type("login", ready["address"], reads=made["token"] + "\n")
        admin.type("token", "list")
        admin.type("trail", "--action", "create token")
        admin.type("token", "revoke", admin.json("token", "create", "guest", "--role", "requester")["id"])
        provider.type("domains", "register", "wards.csv", "--id", "wards")
        requester.type("domains", "list")
        requester.type("domains", "show", "wards")
        requester.type("domains", "show", "nothing", fails=True)
        provider.type("publish", "stays.saibot", "union.saibot", "pairs.saibot", "--card", "card.toml")
        provider.type("key", "show")
        provider.type("key", "rotate")
        provider.type("publish", "stays.saibot", "--card", "card.toml")  # the old key agrees to the new one
        admin.type("providers", "verify", "the-provider", "--yes")
        requester.type("providers", "show", "the-provider")
        provider.type("publish", "--open", "beds.csv", "--source", "The hospital's web page", fails=True)
        beds = provider.json("publish", "--open", "beds.csv", "--source", "The hospital's web page", "--yes")
        admin.type("confirm", beds["datasets"][0]["id"])
        listed = requester.json("datasets", "--query", "nights")["datasets"]
        provider.type("describe", beds["datasets"][0]["id"], "--licence", "CC0", "--tag", "hospital")
        requester.type("datasets", listed[0]["id"], "--tag", "hospital")
        requester.type("datasets", "d0000000000000000", fails=True)
        requester.type("discover", listed[0]["id"])
        requester.type("ask-page", "--out", "ask.html")
        parts = requester.json("split", "costs.parquet")
        asked = (
            "--train",
            parts["train"],
            "--test",
            parts["test"],
            "--target",
            "cost",
            "--key",
            "ward",
            "--card",
            "card.toml",
        )
        requester.type("search", *asked, "--local", "--out", "local.json", "--slice", "wards")
        requester.type("key", "known")
        left = requester.json("search", *asked, "--epsilon", 2, "--no-wait")
        requester.type("searches", "result", left["id"], "--card", "card.toml", "--out", "private.json")
        requester.type("augment", "private.json", "mine.csv", "--out", "wider.parquet")
        requester.type("compare", "private.json", "local.json")
        requester.type("compare", "private.json", "local.json", "--out", "both.html")
        requester.type("searches", "list")
        requester.type(
            "searches", "cancel", requester.json("search", *asked, "--epsilon", 2, "--no-wait", "--steps", 1)["id"]
        )
        wish = ("enquiries", "ask", listed[0]["id"], "--why", "For another ward.", "--column", "age")
        requester.type(*wish, fails=True)  # not without a word
        asked_for = requester.json(*wish, "--yes")["id"]
        provider.type("enquiries", "list", "--received")
        provider.type("enquiries", "grant", asked_for, "--dataset", listed[0]["id"])
        provider.type("grants", "list", listed[0]["id"])
        requester.type("enquiries", "show", asked_for)
        admin.type("backup", "backup.tar", "--data", "data")
        admin.type("restore", "backup.tar", "--data", "copy")
        admin.type("aside", "--data", "copy")
        with httpx.Client(base_url=ready["address"], follow_redirects=True, timeout=60) as browser:
            whole = Path(ready["admin_token_file"]).read_text().strip()
            coarser = next(one["id"] for one in listed if one["key"] and "building" in one["key"]["levels"])
            by_page(browser, [whole, *tokens], left["id"], listed[0]["id"], coarser)
        provider.type("withdraw", listed[0]["id"], "--yes")
        requester.type("logout")
    finally:
        server.terminate()
        server.communicate(timeout=60)


# ------------------------------------------------------------------------------------------------ by page


def by_page(browser: httpx.Client, tokens: list[str], search: str, dataset: str, by_building: str) -> None:
    """An admin sees what is stored, a provider what was spent; a requester looks around, and at what was found."""

    def see(address: str) -> str:
        page = browser.get(address, headers={"accept": "text/html"})
        assert page.status_code == 200, f"{address}: {page.status_code}"
        return page.text

    def code(page: str) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
        assert found is not None
        return found[1]

    values = [f"/datasets/{dataset}/{part}" for part in ("rows", "charts", "values.csv", "values.arrow", "values.json")]
    values.append(f"/datasets/{by_building}/rows?level=building")
    places = {
        "admin": ["/admin"],
        "provider": ["/budget", f"/datasets/{dataset}/withdraw", f"/datasets/{dataset}/about", "/providers/the-provider"],
        "requester": ["/searches", "/domains", "/domains/wards", *values, "/enquiries", f"/datasets/{dataset}/enquire"],
    }
    for token, addresses in zip(tokens, places.values(), strict=True):
        browser.post("/sign-in", data={"csrf": code(see("/sign-in")), "token": token, "next": "/"}).raise_for_status()
        for address in ("/", "/?q=nights", f"/datasets/{dataset}", f"/datasets/{dataset}/sketch", *addresses):
            page = see(address)
            if address.endswith("/about"):
                browser.post(address, data={"csrf": code(page), "licence": "CC0", "more": "*Nights*"}).raise_for_status()
        if token != tokens[-1]:
            browser.post("/sign-out", data={"csrf": code(see("/account"))}).raise_for_status()
    see("/ask")
    files = ("result.json", "result.csv", "result.html", "residuals.csv", f"compare/{search}")
    for address in (f"/searches/{search}", *(f"/searches/{search}/{file}" for file in files)):
        see(address)
    terms = "rows=4000&keys=12&features=2&epsilon=1&delta=1e-6&neighbours=replace-one"
    see(f"/plan?{terms}")
    see(f"/plan/preview.json?{terms}")
    for asset in set(re.findall(r'"(/static/[^"]+)"', see(f"/searches/{search}"))):
        browser.get(asset).raise_for_status()
    assert browser.get("/nowhere", headers={"accept": "text/html"}).status_code == 404
    assert "guide" in browser.get("/help").text  # it is there, or its page says how to get it
    for address in ("/healthz", "/metrics", "/docs", "/openapi.json", "/v1/datasets", "/v1/corpus"):
        see(address)


# ------------------------------------------------------------------------------------------------ by Python


def by_python(root: Path) -> None:
    """The same in a notebook, on a platform inside this process."""
    _, provider, requester = people(root)
    with embedded(root / "embedded") as platform:
        giver = Provider(platform.as_account("clinic", ["provider"]), root / "ledger of the clinic")
        card = provider.folder / "card.toml"
        giver.publish(giver.privatize(provider.folder / "stays.csv", card, epsilon="2", key="ward"), card=card)
        asking = Requester(platform.as_account("analyst", ["requester"]), root / "ledger", cache=root / "cache")
        frame = pd.read_csv(requester.folder / "mine.csv")
        parts = asking.split(frame)
        terms = {"target": "cost", "key": "ward", "features": ["age"], "options": SearchOptions(steps=2)}
        found = asking.search(parts.train, parts.test, local=True, **terms)
        found.to_frame()
        found.path()
        found.augment(parts.test)
        found.model().score(parts.test)
        found.save(root / "found.json")
        found.plot(root / "found.png")
        found._repr_html_()
        found.explore()._repr_html_()
        found.compare(found)._repr_html_()
        augmenter = saibot.PrivateAugmenter(asking, key="ward", features=["age"])
        saibot.PrivateRegressor(augmenter).fit(frame[["ward", "age"]], frame.cost).predict(frame[["ward", "age"]])


# ------------------------------------------------------------------------------------------------ what takes longer


def demo(root: Path) -> None:
    """The stories on real households, and on flights with two airlines in the place of fourteen."""
    root.mkdir()
    story.airlines = lambda: [story.REQUESTER, "oo", "ha"]
    Person(root).type("demo", "--folder", "households")
    Person(root).type("demo", "--story", "flights", "--folder", "demo")


def audit(root: Path) -> None:
    """A few pairs, a few draws."""
    root.mkdir()
    few = ("--pairs", 1, "--minutes", 0.01, "--releases", 100, "--file-releases", 4, "--source", "csv")
    Person(root).type("audit", *few, "--out", "audit")


PARTS = {part.__name__: part for part in (at_home, on_a_platform, by_python, demo, audit)}

if __name__ == "__main__":
    PARTS[sys.argv[1]](Path(sys.argv[2]).resolve())
    sys.argv = ["saibot", "plan", "--features", "1"]
    main()
