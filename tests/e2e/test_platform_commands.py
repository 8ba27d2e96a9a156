"""Three strangers, one platform: a server in a process of its own, and what each of them types."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client.errors import PlatformUnreachable
from saibot.client.transport import Wire
from saibot.errors import SaibotError
from tests.support.shell import SAIBOT

WARDS = [f"W{i:02d}" for i in range(1, 31)]
CARD = """
[dataset]
name = "stays"
title = "Nights in hospital"
individual = "one patient"
neighbours = "replace-one"
[budget]
cap = {{ epsilon = "{cap}", delta = "1e-6" }}
[features.{feature}]
bounds = [0, 20]
unit = "night"
[keys.ward]
column = "{column}"
domain = {{ file = "wards.csv", id = "wards" }}
levels = ["building"]
"""


@dataclass
class Stranger:
    """Somebody with a machine, that is, a folder and a configuration of their own."""

    folder: Path
    address: str = ""

    def type(self, *arguments: object, reads: str | None = None) -> str:
        """Run a command and give back its standard output."""
        before = Path.cwd()
        environment = {"SAIBOT_HOME": str(self.folder / "home"), "COLUMNS": "160", "SAIBOT_PLATFORM": "", "SAIBOT_TOKEN": ""}
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=reads, env=environment)
        finally:
            os.chdir(before)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *arguments: object, **more: str) -> dict:
        return json.loads(self.type(*arguments, "--json", **more))

    def login(self, token: str) -> dict:
        return self.json("login", self.address, reads=token + "\n")


@dataclass
class Story:
    server: subprocess.Popen[str]
    admin: Stranger
    provider: Stranger
    requester: Stranger


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    root = tmp_path_factory.mktemp("strangers")
    people = [Stranger(root / name) for name in ("admin", "provider", "requester")]
    for person in people:
        person.folder.mkdir()
    environment = os.environ | {"SAIBOT_LOG_LEVEL": "error", "SAIBOT_WORKERS": "1"}
    before = os.umask(0o022)
    server = subprocess.Popen(
        [*SAIBOT, "serve", "--port", "0", "--data", "data", "--json"],
        cwd=people[0].folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.umask(before)
    try:
        ready = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        for person in people:
            person.address = ready["address"]
        _tables(people[1].folder, people[2].folder)
        told = Story(server, *people)
        told.admin.json("login", ready["address"], "--token-file", ready["admin_token_file"])
        for person, role in ((told.provider, "provider"), (told.requester, "requester")):
            made = told.admin.json("token", "create", f"the-{role}", "--role", role)
            assert person.login(made["token"])["roles"] == [role]
        yield told
    finally:
        server.kill()
        server.communicate()


def _tables(provider: Path, requester: Path) -> None:
    rng = np.random.default_rng(3)
    level = dict(zip(WARDS, rng.uniform(2, 18, len(WARDS)), strict=True))
    lines = ["ward,building"] + [f"{ward},{'north' if i < 15 else 'south'}" for i, ward in enumerate(WARDS)]
    for folder, feature, column, cap in ((provider, "nights", "ward", "2"), (requester, "cost", "station", "1")):
        (folder / "wards.csv").write_text("\n".join(lines) + "\n")
        (folder / "card.toml").write_text(CARD.format(cap=cap, feature=feature, column=column))
    own = rng.choice(WARDS, 20_000)
    nights = np.clip([level[ward] for ward in own] + rng.normal(0, 1, len(own)), 0, 20)
    pd.DataFrame({"ward": own, "nights": nights}).to_csv(provider / "stays.csv", index=False)
    theirs = rng.choice(WARDS, 8_000)
    cost = np.clip(0.8 * np.array([level[ward] for ward in theirs]) + rng.normal(0, 3, len(theirs)), 0, 20)
    frame = pd.DataFrame({"station": theirs, "cost": cost, "age": rng.integers(20, 90, len(theirs))})
    frame[:6000].to_csv(requester / "train.csv", index=False)
    frame[6000:].to_csv(requester / "test.csv", index=False)
    card = (requester / "card.toml").read_text().replace("[keys", "[features.age]\nbounds = [0, 100]\n[keys")
    (requester / "card.toml").write_text(card.replace('name = "stays"', 'name = "costs"'))


@pytest.fixture(scope="module")
def published(story: Story) -> dict:
    story.provider.json("privatize", "stays.csv", "--card", "card.toml", "--key", "ward", "--out", "stays.saibot")
    answer = story.provider.json("publish", "stays.saibot", "--card", "card.toml")
    return answer["datasets"][0]


def test_a_stored_token_is_readable_by_its_owner_only(story):
    for path in (story.provider.folder / "home" / "config.toml", story.admin.folder / "data" / "admin-token"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_other_user_of_the_machine_reads_what_a_platform_keeps(story, published):
    data = story.admin.folder / "data"
    until, kept = time.monotonic() + 60, dict[Path, int]()
    while not kept and time.monotonic() < until:
        with contextlib.suppress(FileNotFoundError):  # it works meanwhile, and its own files come and go
            kept = {path: path.stat().st_mode for path in (data, *data.rglob("*"))}
    kept = {path: mode for path, mode in kept.items() if path.is_dir() or path.suffix in (".db", ".saibot", ".db-wal")}
    assert {path.suffix for path in kept} >= {"", ".db", ".saibot"}
    assert [path for path, mode in kept.items() if mode & 0o077] == []


def test_what_is_published_is_there_for_everybody(story, published):
    mine = story.provider.json("datasets", "--mine")["datasets"]
    assert [one["id"] for one in mine] == [published["id"]]
    listed = story.requester.type("datasets", "--feature", "nights")
    assert "stays" in listed and "the-provider" in listed and "20,000" in listed
    one = story.requester.type("datasets", published["id"])
    assert "one patient" in one and "replace-one" in one and "±" in one
    assert "all sketches of this account together" not in " ".join(one.split()), "there is no other one"
    assert re.search(r" used in (no search yet|\d+ search)", " ".join(one.split()))
    assert story.requester.json("domains", "list")["domains"][0]["levels"] == ["building"]
    assert story.requester.json("domains", "show", "wards")["size"] == len(WARDS)


def test_publishing_the_same_again_changes_nothing(story, published):
    again = story.provider.json("publish", "stays.saibot")["datasets"][0]
    assert (again["id"], again["version"], again["digest"]) == (published["id"], 1, published["digest"])


def test_a_provider_says_licence_contact_and_tags_beside_the_sketch(story, published):
    options = ("--licence", "CC BY 4.0", "--contact", "data@clinic.example", "--tag", "Health", "--tag", "wards")
    again = story.provider.json("publish", "stays.saibot", *options)["datasets"][0]
    assert (again["id"], again["digest"]) == (published["id"], published["digest"]), "the sketch stays what it is"
    for asked in (("--tag", "health"), ("--query", "CC")):
        assert [one["id"] for one in story.requester.json("datasets", *asked)["datasets"]] == [published["id"]]
    assert story.requester.json("datasets", "--tag", "schools")["datasets"] == []
    shown = story.requester.type("datasets", published["id"])
    assert "CC BY 4.0" in shown and "data@clinic.example" in shown and "Health, wards" in shown
    (story.provider.folder / "about.md").write_text("# Wards\n\nOf *all* hospitals.\n")
    said = story.provider.json("describe", published["id"], "--about", "about.md", "--tag", "nights", "--licence", "")[
        "about"
    ]
    assert said == {
        "licence": "",
        "contact": "data@clinic.example",
        "tags": ["nights"],
        "more": "# Wards\n\nOf *all* hospitals.\n",
    }
    assert story.requester.json("datasets", published["id"])["about"] == said
    assert "Of *all* hospitals." in story.requester.type("describe", published["id"])
    assert story.provider.json("describe", published["id"], "--tag", "")["about"]["tags"] == []
    for wrong, words in (
        (("describe", published["id"], "--licence", "x" * 201), "too long: licence"),
        (("publish", "stays.saibot", "--tag", "x" * 41), "too long: tags"),
        (("publish", "stays.csv", "--tag", "x", "--out", "x.saibot"), "--tag is said to a platform"),
        (("describe", published["id"], "--about", "nowhere.md"), "cannot be read"),
    ):
        with pytest.raises(SaibotError, match=words):
            story.provider.type(*wrong)
    with pytest.raises(SaibotError, match="role provider"):
        story.requester.type("describe", published["id"], "--tag", "mine")


TABLE = ("train.csv", "--individual", "one patient", "--key", "none", "--feature", "age=0:100", "--epsilon", "1", "--yes")


def test_whoever_may_not_publish_hears_so_before_anything_is_paid(story):
    with pytest.raises(SaibotError, match="needs the role provider"):
        story.requester.type("publish", *TABLE)
    with pytest.raises(SaibotError, match="needs a token") as refused:
        story.requester.type("publish", *TABLE, "--platform", story.requester.address.replace("127.0.0.1", "localhost"))
    assert "saibot login" in str(refused.value.hint)
    assert "train" not in story.requester.type("ledger")


def test_what_the_platform_would_not_list_is_said_before_it_is_paid(story):
    before = story.provider.type("ledger")
    (story.provider.folder / "train.csv").write_text("age\n" + "\n".join(map(str, range(18, 98))) + "\n")
    costly = [*TABLE, "--name", "costly"]
    costly[costly.index("1", 5)] = "1000000.5"  # platforms of tests list up to a million
    for more, said in ((costly, "lists no sketch above 1000000"), ([*TABLE, "--expires", "2001-01-01"], "after today")):
        with pytest.raises(SaibotError, match=said) as refused:
            story.provider.type("publish", *more)
        assert "Nothing was charged" in str(refused.value)
    assert story.provider.type("ledger") == before
    (story.provider.folder / "train.csv").unlink()


def test_whoever_may_not_search_hears_so_before_the_request_is_paid(story):
    terms = ("--train", "stays.csv", "--target", "nights", "--key", "ward", "--card", "card.toml", "--epsilon", "0.1")
    before = story.provider.type("ledger")
    with pytest.raises(SaibotError, match="needs the role requester"):
        story.provider.type("search", *terms)
    assert story.provider.type("ledger") == before


def test_a_requester_searches_at_home_and_augments_its_rows(story, published):
    asked = ("--train", "train.csv", "--test", "test.csv", "--target", "cost", "--key", "station", "--feature", "age")
    shown = story.requester.type("search", *asked, "--local", "--out", "local.json")
    assert "local request" in shown and "stays.nights" in shown and "saibot augment local.json" in shown
    found = json.loads((story.requester.folder / "local.json").read_text())
    assert found["platform"] == story.requester.address
    assert found["steps"][-1]["test_r2"] > 0.5 > found["base"]["test_r2"]
    story.requester.type("augment", "local.json", "test.csv", "--out", "wider.csv")
    wider = pd.read_csv(story.requester.folder / "wider.csv")
    assert len(wider) == 2000 and np.corrcoef(wider["stays.nights"], wider.cost)[0, 1] > 0.7


def test_a_requester_asks_the_platform_with_sketches_only(story, published):
    together = [pd.read_csv(story.requester.folder / f"{part}.csv") for part in ("train", "test")]
    pd.concat(together).to_csv(story.requester.folder / "costs.csv", index=False)
    parts = story.requester.json("split", "costs.csv")
    asked = ("--train", parts["train"], "--test", parts["test"], "--target", "cost", "--key", "ward", "--card", "card.toml")
    left = story.requester.json("search", *asked, "--epsilon", "1", "--no-wait")
    assert left["status"] in ("queued", "running", "done")
    shown = story.requester.type("searches", "result", left["id"], "--card", "card.toml", "--out", "private.json")
    assert "private request" in shown and "stays.nights" in shown
    assert [one["id"] for one in story.requester.json("searches", "list")["searches"]] == [left["id"]]
    spent = story.requester.json("ledger")["accounts"]
    assert [one["account"] for one in spent] == ["costs"] and spent[0]["spent_epsilon"] <= 1
    releases = {(one["dataset"], one["split"], one["part"]) for one in spent[0]["releases"]}
    assert releases == {(f"costs-{part}", parts["split"], part) for part in ("train", "test")}
    story.requester.type("augment", "private.json", "test.csv", "--out", "wider.parquet")
    wider = pd.read_parquet(story.requester.folder / "wider.parquet")
    assert np.corrcoef(wider["stays.nights"], wider.cost)[0, 1] > 0.7


def test_a_table_is_never_sent(story, published):
    with pytest.raises(SaibotError, match="a table does not go to a platform"):
        story.requester.type("search", "--train", "train.csv", "--target", "cost", "--key", "ward")


def test_each_may_do_what_their_role_says_and_no_more(story, published):
    with pytest.raises(SaibotError, match="only its provider"):
        story.requester.type("withdraw", published["id"])
    with pytest.raises(SaibotError, match="role"):
        story.provider.type("token", "create", "the-requester", "--role", "requester")
    with pytest.raises(SaibotError, match="no dataset"):
        story.requester.type("datasets", "d0000000000000000")
    nobody = Stranger(story.admin.folder.parent / "nobody", story.admin.address)
    nobody.folder.mkdir(exist_ok=True)
    nobody.json("login", nobody.address, "--anonymous")
    assert nobody.json("datasets")["datasets"]


def test_an_open_table_is_published_shown_and_confirmed(story, published):
    folder, source = story.provider.folder, "The hospital's own web page"
    (folder / "beds.toml").write_text(
        '[dataset]\nname = "beds"\n[features.beds]\nbounds = [0, 60]\n'
        '[keys.ward]\ndomain = { file = "wards.csv", id = "wards" }\n'
    )
    pd.DataFrame({"ward": WARDS, "beds": range(len(WARDS))}).to_csv(folder / "beds.csv", index=False)
    told = story.provider.type("publish", "--open", "beds.csv", "--source", source, "--yes", "--tag", "beds for all")
    assert f"open, no privacy cost, source: {source}" in told and "An admin confirms its source" in told
    (beds,) = story.requester.json("datasets", "--query", "beds")["datasets"]
    assert (beds["open"], beds["source"], beds["confirmed"], beds["budget"]) == (True, source, False, None)
    assert beds["tags"] == ["beds for all"]
    assert " open " in story.requester.type("datasets", "--query", "beds")
    shown = story.requester.type("datasets", beds["id"])
    assert "open: exact, no privacy cost" in shown and source in shown and "not yet: it teaches nothing" in shown
    with pytest.raises(SaibotError, match="role admin"):
        story.provider.type("confirm", beds["id"])
    assert f"confirmed {beds['id']}" in story.admin.type("confirm", beds["id"])
    assert "by an admin: it teaches" in story.requester.type("datasets", beds["id"])
    (folder / "open.toml").write_text('[dataset]\nname = "other"\n[features.nights]\nbounds = [0, 20]\n')
    with pytest.raises(SaibotError, match="cannot be open"):
        story.provider.type("publish", "--open", "stays.csv", "--card", "open.toml", "--source", source, "--yes")
    story.provider.type("withdraw", beds["id"], "--yes")


def test_a_table_is_not_written_over_by_its_wider_self(story, published):
    asked = ("--train", "train.csv", "--target", "cost", "--key", "station", "--feature", "age")
    story.requester.type("search", *asked, "--local", "--out", "again.json")
    before = (story.requester.folder / "test.csv").read_bytes()
    with pytest.raises(SaibotError, match="is the table itself"):
        story.requester.type("augment", "again.json", "test.csv", "--out", "../requester/test.csv")
    assert (story.requester.folder / "test.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("x", "--role", "boss"), "a role is"),
        (("two words", "--role", "provider"), "cannot be called 'two words'"),
        (("x", "--role", "provider", "--expires", "tomorrow"), "a day, YYYY-MM-DD"),
        (("x", "--role", "provider", "--expires", "2020-01-01"), "a day after today"),
    ],
)
def test_a_token_that_cannot_be_is_refused_in_words_not_patterns(story, typed, said):
    with pytest.raises(SaibotError, match=said) as refused:
        story.admin.type("token", "create", *typed)
    assert "pattern" not in str(refused.value)


def test_an_admin_reads_who_did_what_and_how_often(story, published):
    with pytest.raises(SaibotError, match="role admin"):
        story.provider.type("trail")
    publish = story.admin.json("trail", "--action", "publish", "--account", "the-provider")["trail"][-1]
    assert publish["subject"] == published["id"] and publish["times"] == 1
    ends, sums = time.monotonic() + 30, []
    while "audit" not in {entry["subject"] for entry in sums} and time.monotonic() < ends:  # written every few seconds
        sums = story.admin.json("trail", "--action", "refused", "--account", "the-provider")["trail"]
        time.sleep(0.2)
    assert {entry["subject"] for entry in sums} >= {"audit"} and sums[0]["hour"]
    shown = " ".join(story.admin.type("trail", "--limit", "200").split())
    assert "refused" in shown and f":00 to {sums[0]['hour'][11:]}:59" in shown and "create token" in shown
    assert "and more: --limit 2" in story.admin.type("trail", "--limit", "1")
    with pytest.raises(SaibotError, match="--since is a day"):
        story.admin.type("trail", "--since", "yesterday")
    assert "nothing in the trail fits" in story.admin.type("trail", "--since", "2999-01-01")


def test_a_backup_that_is_not_there_leaves_no_folder(story):
    with pytest.raises(SaibotError, match="there is no backup"):
        story.admin.type("restore", "nothing.tar", "--data", "fresh")
    assert not (story.admin.folder / "fresh").exists()


def test_a_backup_of_the_running_platform_is_a_platform(story, published):
    made = story.admin.json("backup", "backup.tar", "--data", "data")
    assert made["datasets"] == 1 and stat.S_IMODE((story.admin.folder / "backup.tar").stat().st_mode) == 0o600
    assert story.admin.json("restore", "backup.tar", "--data", "copy")["datasets"] == 1
    assert list((story.admin.folder / "copy" / "sketches").rglob(f"*{published['digest']}*"))


def test_everybody_makes_lists_and_revokes_tokens_of_their_own(story):
    (own,) = story.requester.json("token", "list")["tokens"]
    made = story.requester.json("token", "create", "--expires", "2999-01-01")
    assert (made["name"], made["roles"], made["expires"]) == ("the-requester", ["requester"], "2999-01-01")
    program = Stranger(story.admin.folder.parent / "program", story.admin.address)
    program.folder.mkdir()
    program.login(made["token"])
    assert {one["id"] for one in program.json("token", "list")["tokens"]} == {own["id"], made["id"]}
    assert {one["name"] for one in story.admin.json("token", "list", "--mine")["tokens"]} == {"admin"}
    assert {one["name"] for one in story.admin.json("token", "list")["tokens"]} >= {"admin", "the-requester"}
    with pytest.raises(SaibotError, match="gives no more than it has"):
        story.requester.type("token", "create", "--role", "admin")
    with pytest.raises(SaibotError, match="not said what somebody may do"):
        story.admin.type("token", "create", "somebody")
    story.requester.type("token", "revoke", made["id"])
    with pytest.raises(SaibotError, match="revoked"):
        program.type("searches", "list")


def test_a_revoked_token_opens_nothing(story):
    made = story.admin.json("token", "create", "guest", "--role", "requester")
    guest = Stranger(story.admin.folder.parent / "guest", story.admin.address)
    guest.folder.mkdir()
    guest.login(made["token"])
    assert made["token"] not in story.admin.type("token", "list")
    story.admin.type("token", "revoke", made["id"])
    with pytest.raises(SaibotError):
        guest.type("searches", "list")
    guest.type("logout")
    assert made["token"] not in (guest.folder / "home" / "config.toml").read_text()


def test_what_was_paid_and_could_not_be_sent_is_sent_by_the_same_command(story, monkeypatch):
    said = [*TABLE, "--name", "paid-once"]
    pd.DataFrame({"age": range(18, 98)}).to_csv(story.provider.folder / "train.csv", index=False)
    said[said.index("1", 5)] = "0.1"
    send = Wire.json

    def breaks(self, method, path, **more):
        if (method, path) == ("POST", "/v1/datasets"):
            raise PlatformUnreachable("the connection broke.")
        return send(self, method, path, **more)

    with monkeypatch.context() as broken:
        broken.setattr(Wire, "json", breaks)
        with pytest.raises(PlatformUnreachable):
            story.provider.type("publish", *said)
    sent = story.provider.json("publish", *said)
    assert sent["repeated"] is True and sent["dataset"]["version"] == 1
    story.provider.type("withdraw", sent["dataset"]["id"], "--yes")


def test_the_platform_ends_cleanly_and_what_was_withdrawn_is_gone(story, published):
    story.provider.type("withdraw", published["id"], "--yes")
    assert story.requester.json("datasets")["datasets"] == []
    with pytest.raises(SaibotError, match="nothing is published"):
        story.requester.type("search", "--train", "train.csv", "--target", "cost", "--key", "station", "--local")
    assert not list((story.admin.folder / "data" / "sketches").rglob(f"*{published['digest']}*"))
    story.server.send_signal(signal.SIGINT)
    _, err = story.server.communicate(timeout=60)
    assert story.server.returncode == 0, err
    assert err.strip() == "stopped."
    with pytest.raises(SaibotError, match="no platform answers"):
        story.requester.type("datasets")
