"""What a provider does: turn rows into a sketch on this machine, and send only the sketch to the platform."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from saibot.client.answers import Progress, read_answer
from saibot.client.guiding import check_untuned, table_request
from saibot.client.leaving import check_may_leave
from saibot.client.open_tables import open_sketches
from saibot.client.platform import Platform
from saibot.client.privatizing import (
    Amount,
    CardLike,
    Note,
    budget_of,
    open_ledger,
    privatised,
    privatised_by_keys,
    read_card,
    release_request,
    warn,
)
from saibot.client.signing_keys import SigningKeys, bind_key
from saibot.client.sketch_request import is_sketch, open_sketch
from saibot.domains import spelled_size
from saibot.errors import InvalidInput
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, DryRun, RowsLook, dry_run, look_at
from saibot.privatize.read import TableLike
from saibot.privatize.schema import resolve_domain
from saibot.sketch import KeyDomain, Sketch, write_sketch
from saibot.sketch.listed import listed_domain
from saibot.wire import About, Dataset, Domain, Me
from saibot.wire.dataset import Visibility

VISIBILITIES: tuple[str, ...] = get_args(Visibility)


class Provider:
    """`Provider(platform)`: plan, privatize, publish, withdraw.

    Charges go to this machine's ledger, the one that `saibot ledger` shows, so that shell and Python spend from one cap.
    Give another folder, or a `Ledger`, to keep several ledgers, each about other individuals. What is published is signed
    with this machine's key (`saibot key show`), or with `keys`, which becomes the account's at first use; `sign=False` does
    not sign it.
    """

    def __init__(
        self,
        platform: Platform,
        ledger: Ledger | Path | str | None = None,
        *,
        note: Note | None = None,
        keys: SigningKeys | None = None,
        sign: bool = True,
    ) -> None:
        self.platform = platform
        self.ledger = open_ledger(ledger)
        self.note = note  # called with sentences for the provider alone; by default they are Python warnings
        self.keys = (keys or SigningKeys()) if sign else None
        self._bound = False

    def privatize(
        self,
        table: TableLike,
        card: CardLike,
        *,
        epsilon: Amount,
        delta: Amount = "1e-6",
        key: str | None = None,
        features: Sequence[str] = (),
        progress: Progress = lambda stage, part: None,
        **options: Any,
    ) -> Sketch:
        """A sketch of the table, charged to the ledger first. Nothing is sent.

        The neighbouring relation is the card's, or `neighbours=`; further options are those of
        `saibot.privatize.ReleaseRequest`. The same release again gives the same sketch and costs nothing.
        """
        request = release_request(card, epsilon=epsilon, delta=delta, key=key, features=tuple(features), **options)
        return privatised(table, request, self.ledger, progress=progress, note=self.note)

    def privatize_by_keys(
        self,
        table: TableLike,
        card: CardLike,
        *,
        keys: Sequence[str],
        epsilon: Amount,
        delta: Amount = "1e-6",
        features: Sequence[str] = (),
        progress: Progress = lambda stage, part: None,
        **options: Any,
    ) -> tuple[Sketch, ...]:
        """A sketch of the table by each key, all for the one budget: one charge, and all sketches or none.

        What is bought is bought once, and one plan divides the rest between the keys. Otherwise as `privatize`.
        """
        request = release_request(card, epsilon=epsilon, delta=delta, key=None, features=tuple(features), **options)
        return privatised_by_keys(table, request, keys, self.ledger, progress=progress, note=self.note)

    def plan(
        self,
        table: TableLike,
        card: CardLike,
        *,
        epsilon: Amount,
        delta: Amount = "1e-6",
        key: str | None = None,
        features: Sequence[str] = (),
        progress: Progress = lambda stage, part: None,
        **options: Any,
    ) -> DryRun:
        """What `privatize` would release and charge if it were called like this. Nothing is charged, drawn or written.

        `.plan` has the noise of every block, `.events` what the ledger would be charged with, `.repeated` whether it was
        bought before; `.to_json()` is what `saibot privatize --dry-run --json` prints. What would be refused is refused.
        """
        request = release_request(card, epsilon=epsilon, delta=delta, key=key, features=tuple(features), **options)
        return dry_run(table, request, self.ledger, progress=progress)

    def look(
        self,
        table: TableLike,
        card: CardLike,
        *,
        epsilon: Amount,
        delta: Amount = "1e-6",
        key: str | None = None,
        **options: Any,
    ) -> RowsLook:
        """What the rows say about a card, before anything is paid: for your own screen, not to be stored or sent.

        The ledger notes that they were looked at. Another card of the same account then counts as tuned, and no platform
        takes its sketch, unless what changes is bought.
        """
        request = release_request(card, epsilon=epsilon, delta=delta, key=key, **options)
        return look_at(table, request, self.ledger)

    def publish(
        self,
        source: Sketch | TableLike,
        *,
        card: CardLike | None = None,
        visibility: str | None = None,
        expires: str | None = None,
        epsilon: Amount | None = None,
        delta: Amount = "1e-6",
        look: bool = True,
        yes: bool = False,
        progress: Progress = lambda stage, part: None,
        **answers: Any,
    ) -> Dataset:
        """Send a sketch, or its path, to the platform; or make one of a table first, and send that.

        A sketch: with its card, the key domains that the card spells out are registered first. A dataset of the same name
        and key becomes the next version of it. Without `visibility` and `expires` it keeps those that it has, and a new one
        is public and stays; so the same sketch again changes nothing.

        A table: as `saibot publish TABLE` does, with bounds bought where none are given. `card` describes it, or answers do:
        `publish(frame, name="homes", individual="one home", key="ward", domain="range:ward:1:20", features=["age"],
        epsilon=1)`. They are those of `saibot.privatize.drafting.Answers`. What is missing is an error that names it. With
        `look`, the rows are looked at with the card first: if all would be noise, nothing is charged unless `yes`.
        """
        if not is_sketch(source):
            if epsilon is None:
                raise InvalidInput("it is not said how much budget this may cost.", hint="Say epsilon=1, or less.")
            budget = budget_of(epsilon, delta)
            check_listed(budget, self.check_before_paying(visibility=visibility, expires=expires))
            request = table_request(source, answers, budget, card=card, yes=yes)
            check_untuned(request, self.ledger)
            if look and (wasteful := look_at(source, request, self.ledger, progress=progress).wasteful) and not yes:
                raise InvalidInput(f"{wasteful}. Nothing was charged.", hint="Mend the card, or say yes=True.")
            described: CardLike | None = request.card
            sketch: Sketch | Path | str = privatised(source, request, self.ledger, progress=progress, note=self.note)
        elif answers or epsilon is not None:
            raise InvalidInput(f"{next(iter(answers), 'epsilon')} is about a table; sketches are sent as they are.")
        else:
            sketch, described = source, card
        return self._send(sketch, described, visibility, expires)

    def check_before_paying(self, *, visibility: str | None = None, expires: str | None = None) -> Me:
        """Raise what the platform would say to a sketch once it was paid for. It learns who asks, no more; `check_listed`
        looks at its answer, which nobody has to ask for again when rows have been read.
        """
        check_visibility(visibility)
        if expires is not None and not _is_coming_day(expires):
            raise InvalidInput(
                "`expires` is a day after today, YYYY-MM-DD. Nothing was charged.",
                hint="Leave it out for a dataset that stays.",
            )
        return self.platform.check_role("provider")

    def _send(
        self, sketch: Sketch | Path | str, card: CardLike | None, visibility: str | None, expires: str | None
    ) -> Dataset:
        checked = self._signed(_checked(sketch, card, visibility))
        if card is not None:
            self.register_domains(card, checked)
        answer = self.platform.wire.json(
            "POST",
            "/v1/datasets",
            params={name: text for name, text in (("visibility", visibility), ("expires", expires)) if text},
            content=write_sketch(checked),
            headers={"Content-Type": "application/octet-stream"},
            repeatable=True,  # the platform knows a sketch by its digest
        )
        return read_answer(Dataset, answer)

    def _signed(self, sketch: Sketch) -> Sketch:
        """With this machine's signature, whose key is the account's from the first time on."""
        if self.keys is None or sketch.header.version == 1:  # which has no room for one
            return sketch
        made = self.keys.sign(sketch)
        if not self._bound:
            bind_key(self.platform, self.keys)
            self._bound = True
        return made

    def publish_open(
        self,
        table: TableLike,
        card: Card | Path | str,
        *,
        source: str,
        yes: bool = False,
        keys: Sequence[str] = (),
        features: Sequence[str] = (),
        expires: str | None = None,
        progress: Progress = lambda stage, part: None,
        **options: Any,
    ) -> list[Dataset]:
        """Publish a table that is no secret: exact sketches, at no budget, by these keys or every key of the card.

        `source` is where everybody can get the table, a citation or an address, and is shown to everybody. `yes=True` says
        that anybody may see the table cell by cell. A card that plans for privacy is refused, and so are rows that the
        ledger has ever charged. `layout="semiring"` adds products for every key, for joins row by row.
        """
        told = {"progress": progress, "note": self.note or warn, **options}
        made = open_sketches(
            table, card, self.ledger, source=source, yes=yes, keys=tuple(keys), features=tuple(features), **told
        )
        return self.publish_all(made, card=card, expires=expires, progress=progress)

    def publish_all(
        self,
        sketches: Sequence[Sketch | Path | str],
        *,
        card: CardLike | None = None,
        visibility: str | None = None,
        expires: str | None = None,
        progress: Progress = lambda stage, part: None,
    ) -> list[Dataset]:
        """Send several sketches. All are checked before the first is sent: if one may not leave, none is sent."""
        for sketch in sketches:
            _checked(sketch, card, visibility)
        done = []
        for number, sketch in enumerate(sketches):
            name = sketch.header.dataset.name if isinstance(sketch, Sketch) else Path(sketch).name
            progress(f"publishing {name}", number / len(sketches))
            done.append(self._send(sketch, card, visibility, expires))
        return done

    def register_domains(self, card: CardLike, sketch: Sketch) -> list[Domain]:
        """Make the domains of a sketch's key known, as its card gives them. Days and ranges of numbers need no register."""
        check_may_leave(sketch)
        return [self.platform.register_domain(domain) for domain in _domains(read_card(card), sketch)]

    def describe(
        self,
        id: str,
        *,
        licence: str | None = None,
        contact: str | None = None,
        tags: Sequence[str] | None = None,
        more: str | None = None,
    ) -> About:
        """Say licence, contact, tags and more (Markdown) of a dataset's table, by all its keys; what is None stays.

        It is beside the sketches, which stay as they are, and can be changed at any time.
        """
        given = {"licence": licence, "contact": contact, "tags": None if tags is None else list(tags), "more": more}
        said = self.platform.about(id).to_json() | {name: value for name, value in given.items() if value is not None}
        place = f"/v1/datasets/{quote(id, safe='')}/about"
        return read_answer(About, self.platform.wire.json("PUT", place, json=said))

    def withdraw(self, id: str) -> None:
        """Take a dataset back, all its versions. The platform deletes it; copies that others have made stay with them."""
        self.platform.wire.send("DELETE", f"/v1/datasets/{id}")

    def datasets(self) -> list[Dataset]:
        """What this provider has published."""
        return list(self.platform.datasets(provider=self.platform.me().name))


def check_listed(budget: Budget, terms: Me) -> None:
    """Raise where a platform of these terms lists no sketch of this budget."""
    for name, largest in (("epsilon", terms.max_epsilon), ("delta", terms.max_delta)):
        stated = getattr(budget, name)
        if largest is not None and stated > largest:
            raise InvalidInput(
                f"the {name} is {stated}, and this platform lists no sketch above {largest}. Nothing was charged.",
                hint="Release with a smaller budget, or ask the platform's admin.",
            )


def _is_coming_day(text: str) -> bool:
    """Whether a text is a day after today, as platforms count days: in UTC."""
    try:
        return date.fromisoformat(text).isoformat() == text > datetime.now(UTC).date().isoformat()
    except ValueError:
        return False


def check_visibility(text: str | None) -> None:
    if text is not None and text not in VISIBILITIES:
        raise InvalidInput(f"a dataset is {', '.join(VISIBILITIES[:-1])} or {VISIBILITIES[-1]}, not {text!r}.")


def _checked(sketch: Sketch | Path | str, card: CardLike | None, visibility: str | None) -> Sketch:
    """The sketch, after every check that can be made before it is sent."""
    check_visibility(visibility)
    checked = open_sketch(sketch)
    check_may_leave(checked)
    if card is not None:
        _domains(read_card(card), checked)
    return checked


def _domains(card: Card, sketch: Sketch) -> list[KeyDomain]:
    """The listed domains of the sketch's key; a card that gives other keys is not the sketch's."""
    found = []
    for number, part in enumerate(sketch.header.key.parts if sketch.header.key else ()):
        if spelled_size(part.domain) is not None:
            continue
        facts = card.keys.get(part.name)
        domain = None
        if facts is not None and facts.domain is not None and facts.domain.find is not None:
            domain = listed_domain(sketch, number)  # what was found travels with the sketch
        elif facts is not None and facts.domain is not None:
            domain = resolve_domain(facts.domain, card.folder)
        if domain is None or domain.digest != part.digest:
            raise InvalidInput(
                f"the card does not give the key domain {part.domain!r} of the sketch.",
                hint="Publish it with the card that it was privatised with, or without any.",
            )
        found.append(domain)
    return found
