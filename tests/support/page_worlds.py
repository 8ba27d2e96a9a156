"""What pages take for granted: tables, sketches and a platform that are there before a page's first block is run.

A page's own blocks make everything else. Tables are small and made up; tutorials and notebooks have real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from saibot.embedded import admin_token, embedded_settings, make_app
from tests.support.page_blocks import ROOT, PageStory
from tests.support.serving import listening

World = Callable[[PageStory], AbstractContextManager[None]]
HOODS = range(1, 41)


@contextmanager
def platform(story: PageStory) -> Iterator[None]:
    """A platform where the reader has one token for everything, and is logged in."""
    from saibot.client import Platform

    data = story.folder / ".platform"
    with listening(make_app(embedded_settings(data))) as address:
        admin = Platform(address, token=admin_token(data))
        story.address, story.token = address, admin.create_token("reader", ["provider", "requester", "admin"]).token
        (story.folder / "admin-token").write_text(story.token)
        story.type(f"saibot login {address} --token-file admin-token")
        yield


# ------------------------------------------------------------------------------------------------ tables


def level(name: str) -> pd.Series:
    """What makes neighbourhoods differ in one thing; the same in every table of a page."""
    rng = np.random.default_rng(sum(name.encode()))
    return pd.Series(rng.uniform(1, 9, len(HOODS)), list(HOODS))


def admissions(rows: int = 12_000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hood = rng.choice(list(HOODS), rows)
    nights = np.clip(level("sick")[hood].to_numpy() + rng.gamma(2, 1, rows), 0, 30).round()
    asthma = np.where(rng.random(rows) < level("sick")[hood].to_numpy() / 12, "yes", "no")
    patients = [f"P{number:05d}" for number in range(rows)]
    return pd.DataFrame({"patient": patients, "neighbourhood": hood, "nights": nights, "asthma": asthma})


def pupils(rows: int = 6_000) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    hood, grade = rng.choice(list(HOODS), rows), rng.integers(1, 13, rows)
    absent = np.clip(2 * level("sick")[hood].to_numpy() + 0.3 * grade + rng.normal(0, 4, rows), 0, 40).round()
    return pd.DataFrame({"pupil": np.arange(rows), "neighbourhood": hood, "grade": grade, "days_absent": absent})


def write_tables(folder: Path) -> None:
    admissions().to_csv(folder / "admissions.csv", index=False)
    pupils().to_csv(folder / "pupils.csv", index=False)
    pd.DataFrame({"neighbourhood": HOODS}).to_csv(folder / "neighbourhoods.csv", index=False)


# ------------------------------------------------------------------------------------------------ pages


@contextmanager
def hospital(story: PageStory) -> Iterator[None]:
    """Guides for providers: tables of a hospital, and a platform to publish on."""
    write_tables(story.folder)
    rng = np.random.default_rng(3)
    stays = admissions(8_000, seed=7).assign(
        cost=lambda table: (table.nights * 900 * rng.lognormal(0, 0.5, len(table))).round()
    )
    stays.drop(columns="asthma").to_csv(story.folder / "stays.csv", index=False)
    admissions(4_000, seed=8).assign(ward=lambda table: table.neighbourhood % 12 + 1).to_csv(
        story.folder / "visits.csv", index=False
    )
    pd.DataFrame({"neighbourhood": HOODS, "beds": 10 * level("beds")}).to_csv(story.folder / "beds.csv", index=False)
    with platform(story):
        yield


@contextmanager
def requester(story: PageStory) -> Iterator[None]:
    """The guide to searching: flights and two airports' sketches by day, pupils, and a platform that has a dataset."""
    write_tables(story.folder)
    rng = np.random.default_rng(4)
    days = pd.date_range("2013-01-01", "2013-02-28").strftime("%Y-%m-%d")
    storm = pd.Series(rng.gamma(2, 6, len(days)), days)
    for name, rows in (("flights", 6_000), ("lga", 9_000), ("mine", 5_000)):
        day = rng.choice(days, rows)
        delay = np.clip(storm[day].to_numpy() + rng.normal(0, 12, rows), -30, 120)
        table = pd.DataFrame({"day": day, "arr_delay": delay, "distance": rng.uniform(100, 2500, rows)})
        table.to_csv(story.folder / f"{name}.csv", index=False)
        if name == "lga":
            _publish(story, name, "day", "dates:2013-01-01:2013-02-28", "arr_delay=-30:120")
    (story.folder / "pupils.toml").write_text(PUPILS)
    with platform(story):
        _publish(story, "admissions", "neighbourhood", "range:neighbourhood:1:40", "nights", out=False)
        _publish(story, "mine", "day", "dates:2013-01-01:2013-02-28", "arr_delay=-30:120")
        story.replace["d0123456789abcdef"] = lambda: _datasets(story)[0]
        yield


@contextmanager
def offices_and_ministry(story: PageStory) -> Iterator[None]:
    """The requester's tutorial: a platform for its last section, and a token for each side."""
    from saibot.client import Platform

    with platform(story):
        admin = Platform(story.address, token=story.token)
        (story.folder / "offices-token").write_text(admin.create_token("offices", ["provider"]).token)
        (story.folder / "my-token").write_text(admin.create_token("ministry", ["requester"]).token)
        yield


@contextmanager
def two_people(story: PageStory) -> Iterator[None]:
    """Asking for more: a dataset of the provider's, and two enquiries of the requester's about it."""
    from saibot.client import Enquiries, Platform

    write_tables(story.folder)
    admissions(6_000, seed=9).to_csv(story.folder / "fuller.csv", index=False)
    with platform(story):
        admin = Platform(story.address, token=story.token)
        for who, account in (("provider", "city-hospital"), ("requester", "school-district")):
            (story.folder / "token").write_text(admin.create_token(account, [who]).token)
            story.type(f"saibot login {story.address} --token-file token", who=who)
        _publish(story, "admissions", "neighbourhood", "range:neighbourhood:1:40", "nights", out=False, who="provider")
        _publish(story, "fuller", "neighbourhood", "range:neighbourhood:1:40", "nights", who="provider")
        (story.folder / "fuller.toml").rename(story.folder / "card.toml")
        ids = _datasets(story)
        asking = Enquiries(admin.as_account("school-district", ["requester"]))
        other = asking.ask(ids[0], why="To plan schools in districts.", columns=["income"], yes=True).id
        granted = admin.as_account("city-hospital", ["provider"])
        story.replace = {
            "d1f0c2a4b6e8": lambda: ids[0],
            "d9e8f7a6b5c4": lambda: next(one.id for one in granted.datasets() if one.name == "fuller"),
            "e6b2d1c3a4f5": lambda: other,
            "e5a1c0d2f3b4": lambda: next(one.id for one in asking.list("asked") if one.id != other),
        }
        yield


@contextmanager
def whom_to_believe(story: PageStory) -> Iterator[None]:
    """Signed sketches: a provider with one to publish, a requester with a table, and an admin."""
    from saibot.client import Platform

    write_tables(story.folder)
    _publish(story, "admissions", "neighbourhood", "range:neighbourhood:1:40", "nights")
    with platform(story):
        admin = Platform(story.address, token=story.token)
        (story.folder / "token").write_text(story.token)
        story.type(f"saibot login {story.address} --token-file token", who="admin")
        for who, account in (("provider", "city-hospital"), ("requester", "school-district")):
            (story.folder / "token").write_text(admin.create_token(account, [who]).token)
            story.type(f"saibot login {story.address} --token-file token", who=who)
        yield


@contextmanager
def trainers(story: PageStory) -> Iterator[None]:
    """Training together: a corpus of a clinic's sketch, and two tables with the same columns."""
    rng = np.random.default_rng(5)
    wards = np.arange(1, 21)
    severity = pd.Series(rng.uniform(2, 18, len(wards)), wards)
    for name, rows in (("clinic", 6_000), ("mine", 3_000), ("theirs", 3_000)):
        ward, age = rng.choice(wards, rows), rng.integers(20, 90, rows)
        sick = severity[ward].to_numpy() + rng.normal(0, 2, rows)
        column = {"nights": np.clip(sick, 0, 20)} if name == "clinic" else {"cost": np.clip(sick + age / 30, 0, 25)}
        pd.DataFrame({"ward": ward, "age": age, **column}).to_csv(story.folder / f"{name}.csv", index=False)
        (story.folder / f"{name}.toml").write_text(TRAINER.format(name=name))
    _publish(story, "clinic", "ward", "range:ward:1:20", "nights=0:20", card="published.toml")
    story.type("saibot pack corpus clinic.saibot")
    yield


@contextmanager
def operator(story: PageStory) -> Iterator[None]:
    """The guide to running a platform: one that runs, with its settings in the shell and room for a backup."""
    with platform(story):
        data = story.folder / ".platform"
        (story.folder / "backups").mkdir()
        story.type(f"export SAIBOT_DATA={data}; saibot token create other --role requester > other-token")
        story.replace = {
            "/backups/saibot-2026-11-16.tar": lambda: str(next((story.folder / "backups").glob("*.tar"))),
            "/backups/saibot-$(date": lambda: f"{story.folder}/backups/saibot-$(date",
            "/var/lib/saibot-new": lambda: str(story.folder / "restored"),
            "t67e1f614dff6b9cc": lambda: _token_of(story, "other"),
        }
        yield


@contextmanager
def over_http(story: PageStory) -> Iterator[None]:
    """The guide to plain HTTP: a sketch to publish, and the two sketches of a question."""
    write_tables(story.folder)
    (story.folder / "pupils.toml").write_text(PUPILS)
    (story.folder / "admissions.toml").write_text(ADMISSIONS)
    story.type("saibot privatize admissions.csv --key neighbourhood --epsilon 1 --out admissions.saibot")
    _private_request(story, "pupils.{part}.saibot")
    with platform(story):
        yield


@contextmanager
def asked_by_page(story: PageStory) -> Iterator[None]:
    """Asking without installing: the sketches that the page saves, here the command's, and a dataset to find."""
    write_tables(story.folder)
    (story.folder / "pupils.toml").write_text(PUPILS)
    with platform(story):
        _publish(story, "admissions", "neighbourhood", "range:neighbourhood:1:40", "nights", out=False)
        _private_request(story, "pupils-{part}.saibot")
        yield


@contextmanager
def three_strangers(story: PageStory) -> Iterator[None]:
    """The README: a hospital's stays and a school's costs, by ward."""
    rng = np.random.default_rng(6)
    for name, column, rows in (("stays", "nights", 8_000), ("mine", "cost", 4_000)):
        ward = rng.choice(list(HOODS), rows)
        values = level("ward")[ward].to_numpy() + rng.gamma(2, 1, rows)
        pd.DataFrame({"ward": ward, column: values.round(1)}).to_csv(story.folder / f"{name}.csv", index=False)
    yield


@contextmanager
def checkout(story: PageStory) -> Iterator[None]:
    """The list of examples: their scripts, run from the folder of the repository."""
    story.replace = {".venv/bin/python": lambda: sys.executable, "examples/": lambda: f"{ROOT}/examples/"}
    yield


@contextmanager
def frame(story: PageStory) -> Iterator[None]:
    """The page of the card: a frame whose columns its last example describes."""
    story.names["frame"] = pd.DataFrame({"ward": [1], "age": [2], "size": [3], "farm": ["yes"]})
    yield


PUPILS = """\
[dataset]
name = "pupils"
individual = "one pupil"
id = "pupil"
rows_per_individual = 1
max_rows = 10_000
neighbours = "replace-one"
[budget]
cap = { epsilon = "1", delta = "1e-6" }
[features]
days_absent = { bounds = [0, 40] }
grade = { bounds = [1, 12] }
[keys.neighbourhood]
domain = { range = [1, 40], of = "neighbourhood" }
"""
ADMISSIONS = """\
[dataset]
name = "admissions"
individual = "one patient"
rows_per_individual = 1
neighbours = "replace-one"
[features]
nights = { bounds = [0, 30] }
[keys.neighbourhood]
domain = { range = [1, 40], of = "neighbourhood" }
"""
TRAINER = """\
[dataset]
name = "{name}"
individual = "one patient"
rows_per_individual = 1
neighbours = "replace-one"
[budget]
cap = {{ epsilon = "4", delta = "1e-6" }}
[features]
cost = {{ bounds = [0, 25] }}
age = {{ bounds = [0, 100] }}
[keys.ward]
domain = {{ range = [1, 20], of = "ward" }}
"""


def _publish(
    story: PageStory, name: str, key: str, domain: str, feature: str, *, out: bool = True, who: str = "", card: str = ""
) -> None:
    """A table's sketch, in a file or on the platform, by the command that providers type; one ledger for each table."""
    home = story.folder / "home" / who if who or not out else story.folder / ".ledgers" / name
    story.type(
        f"SAIBOT_HOME={home} saibot publish {name}.csv --name {name} --individual 'one row' --rows-per-individual 1 "
        f"--key {key} --domain {domain} --feature {feature} --epsilon 1 --no-look --yes "
        + (f"--out {name}.saibot " if out else "")
        + (f"--card {card}" if card else ""),
        who=who,
    )


def _private_request(story: PageStory, name: str) -> None:
    """Both sketches of a question about pupils."""
    story.type("saibot split pupils.csv --id pupil")
    for part in ("train", "test"):
        words = f"saibot privatize pupils.{part}.csv --card pupils.toml --part {part} --key neighbourhood --epsilon 1"
        story.type(f"{words} --out {name.format(part=part)}")


def _datasets(story: PageStory) -> list[str]:
    from saibot.client import Platform

    return [one.id for one in Platform(story.address, token=story.token).datasets()]


def _token_of(story: PageStory, name: str) -> str:
    from saibot.client import Platform

    return next(one.id for one in Platform(story.address, token=story.token).tokens() if one.name == name)


WORLDS: dict[str, World] = {
    "README.md": three_strangers,
    "examples/README.md": checkout,
    "docs/guides/ask-for-more.md": two_people,
    "docs/guides/ask-without-installing.md": asked_by_page,
    "docs/guides/know-whom-to-believe.md": whom_to_believe,
    "docs/guides/publish-a-table.md": hospital,
    "docs/guides/run-a-platform.md": operator,
    "docs/guides/search-for-tables.md": requester,
    "docs/guides/train-together.md": trainers,
    "docs/guides/work-in-python.md": hospital,
    "docs/guides/work-over-http.md": over_http,
    "docs/reference/card.md": frame,
    "docs/tutorials/requester.md": offices_and_ministry,
}
