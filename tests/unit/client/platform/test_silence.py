"""What a search at home tells a platform: the same whatever the rows are, and nothing once a row was read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Augmented, Kept, PlatformUnreachable, Published, Requester, SketchCache, tables
from saibot.client.platform import Platform
from saibot.domains.csv_text import domain_to_csv
from saibot.errors import InvalidInput
from saibot.privacy import Budget
from saibot.search import SearchOptions
from saibot.sketch import KeyDomain, Sketch
from tests.support.fabricating import drawn_anew
from tests.unit.client.conftest import LAVISH, SHOPS, card, make_sketch, provider_rows

from .conftest import FakePlatform, claimed

ROWS = ("rows",)  # stands in a journal where rows are read
SINGLE = SearchOptions(steps=1, always_first=True)
EAST = [shop for shop in SHOPS if shop <= "06"]


def domain_of(id: str) -> KeyDomain:
    """The shops under a name and in an order of their own."""
    keys = list(SHOPS) if id == "shops" else list(reversed(SHOPS))
    return KeyDomain.of(id, keys, parents={"side": ["east" if key in EAST else "west" for key in keys]})


def by_shop(name: str, id: str, rows: pd.DataFrame, home: Path, *, levels: list[str], budget: Budget = LAVISH) -> Sketch:
    home.mkdir(parents=True, exist_ok=True)
    (home / f"{id}.csv").write_bytes(domain_to_csv(domain_of(id)))
    domain = {"file": str(home / f"{id}.csv"), "id": id}
    facts = card(name, keys={"shop": {"column": "shop", "domain": domain, "levels": levels}})
    return drawn_anew(claimed(make_sketch(rows, facts, "shop", home, budget=budget)), name)  # seeded noise: no copies


def peak_at(shop: str) -> pd.DataFrame:
    """A provider's table that is high in one shop: it explains a table in which that shop stands out.

    Each has a number of rows of its own: with next to no noise, equal counts would make one a copy of the other.
    """
    return provider_rows({one: 90.0 if one == shop else 10.0 for one in SHOPS}, "shop", each=40 + int(shop))


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sketch]:
    home = tmp_path_factory.mktemp("providers")
    return {
        "first-high": by_shop("first-high", "shops", peak_at("01"), home, levels=["side"]),
        "last-high": by_shop("last-high", "places", peak_at("12"), home, levels=[]),
    }


def table_with_peak_at(shop: str) -> pd.DataFrame:
    """Tables of two shops differ in their first row, and in nothing else."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"shop": rng.choice(SHOPS, 400), "sales": rng.normal(0, 1, 400)})
    frame.loc[0] = [shop, 1e5]
    return frame


class Watched(FakePlatform):
    """Writes down every request in full, in one journal with the reading of rows; and can be told to misbehave."""

    def __init__(self, journal: list[tuple[Any, ...]], hostile: str = "") -> None:
        super().__init__()
        self.journal, self.hostile = journal, hostile

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        headers = tuple(sorted((name, text) for name, text in request.headers.items()))
        self.journal.append((request.method, str(request.url), headers, request.content))
        path = request.url.path
        domain, sketch = path.startswith("/v1/domains/"), path.startswith("/v1/sketches/")
        match self.hostile:
            case "knows no domain" if domain:
                return httpx.Response(404, json={"error": {"code": "not-found", "message": "none.", "hint": None}})
            case "sends other keys" if path.endswith("/file"):
                return httpx.Response(200, content=b"key\nA\nB\n")
            case "describes other keys" if domain and not path.endswith("/file"):
                facts = super().__call__(request).json()
                return httpx.Response(200, json=facts | {"digest": "0" * 64})
            case "sends garbage for a domain" if domain:
                return httpx.Response(200, content=b"\x00garbage", headers={"content-encoding": "gzip"})
            case "hangs up when asked for a domain" if domain:
                raise httpx.ReadError("hung up")
            case "fails when asked for a domain" if domain:
                return httpx.Response(500, content=b"no")
            case "sends the first sketch for every other" if sketch:
                first = next(iter(self.sketches))
                return super().__call__(httpx.Request("GET", f"http://platform.test/v1/sketches/{first}"))
            case "sends too much" if sketch and not path.endswith(next(iter(self.sketches))):
                return httpx.Response(200, content=b"x" * (1 << 20))
            case "withdraws what it lists" if sketch and not path.endswith(next(iter(self.sketches))):
                return httpx.Response(404, json={"error": {"code": "not-found", "message": "none.", "hint": None}})
        return super().__call__(request)


HOSTILE = [
    "",
    "knows no domain",
    "sends other keys",
    "describes other keys",
    "sends garbage for a domain",
    "hangs up when asked for a domain",
    "fails when asked for a domain",
    "sends the first sketch for every other",
    "sends too much",
    "withdraws what it lists",
]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Requests and readings of rows in the order in which they happen; downloads one after the other."""
    written: list[tuple[Any, ...]] = []
    monkeypatch.setattr("saibot.client.remote_corpus.AT_ONCE", 1)
    for gate in ("open_table", "_column", "_text_of"):  # every cell that the client reads comes through one of these
        monkeypatch.setattr(tables, gate, _noted(getattr(tables, gate), written))
    return written


def _noted(read: Callable[..., Any], written: list[tuple[Any, ...]]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        written.append(ROWS)
        return read(*arguments, **options)

    return noted


def platform_with(sketches: dict[str, Sketch], journal: list[tuple[Any, ...]], hostile: str = "") -> Watched:
    platform = Watched(journal, hostile)
    for sketch in sketches.values():
        platform.add(sketch)
    for id in ("shops", "places"):
        platform.domains[id, 1] = domain_of(id)
    return platform


def sent_before_rows(journal: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The requests, of which none came after rows were read."""
    first = journal.index(ROWS)
    assert all(entry == ROWS for entry in journal[first:]), "a request came after rows were read"
    return journal[:first]


# ------------------------------------------------------------------------------------------------ in Python


@pytest.mark.parametrize("as_file", [False, True], ids=["a frame", "a file"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_neighbours_ask_the_same_and_nothing_after_their_rows_are_read(peaks, journal, tmp_path, hostile, as_file):
    sent, chosen = [], []
    for shop in ("01", "12"):
        journal.clear()
        table: Any = table_with_peak_at(shop)
        if as_file:
            table.to_csv(tmp_path / f"{shop}.csv", index=False)
            table = tmp_path / f"{shop}.csv"
        client = platform_with(peaks, journal, hostile).client()
        requester = Requester(client, cache=tmp_path / f"cache-{shop}")
        found = requester.search(table, target="sales", key="shop", features=[], local=True, options=SINGLE)
        assert found.at_home and found.columns
        assert len(found.augment(table)) == 400
        assert len(found.model().predict(table)) == 400
        found.save(tmp_path / "result.json")
        Augmented.load(tmp_path / "result.json", Kept(requester.published.cache)).values(table)
        first = sent_before_rows(journal)
        journal.clear()  # what the next search asks must not tell, either, what this one chose
        requester.search(table, target="sales", key="shop", features=[], local=True, options=SINGLE)
        sent.append((first, sent_before_rows(journal)))
        chosen.append(found.columns)
    assert sent[0] == sent[1] and sent[0][0] and sent[0][1]
    alone = ("sends the first sketch for every other", "sends too much", "withdraws what it lists")
    assert (chosen[0] == chosen[1]) == (hostile in alone)


def test_the_domains_of_all_sketches_come_with_them_whether_they_have_levels_or_not(peaks, journal, tmp_path):
    client = platform_with(peaks, journal).client()
    published = Published(client, SketchCache(tmp_path))
    _, notes = published.corpus()
    assert notes == () and {entry[1] for entry in journal} >= {
        f"http://platform.test/v1/domains/{id}/1{end}" for id in ("shops", "places") for end in ("", "/file")
    }
    for sketch in peaks.values():
        part = sketch.header.key.parts[0]
        assert published.kept.domain(part) == domain_of(part.domain)
    journal.clear()
    published.corpus()
    asked = [f"http://platform.test/v1/{place}" for place in ("corpus", "providers", "factors")]
    assert [entry[1] for entry in journal] == asked


def test_a_platform_that_is_gone_ends_the_search_before_a_row_is_read(peaks, journal, tmp_path):
    platform = platform_with(peaks, journal)
    listed = platform(httpx.Request("GET", "http://platform.test/v1/corpus")).json()

    def gone(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/corpus":
            return httpx.Response(200, json=listed)
        raise httpx.ConnectError("gone")

    client = Platform("http://platform.test", None, httpx.MockTransport(gone))
    client.wire._sleep = lambda seconds: None
    with pytest.raises(PlatformUnreachable):
        Requester(client, cache=tmp_path).search(table_with_peak_at("01"), target="sales", key="shop", local=True)
    assert ROWS not in journal


def test_what_was_not_sent_is_said_and_left_out(peaks, journal, tmp_path):
    client = platform_with(peaks, journal, "sends too much").client()
    corpus, notes = Published(client, SketchCache(tmp_path)).corpus()
    assert corpus.digests == (peaks["first-high"].digest,)
    assert len(notes) == 1 and peaks["last-high"].digest[:12] in notes[0]


def test_a_deleted_cache_is_an_error_and_no_request(peaks, journal, tmp_path):
    client = platform_with(peaks, journal).client()
    table = table_with_peak_at("01")
    found = Requester(client, cache=tmp_path).search(table, target="sales", key="shop", local=True, options=SINGLE)
    shutil.rmtree(tmp_path / "sketches")
    journal.clear()
    for use in (found.augment, found.values, found.model().predict):
        with pytest.raises(InvalidInput, match="not on this machine") as missing:
            use(table)
        assert "--fetch" in missing.value.hint and "tells the platform what was chosen" in missing.value.hint
    assert set(journal) == {ROWS}


def test_a_deleted_domain_is_an_error_where_the_values_were_of_it(tmp_path, journal):
    """Without its levels the values would be others than those that the model was fitted on."""
    fine = KeyDomain.of("desks", [f"{shop}-{i}" for shop in SHOPS for i in (1, 2)], parents={"shop": sorted(SHOPS * 2)})
    rows = provider_rows({shop: 30.0 + 5 * i for i, shop in enumerate(SHOPS)}, "shop", each=3)
    sketch = by_shop("few-rows", "shops", rows, tmp_path / "home", levels=["side"], budget=Budget("20", "1e-6"))
    client = platform_with({"few-rows": sketch}, journal).client()
    rng = np.random.default_rng(1)
    desks = rng.choice(fine.values, 400)
    table = pd.DataFrame({"desk": desks, "sales": [5.0 * int(desk[:2]) for desk in desks] + rng.normal(0, 1, 400)})
    requester = Requester(client, cache=tmp_path / "cache")
    found = requester.search(table, target="sales", key={"desk": fine}, features=[], local=True, options=SINGLE)
    found.augment(table)
    shutil.rmtree(tmp_path / "cache" / "domains")
    journal.clear()
    with pytest.raises(InvalidInput, match="searched with coarser keys") as missing:
        found.augment(table)
    assert "--fetch" in missing.value.hint and set(journal) == {ROWS}


def test_a_damaged_or_changed_domain_in_the_cache_is_not_believed(peaks, tmp_path):
    kept, part = Kept(SketchCache(tmp_path)), peaks["first-high"].header.key.parts[0]
    assert kept.domain(part) is None
    kept.keep_domain(domain_of("shops"))
    assert kept.domain(part) == domain_of("shops")
    (path,) = (tmp_path / "domains").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-50])
    assert kept.domain(part) is None
    kept.keep_domain(domain_of("places"))
    (other,) = (one for one in (tmp_path / "domains").iterdir() if one != path)
    path.write_bytes(other.read_bytes())
    assert kept.domain(part) is None
    kept.keep_domain(domain_of("shops"))
    assert path.read_bytes() == content


def with_domain(domain: KeyDomain, home: Path) -> Sketch:
    """A sketch by the keys of `shops`, which in this domain have other parents."""
    sketch = by_shop("plain", "shops", peak_at("03"), home, levels=[])
    part = sketch.header.key.parts[0]
    assert part.keys_digest == domain.keys_digest
    other = part.model_copy(update={"domain": domain.id, "version": domain.version, "digest": domain.digest})
    key = sketch.header.key.model_copy(update={"parts": (other,)})
    return replace(sketch, header=sketch.header.model_copy(update={"key": key})).sealed()


def test_domains_with_the_same_keys_do_not_stand_in_for_each_other(peaks, journal, tmp_path):
    bare = KeyDomain.of("bare", SHOPS)
    platform = Watched(journal)
    for sketch in (with_domain(bare, tmp_path / "home"), peaks["first-high"]):
        platform.add(sketch)
    platform.domains = {("bare", 1): bare, ("shops", 1): domain_of("shops")}
    corpus, notes = Published(platform.client(), SketchCache(tmp_path)).corpus()
    assert notes == () and len(corpus) == 2


def test_a_name_that_stands_for_other_keys_than_before_does_not_end_local_searches(peaks, journal, tmp_path):
    platform = platform_with(peaks, journal)
    published = Published(platform.client(), SketchCache(tmp_path))
    published.corpus()
    other = KeyDomain.of("places", SHOPS, parents={"side": ["middle"] * len(SHOPS)})
    platform.sketches.pop(peaks["last-high"].digest)
    again = with_domain(other, tmp_path / "home")
    platform.add(again)
    platform.domains["places", 1] = other
    corpus, notes = published.corpus()
    assert notes == () and set(corpus.digests) == {peaks["first-high"].digest, again.digest}
    assert published.kept.domain(again.header.key.parts[0]) == other
    assert published.kept.domain(peaks["last-high"].header.key.parts[0]) == domain_of("places")  # for older results


# ------------------------------------------------------------------------------------------------ in the shell


@pytest.fixture
def shell(peaks, journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    platform = platform_with(peaks, journal)
    monkeypatch.setattr("saibot.client.config.Platform", lambda url, token: platform.client(token))
    monkeypatch.setenv("SAIBOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    table_with_peak_at("01").to_csv("mine.csv", index=False)

    def typed(*arguments: str) -> Any:
        done = CliRunner().invoke(app, arguments)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done

    return typed


SEARCH = ("search", "--platform", "http://platform.test", "--local", "--single", "--train", "mine.csv", "--target", "sales")
AUGMENT = ("augment", "result.json", "mine.csv", "--out", "wider.csv")


@pytest.fixture
def searched(shell, journal) -> list[tuple[Any, ...]]:
    """The journal of a search at home whose result lies in result.json."""
    shell(*SEARCH, "--key", "shop", "--out", "result.json")
    return journal


def test_commands_ask_before_they_read_and_augment_asks_nobody(shell, searched):
    shell(*AUGMENT)
    assert sent_before_rows(searched)
    assert json.loads(Path("result.json").read_text())["at_home"] is True
    assert any(column.endswith("-high.level") for column in pd.read_csv("wider.csv").columns)


def test_on_another_machine_augment_refuses_until_it_is_told_to_fetch(shell, searched):
    shutil.rmtree("cache")
    searched.clear()
    with pytest.raises(InvalidInput, match="not on this machine") as missing:
        shell(*AUGMENT)
    assert "--fetch" in missing.value.hint
    with pytest.raises(InvalidInput, match="not on this machine"):
        shell(*AUGMENT, "--platform", "http://platform.test")  # where, but not that
    assert not [entry for entry in searched if entry != ROWS] and not Path("wider.csv").exists()
    searched.clear()
    done = shell(*AUGMENT, "--fetch")
    assert "learns what was chosen" in done.stderr and Path("wider.csv").exists()
    sent_before_rows(searched)
    searched.clear()
    shell(*AUGMENT, "--fetch")  # what is here is not asked for again
    assert set(searched) == {ROWS}


def test_a_result_that_does_not_say_where_it_was_searched_is_taken_for_ones_own(shell, searched):
    document = json.loads(Path("result.json").read_text())
    shutil.rmtree("cache")
    for unclear in ({}, {"at_home": None}, {"at_home": "no"}, {"at_home": 0}):
        rest = {name: value for name, value in document.items() if name != "at_home"}
        Path("result.json").write_text(json.dumps(rest | unclear))
        searched.clear()
        with pytest.raises(InvalidInput, match="not on this machine"):
            shell(*AUGMENT)
        assert not [entry for entry in searched if entry != ROWS]


def test_what_the_platform_chose_itself_is_fetched_without_being_told_to(shell, searched):
    document = json.loads(Path("result.json").read_text()) | {"at_home": False}
    Path("result.json").write_text(json.dumps(document))
    shutil.rmtree("cache")
    searched.clear()
    done = shell(*AUGMENT)
    assert sent_before_rows(searched) and "learns" not in done.stderr


def test_a_folder_has_nothing_to_fetch(shell, searched):
    with pytest.raises(InvalidInput, match="nothing to fetch"):
        shell(*AUGMENT, "--corpus", "corpus", "--fetch")
