"""What goes over the wire: a local requester's questions do not depend on its rows, and nothing nonprivate is sent.

Both are tried on a whole platform inside this process, whose transport writes down every call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from saibot.audit.promises.verdict import Verdict
from saibot.client import Augmented, Platform, Provider, Requester, SearchOptions
from saibot.errors import SaibotError
from saibot.extras import how_to_install
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.noise import OpenDPNoise
from saibot.privatize.tuning import note_look
from saibot.sketch import Sketch

KEYS = tuple(f"{number:02}" for number in range(1, 13))


class Recorder(httpx.BaseTransport):
    """Passes calls on, and writes down what each of them was."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.calls: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(f"{request.method} {request.url.raw_path.decode('ascii')}")
        return self._inner.handle_request(request)


class SimulatedNoise(OpenDPNoise):
    """Real noise that is called a simulation, as experiments' noise is."""

    simulated = True


def wire_is_silent() -> Iterable[Verdict]:
    try:
        import saibot.platform  # noqa: F401
    except ImportError:
        needs = f"needs the packages of a platform: {how_to_install('platform')}"
        yield Verdict("a local requester's calls do not depend on its rows", skipped=needs)
        yield Verdict("nothing nonprivate, tuned or simulated is sent", skipped=needs)
        return
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder, _platform(Path(folder)) as (admin, recorder):
        yield silent_requester(admin, recorder, Path(folder))
        yield nothing_nonprivate(admin, recorder, Path(folder))


@contextmanager
def _platform(folder: Path) -> Iterator[tuple[Platform, Recorder]]:
    from saibot.client.in_process import ADDRESS, running
    from saibot.embedded import admin_token, embedded_settings, make_app

    settings = embedded_settings(folder / "platform")
    with running(make_app(settings)) as transport:
        recorder = Recorder(transport)
        yield Platform(ADDRESS, admin_token(settings.data), recorder), recorder


# ------------------------------------------------------------------------------------------------ a local requester


def silent_requester(admin: Platform, recorder: Recorder, folder: Path) -> Verdict:
    """Two requesters whose rows choose different datasets: both must ask the platform for the same, and then no more."""
    promise = "a local requester's calls do not depend on its rows"
    provider = Provider(admin.as_account("provider", ["provider"]), folder / "ledger")
    rising, falling = np.arange(len(KEYS)) * 1.0, np.arange(len(KEYS)) * 5 % 11 * 1.0
    for name, values in (("rising", rising), ("jumping", falling)):
        provider.publish(_sketch(name, values, folder))
    platform = admin.as_account("requester", ["requester"])
    heard = {}
    for name, values in (("rising", rising), ("jumping", falling)):
        heard[name] = _ask(platform, recorder, folder / f"asks-{name}", values)
    one, other = heard["rising"], heard["jumping"]
    if one["chosen"] == other["chosen"]:
        return Verdict(promise, skipped="both requesters chose the same dataset, so nothing could differ")
    for stage in ("while it searched", "when it joined the values"):
        if one[stage] != other[stage]:
            differ = sorted(set(one[stage]) ^ set(other[stage]))
            return Verdict(promise, f"{stage}, calls differ: {', '.join(map(_short, differ)) or 'in their order'}")
    if one["when it joined the values"]:
        said = ", ".join(map(_short, one["when it joined the values"]))
        return Verdict(promise, f"after its rows were read, the requester still asked: {said}")
    return Verdict(promise)


def _ask(platform: Platform, recorder: Recorder, folder: Path, values: np.ndarray) -> dict[str, Any]:
    """Search at home and join what was found; all calls of each stage, those at one time in order of their text."""
    rows = [f"{key},{values[place] + copy * 0.01}" for place, key in enumerate(KEYS) for copy in range(4)]
    folder.mkdir()
    table = folder / "request.csv"
    table.write_text("\n".join(["shop,y", *rows]) + "\n", encoding="utf-8")

    def calls(act: Callable[[], Any]) -> tuple[Any, list[str]]:
        start = len(recorder.calls)
        with suppress(SaibotError):
            done = act()
            return done, sorted(recorder.calls[start:])  # downloads run side by side
        return None, [*sorted(recorder.calls[start:]), "refused"]

    options = SearchOptions(steps=1, always_first=True, unions=False)
    requester = Requester(platform, folder / "ledger", cache=folder / "cache")
    found, searched = calls(lambda: requester.search_at_home(table, target="y", keys=["shop"], options=options))
    assert isinstance(found, Augmented)
    _, joined = calls(lambda: found.augment(table, out=folder / "out.csv"))
    return {
        "chosen": [step.dataset for step in found.result.steps],
        "while it searched": searched,
        "when it joined the values": joined,
    }


def _sketch(name: str, values: np.ndarray, folder: Path, **options: Any) -> Sketch:
    """A dataset of one feature by shop, each shop in a region, under a key domain of its own that nobody registers."""
    domain = folder / f"{name}-domain.csv"
    domain.write_text("\n".join(["shop,region", *(f"{key},r{key[0]}" for key in KEYS)]) + "\n", encoding="utf-8")
    card = Card.parse(
        {
            "dataset": {"name": name, "neighbours": "replace-one"},
            "features": {"level": {"bounds": [0, 12]}},
            "keys": {"shop": {"domain": {"file": domain.name, "id": f"shops-{name}"}, "levels": ["region"]}},
        },
        folder=folder,
    )
    table = folder / f"{name}.csv"
    lines = [f"{key},{value}" for key, value in zip(KEYS, values, strict=True) for _ in range(5)]
    table.write_text("\n".join(["shop,level", *lines]) + "\n", encoding="utf-8")
    asked = {"key": "shop", "allocation": "equal"} | options
    noise = asked.pop("noise", None)
    ledger = Ledger(folder / f"ledger-{name}")
    if asked.pop("looked_at", False):  # with another card
        note_look(card.with_feature("level", bounds=(-1, 1)), name, ledger)
    request = ReleaseRequest(card, Budget("100", "1e-6"), Neighbours.REPLACE_ONE, **asked)
    return privatize(table, request, ledger, noise=noise).sketch


# ------------------------------------------------------------------------------------------------ nonprivate sketches


def nothing_nonprivate(admin: Platform, recorder: Recorder, folder: Path) -> Verdict:
    """Sketches that a platform refuses must be refused before they are sent: what was sent is no longer the sender's."""
    promise = "nothing nonprivate, tuned or simulated is sent"
    values = np.arange(len(KEYS)) * 1.0
    provider = Provider(admin.as_account("careless-provider", ["provider"]), folder / "ledger")
    requester = Requester(admin.as_account("careless-requester", ["requester"]), folder / "ledger")
    sketches = {
        "nonprivate": _sketch("nonprivate", values, folder, paper_preparation=True),
        "simulated": _sketch("simulated", values, folder, noise=SimulatedNoise()),
        "tuned": _sketch("tuned", values, folder, looked_at=True, yes=True),
    }
    seen = []
    for kind, sketch in sketches.items():
        ways: dict[str, Callable[[], Any]] = {
            "published": lambda sketch=sketch: provider.publish(sketch),  # type: ignore[misc]
            "asked with": lambda sketch=sketch: requester.submit(sketch, target="level"),  # type: ignore[misc]
        }
        for way, act in ways.items():
            start = len(recorder.calls)
            with suppress(SaibotError):
                act()
                seen.append(f"a {kind} sketch could be {way}")
            if recorder.calls[start:]:
                seen.append(f"a {kind} sketch was sent when it was {way}")
    return Verdict(promise, "; ".join(seen))


def _short(call: str) -> str:
    """A call without the most of a digest."""
    head, slash, tail = call.rpartition("/")
    return f"{head}{slash}{tail[:12]}"
