"""The whole story: fifteen airlines and the weather publish on a platform, JetBlue searches it, and trains on what it found.

Each party works in a folder of its own, which stands for its machine; what passes between folders passes through the
platform. A second run in the same folder finds everything there: the ledgers hand out the same sketches, free of charge.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from saibot.client import Augmented, Platform, Provider, Requester, SearchOptions, SigningKeys
from saibot.demo.flights import REQUESTER, Party, airlines, make_airline, make_requester, make_weather
from saibot.demo.model import HeldOutScores, score
from saibot.embedded import embedded
from saibot.privacy.ledger import Ledger
from saibot.privatize.split import SplitFiles, split_table

EPSILON, DELTA = "1", "1e-6"
KEYS = ("day", "hour", "origin", "dest")
TARGET, OWN = "arr_delay", ("hour", "distance")
TEST = Decimal("0.3")
STEPS = SearchOptions(steps=6)

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Publisher:
    """A party that has published: how many sketches, and what they have cost it all together."""

    party: Party
    sketches: int
    spent: float


@dataclass(frozen=True)
class Story:
    """What happened."""

    folder: Path
    publishers: tuple[Publisher, ...]
    local: Augmented  # exact, at home
    private: Augmented  # asked with sketches
    scores: HeldOutScores
    requester_spent: float
    token: str  # JetBlue's, for whoever wants to look around on the platform afterwards

    @property
    def platform_folder(self) -> Path:
        return self.folder / "platform"

    @property
    def sketches(self) -> int:
        return sum(publisher.sketches for publisher in self.publishers)

    @property
    def selected(self) -> list[str]:
        return list(self.local.columns)

    def to_json(self) -> dict[str, Any]:
        return {
            "base_r2": self.scores.base,
            "augmented_r2": self.scores.augmented,
            "nonprivate_r2": self.scores.nonprivate,
            "selected": self.selected,
        }


def tell_story(folder: Path, *, progress: Progress, codes: Sequence[str] | None = None) -> Story:
    """Play all parts; `codes` names the airlines that publish, all but JetBlue by default."""
    progress("writing everybody's table and card", None)
    publishing = [code for code in airlines() if code != REQUESTER] if codes is None else codes
    providers = [make_airline(folder / "providers" / code, code) for code in publishing]
    providers.append(make_weather(folder / "providers" / "weather"))
    jetblue = make_requester(folder / "requester")
    ledger = Ledger(folder / "requester" / "ledger")
    parts = _parts(jetblue, ledger)
    with embedded(folder / "platform") as platform:
        publishers = publish_all(platform, providers, progress)
        client = platform.as_account("jetblue", ["requester"])
        requester = Requester(client, ledger, cache=folder / "requester" / "cache")
        progress("JetBlue searches at home, with its own rows", None)
        local = requester.search(
            parts.train, parts.test, target=TARGET, key=KEYS, features=OWN, local=True, options=STEPS, progress=progress
        )
        progress("JetBlue asks the platform, with sketches", None)
        private = requester.search(
            parts.train,
            parts.test,
            target=TARGET,
            key="day",
            features=OWN,
            card=jetblue.card,
            epsilon=EPSILON,
            delta=DELTA,
            options=STEPS,
            progress=progress,
        )
        progress("joining the chosen values to JetBlue's rows", None)
        for path in (parts.train, parts.test):
            local.augment(path, out=path.with_suffix(".augmented.parquet"))
        local.save(folder / "requester" / "result.json")
        private.save(folder / "requester" / "private-result.json")
        assert client.wire.token is not None
        token = client.wire.token
    progress("training a model on JetBlue's rows", None)
    scores = score(parts, local, providers, target=TARGET, own=OWN)
    assert requester.ledger is not None
    spent = max(account.spent_epsilon for account in requester.ledger.accounts())
    return Story(folder, tuple(publishers), local, private, scores, spent, token)


def publish_all(platform: Platform, providers: list[Party], progress: Progress) -> list[Publisher]:
    """Everybody privatises and publishes, as many at a time as there are cores: drawing noise is most of the work."""
    total, done = sum(len(party.keys) for party in providers), 0
    stage = f"{len(providers)} providers privatise and publish {total} sketches"
    progress(stage, 0.0)
    found = {}
    with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        waiting = {pool.submit(publish, platform, party): party.code for party in providers}
        for finished in as_completed(waiting):
            publisher = finished.result()
            found[waiting[finished]] = publisher
            done += publisher.sketches
            progress(stage, done / total)
    return [found[party.code] for party in providers]


def publish(platform: Platform, party: Party) -> Publisher:
    """One provider's whole work: a sketch per key, noise drawn and charged on its own machine, only sketches sent."""
    ledger = Ledger(party.folder / "ledger")
    keys = SigningKeys(party.folder / "signing-keys.pem")
    provider = Provider(platform.as_account(party.code, ["provider"]), ledger, keys=keys)
    for key in party.keys:
        sketch = provider.privatize(party.table, party.card, epsilon=EPSILON, delta=DELTA, key=key, features=party.features)
        provider.publish(sketch, card=party.card)
    (account,) = ledger.accounts()
    return Publisher(party, len(party.keys), account.spent_epsilon)


def _parts(jetblue: Party, ledger: Ledger) -> SplitFiles:
    """JetBlue's flights in two parts, divided by the operating system's randomness, once."""
    train, test = (jetblue.folder / f"{jetblue.code}.{part}.parquet" for part in ("train", "test"))
    known = ledger.share_of(place=str(train.resolve()), part="train")
    if known is not None and train.exists() and test.exists():
        return SplitFiles(train, test, known[0].split)
    return split_table(jetblue.table, ledger, test=TEST)
