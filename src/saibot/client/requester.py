"""A requester's dealings: ask a platform with private sketches, or bring the public corpus home and ask it exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from saibot.client.answers import Progress, read_answer
from saibot.client.augmented import Augmented, find_augmentation
from saibot.client.cache import SketchCache
from saibot.client.domains import Domains
from saibot.client.errors import PlatformError
from saibot.client.exact_request import Keys, local_request
from saibot.client.job import Job
from saibot.client.leaving import check_may_leave
from saibot.client.platform import Platform
from saibot.client.privatizing import Note, check_affordable, open_ledger, privatised, read_card, release_request
from saibot.client.remote_corpus import Published
from saibot.client.sketch_request import is_sketch, open_sketch, private_request
from saibot.errors import InvalidInput
from saibot.privacy.budget import exact_decimal
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import DEFAULT, mechanism_named
from saibot.privatize import Card, ReleaseRequest
from saibot.privatize.read import TableLike
from saibot.privatize.split import SplitFrames, split_frame
from saibot.search import Corpus, SearchOptions, SearchRequest
from saibot.search.many_to_many import check_joinable
from saibot.sketch import Sketch, write_sketch
from saibot.wire import Question, Result, Search

Part = TableLike | Sketch | Path | str


class Requester:
    """`Requester(platform)`: search, at home or there. What it privatises is charged to this machine's ledger."""

    def __init__(
        self,
        platform: Platform,
        ledger: Ledger | Path | str | None = None,
        *,
        cache: SketchCache | Path | None = None,
        note: Note | None = None,
    ) -> None:
        self.platform = platform
        self.note = note  # hears what is for the requester alone; by default Python's warnings tell
        self.ledger = ledger if isinstance(ledger, Ledger | None) else Ledger(Path(ledger))
        self.published = Published(platform, cache if isinstance(cache, SketchCache | None) else SketchCache(cache))

    def search(
        self,
        train: Part,
        test: Part | None = None,
        *,
        target: str,
        key: str | Keys = (),
        features: Sequence[str] | None = None,
        card: Card | Path | str | None = None,
        local: bool = False,
        model: Any = None,
        family: str | None = None,
        epsilon: str | None = None,
        delta: str = "1e-6",
        split: str | None = None,
        options: SearchOptions | None = None,
        progress: Progress = lambda stage, part: None,
    ) -> Augmented:
        """Which published datasets make a model of `target` better.

        Private, by default: what goes to the platform are two sketches. They are given, or made first from tables with
        their `card` and an `epsilon`, by one key of the card, and charged to the ledger; `split` is the id of the split that
        made them, where they are in memory (`Requester.split`) or were moved. With `local`, the rows stay here
        and are searched exactly, by any number of key columns; the public corpus is fetched instead, and nothing is spent.
        Then `model` may be any scikit-learn regressor or classifier (or `gbm`, `forest`), `family` `binomial` or `poisson`.
        """
        keys: Keys = (key,) if isinstance(key, str) else key
        either: dict[str, Any] = {"target": target, "features": features, "card": card}
        either |= {"options": options, "progress": progress}
        if local:
            return self.search_at_home(train, test, keys=keys, model=model, family=family, **either)
        if model is not None or family is not None:
            raise InvalidInput(
                "a platform has no rows to fit your model to: it answers with least squares, and of a yes or no or a count "
                "that is the same order of candidates, its slopes divided by p(1 - p) or by the mean.",
                hint="Leave model and family out, or search locally.",
            )
        job = self.submit(train, test, key=keys, epsilon=epsilon, delta=delta, split=split, **either)
        progress("waiting for the platform", None)
        job.wait(progress)
        return self.result(job, card=card)

    # -------------------------------------------------------------------------------------------- at home

    def corpus(self, domain: str | None = None, *, progress: Progress = lambda stage, part: None) -> Corpus:
        """The platform's corpus, or the slice with one key domain, on this machine. Cached; only what is new is fetched."""
        return self.published.corpus(domain, progress=progress)[0]

    def search_at_home(
        self,
        train: Part,
        test: Part | None = None,
        *,
        target: str,
        keys: Keys = (),
        features: Sequence[str] | None = None,
        card: Card | Path | str | None = None,
        model: Any = None,
        family: str | None = None,
        domain: str | None = None,
        account: str | None = None,
        options: SearchOptions | None = None,
        name: str = "request",
        progress: Progress = lambda stage, part: None,
    ) -> Augmented:
        """Search with one's own rows, exactly. The corpus comes here, nothing of the request leaves, nothing is spent.

        All that the search and the use of its result can need is fetched first, before a row is read: the platform is asked
        the same whatever the rows are, and nothing more when the result joins or predicts. `account` is the one that one
        publishes with, by default the one that is logged in: what it published helps no value that is judged here.
        `options.providers` and `options.verified` say whose datasets are looked at.
        """
        account = account or self._account()
        corpus, notes = self.published.corpus(domain, progress=progress)
        domains = Domains(corpus)
        request: SearchRequest
        if is_sketch(train):
            if model is not None or family is not None:
                raise InvalidInput(
                    "a model and a family are fitted to rows; a sketch has none: least squares answers.",
                    hint="Search with the table.",
                )
            request = private_request(train, test=test, target=target, features=features, keys=list(keys), domains=domains)
        else:
            described = None if card is None else read_card(card)
            common: dict[str, Any] = {"target": target, "features": features, "card": described, "domains": domains}
            request = local_request(train, test=test, keys=keys, model=model, family=family, name=name, **common)
        found = find_augmentation(request, corpus, options, account=account, progress=progress)
        told = {standing.name: standing for standing in found.result.providers} | self.published.standings
        standings = tuple(told[name] for name in found.result.named_providers)
        result = found.result.but(platform=self.platform.url, notes=(*found.notes, *notes), providers=standings)
        return Augmented(result, self.published.kept, found.request)

    def _account(self) -> str | None:
        """The account of the token, where there is one."""
        with suppress(PlatformError):
            return self.platform.me().name if self.platform.wire.token else None
        return None

    # -------------------------------------------------------------------------------------------- there

    def split(
        self, table: TableLike, *, test: str = "0.25", id: str | None = None, by_key: str | None = None
    ) -> SplitFrames:
        """Divide a table in memory at random, individual by individual (by the column `id`, or row by row).

        The ledger notes that the parts are disjoint: with `split=parts.id`, each may be released with the whole budget. With
        `by_key`, a key column, no key is in both parts: for searches at home, to see what columns are worth for new keys.
        For a file there is `saibot split`.
        """
        share = exact_decimal(test, name="test")
        return split_frame(table, self._open_ledger(), test=share, id_column=id, key=by_key)

    def private_part(
        self,
        part: Part,
        which: Literal["train", "test"],
        *,
        key: str | None,
        features: Sequence[str] = (),
        card: Card | Path | str | None = None,
        epsilon: str | None = None,
        delta: str = "1e-6",
        split: str | None = None,
        layout: str | None = None,
        progress: Progress = lambda stage, part: None,
    ) -> Sketch:
        """The sketch of the training or the test part: as it is, or privatised now.

        Both are on the account of the whole table. Where `saibot split` or `split` has made them, nobody is in both, and
        each gets the whole budget; otherwise what they cost adds up.
        """
        if is_sketch(part):
            return _may_leave(open_sketch(part))
        terms: dict[str, Any] = {"key": key, "features": tuple(features), "split": split, "layout": layout}
        request = _part_request(which, card=card, epsilon=epsilon, delta=delta, **terms)
        return _may_leave(privatised(part, request, self._open_ledger(), progress=progress, note=self.note))

    def _open_ledger(self) -> Ledger:
        if self.ledger is None:
            self.ledger = open_ledger()  # not before it is needed: who only looks has nothing to keep
        return self.ledger

    def submit(
        self,
        train: Part,
        test: Part | None = None,
        *,
        target: str,
        key: str | Keys = (),
        features: Sequence[str] | None = None,
        card: Card | Path | str | None = None,
        epsilon: str | None = None,
        delta: str = "1e-6",
        split: str | None = None,
        options: SearchOptions | None = None,
        progress: Progress = lambda stage, part: None,
    ) -> Job:
        """Send a private request and come back at once; `result` takes the job when it is done."""
        keys = (key,) if isinstance(key, str) else tuple(key)
        if len(keys) > 1:
            raise InvalidInput(
                "a private request has one key.", hint="Combine several in the card: parts = [...]; or search locally."
            )
        options = options or SearchOptions()
        asked = Question.of(options, target=target, features=features)
        for part in (train, test):
            if part is not None and is_sketch(part):  # also before the other part is privatised and charged
                check_may_leave(open_sketch(part))
        terms: dict[str, Any] = {"key": next(iter(keys), None), "card": card, "epsilon": epsilon, "delta": delta}
        terms |= {"features": () if features is None else (*features, target), "split": split}
        if options.join != "lookup" and keys:  # all pairs of rows with one key need products per key
            terms |= {"layout": mechanism_named(DEFAULT).default_layout(keyed=True, products=True).name}
        given: dict[Literal["train", "test"], Part] = {"train": train}
        if test is not None:
            given["test"] = test
        tables = [(part, _part_request(which, **terms)) for which, part in given.items() if not is_sketch(part)]
        if tables:
            self.platform.check_role("requester")
        if len(tables) > 1:
            check_affordable(tables, self._open_ledger())  # or the first would be paid for nothing
        parts = {which: self.private_part(part, which, progress=progress, **terms) for which, part in given.items()}
        # What the platform would refuse is refused here, before anything is sent.
        request = private_request(parts["train"], test=parts.get("test"), target=target, features=features)
        if options.join != "lookup":
            check_joinable(request)
        progress("sending the request's sketches", None)
        files = {which: (f"{which}.saibot", write_sketch(part), "application/octet-stream") for which, part in parts.items()}
        answer = self.platform.wire.json("POST", "/v1/searches", files=files, data={"options": asked.model_dump_json()})
        return Job(self.platform.wire, read_answer(Search, answer))

    def job(self, id: str) -> Job:
        """A search that was submitted before."""
        return self.platform.job(id)

    def searches(self) -> list[Search]:
        """This requester's searches that the platform still keeps."""
        return self.platform.searches()

    def result(self, job: Job | str, *, card: Card | Path | str | None = None) -> Augmented:
        """What a search found. With the card, keys and features are found in its columns when rows are augmented."""
        done = self.job(job) if isinstance(job, str) else job
        found = done.result().but(platform=self.platform.url, at_home=False)  # it chose, so it may be asked
        return Augmented(found if card is None else in_columns_of(found, read_card(card)), self.published)


def _may_leave(sketch: Sketch) -> Sketch:
    check_may_leave(sketch)
    return sketch


def _part_request(
    which: Literal["train", "test"], *, card: Card | Path | str | None, epsilon: str | None, **terms: Any
) -> ReleaseRequest:
    if card is None or epsilon is None:
        raise InvalidInput(
            "a table does not go to a platform: it is privatised first, which needs its card and an epsilon.",
            hint="Give both; or search locally: then the corpus comes here, and nothing is spent.",
        )
    return release_request(read_card(card).for_request(which), epsilon=epsilon, part=which, **terms)


def in_columns_of(found: Result, card: Card) -> Result:
    """A platform knows keys and features by their names; the requester's tables have columns, and the card knows both."""

    def column_of(facts: Mapping[str, Any], name: str) -> str:
        return (facts[name].column or name) if name in facts else name

    keys = tuple(key.but(column=column_of(card.keys, key.name)) for key in found.keys)
    model = found.model
    if model is not None:
        own = tuple(feature.but(column=column_of(card.features, feature.column)) for feature in model.own)
        target = model.target.but(column=column_of(card.features, model.target.name))
        model = model.but(own=own, target=target)
    return found.but(keys=keys, model=model)
