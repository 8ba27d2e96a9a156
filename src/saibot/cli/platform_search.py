"""`saibot search --platform`: ask a platform with sketches, or bring its corpus home and ask that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from saibot.cli.home import open_ledger
from saibot.cli.show import print_json, progress, say

if TYPE_CHECKING:
    from saibot.client import Augmented, Platform, SearchOptions


@dataclass(frozen=True)
class RequestFlags:
    """What the command line says about the request itself."""

    train: Path
    test: Path | None
    target: str
    keys: dict[str, str | None]  # key columns, or keys of the card, and the domain of each if one was named
    features: list[str] | None
    card: Path | None
    model: str | None = None
    family: str | None = None


def search_at_home(
    platform: Platform,
    asked: RequestFlags,
    options: SearchOptions,
    slice_of: str | None,
    *,
    account: str | None,
    json: bool,
) -> Augmented:
    from saibot.client import Requester

    with progress(quiet=json) as tell:
        return Requester(platform).search_at_home(
            asked.train,
            asked.test,
            target=asked.target,
            keys=asked.keys,
            features=asked.features,
            card=asked.card,
            model=asked.model,
            family=asked.family,
            domain=slice_of,
            account=account,
            options=options,
            name=asked.train.stem,
            progress=tell,
        )


def search_there(
    platform: Platform,
    asked: RequestFlags,
    options: SearchOptions,
    *,
    epsilon: str | None,
    delta: str,
    wait: bool,
    json: bool,
) -> Augmented | None:
    from saibot.client import Requester
    from saibot.client.sketch_request import is_sketch
    from saibot.errors import InvalidInput

    if asked.model is not None or asked.family is not None:
        raise InvalidInput(
            "--model and --family are fitted to rows, which a platform does not get: it answers with least squares.",
            hint="Search with --local; from sketches, least squares ranks a yes or no and a count alike.",
        )
    if any(asked.keys.values()):
        raise InvalidInput("a private request has the key domain of its card.", hint="Search with --local to name another.")
    if not is_sketch(asked.train) and (asked.card is None or epsilon is None):
        raise InvalidInput(
            "a table does not go to a platform: it is privatised first, which needs --card and --epsilon.",
            hint="With --local the corpus comes here instead: exact, and nothing is spent.",
        )
    requester = Requester(platform, open_ledger(), note=lambda sentence: say(f"note: {sentence}", err=True))
    with progress(quiet=json) as tell:
        job = requester.submit(
            asked.train,
            asked.test,
            target=asked.target,
            key=list(asked.keys),
            features=asked.features,
            card=asked.card,
            epsilon=epsilon,
            delta=delta,
            options=options,
            progress=tell,
        )
        if wait:
            tell("waiting for the platform", None)
            job.wait(tell)
            return requester.result(job, card=asked.card)
    if json:
        print_json(job.state.model_dump(mode="json") | {"platform": platform.url})
    else:
        say(f"search {job.id} is {job.state.status} at {platform.url}")
        say(f"next: `saibot searches result {job.id} --out result.json`")
    return None
