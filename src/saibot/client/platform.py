"""A platform as anyone sees it: what is published there, which key domains it knows; for its admin, who may come in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from saibot.client.answers import read_answer
from saibot.client.errors import NotAllowed
from saibot.client.job import Job
from saibot.client.transport import Wire
from saibot.domains.csv_text import domain_from_csv, domain_to_csv
from saibot.domains.domain import LARGE, MAX_KEYS
from saibot.domains.file import MAX_PARENTS
from saibot.errors import InvalidDomain
from saibot.sketch import KeyDomain
from saibot.wire import (
    About,
    CorpusEntry,
    Dataset,
    Domain,
    FactorsEntry,
    Me,
    NewToken,
    ProviderStanding,
    Related,
    Role,
    Search,
    ShownDataset,
    Token,
)

BYTES_PER_KEY = 256  # and as many for each of its parents, on average
ROOM = 1 << 20  # bytes on top of that
LARGEST_DOMAIN = 64 << 20
_ONE_LARGE = threading.Lock()  # domains are fetched several at once, large ones are not


class Platform:
    """`Platform("https://saibot.example.org", token="saibot_…")`.

    Any httpx transport may carry the calls: `saibot.embedded` passes one that needs no network. Reading what is public
    needs no token.
    """

    def __init__(self, url: str, token: str | None = None, transport: httpx.BaseTransport | None = None) -> None:
        self.wire = Wire(url, token, transport)

    @classmethod
    def over(cls, wire: Wire) -> Self:
        """A platform on a connection that is there already."""
        made = cls.__new__(cls)
        made.wire = wire
        return made

    @property
    def url(self) -> str:
        return self.wire.url

    def with_token(self, token: str | None) -> Self:
        """The same platform, spoken to as somebody else."""
        return self.over(self.wire.with_token(token))

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Platform({self.url!r})"

    # -------------------------------------------------------------------------------------------- who

    def me(self) -> Me:
        """Whom this token speaks for."""
        return read_answer(Me, self.wire.json("GET", "/v1/me"))

    def check_role(self, role: Role) -> Me:
        """Raise what the platform would say to whoever has no such token, before anything is paid for."""
        account = self.me()
        if role not in account.roles:
            raise NotAllowed(
                f"this needs the role {role}; {account.name} is {' and '.join(account.roles)}. Nothing was charged.",
                hint="Ask the platform's admin for a token of that role.",
            )
        return account

    def healthy(self) -> bool:
        return self.wire.send("GET", "/healthz").is_success

    def create_token(
        self, name: str | None = None, roles: Sequence[str] | None = None, *, expires: str | None = None
    ) -> NewToken:
        """Let somebody in (admin). Without `name`, a token for oneself: of `roles` that this one has, and it ends with it.

        The token's text is in this answer and can never be asked for again.
        """
        body = {"name": name, "roles": None if roles is None else list(roles), "expires": expires}
        return read_answer(NewToken, self.wire.json("POST", "/v1/tokens", json=body))

    def as_account(self, name: str, roles: Sequence[str]) -> Self:
        """The same platform for a new account (admin): its token is made and used here, and shown to nobody."""
        return self.with_token(self.create_token(name, roles).token)

    def tokens(self, *, mine: bool = False) -> Iterator[Token]:
        """This account's tokens without their texts; for an admin all, unless only `mine` are asked for."""
        return (read_answer(Token, item) for item in self.wire.pages("/v1/tokens", {"mine": True} if mine else None))

    def revoke_token(self, id: str) -> None:
        """End a token at once, and those that were made with it: this account's, or as an admin anybody's."""
        self.wire.send("DELETE", f"/v1/tokens/{quote(id, safe='')}")

    # -------------------------------------------------------------------------------------------- providers

    def providers(self) -> Iterator[ProviderStanding]:
        """Who has published what: verified or not, since when, how many datasets, with which key."""
        return (read_answer(ProviderStanding, item) for item in self.wire.pages("/v1/providers"))

    def provider(self, name: str) -> ProviderStanding:
        """How one provider stands."""
        return read_answer(ProviderStanding, self.wire.json("GET", _provider_path(name)))

    def verify(self, name: str) -> ProviderStanding:
        """Say that an account is who its name says (admin), after having made sure by other means."""
        return read_answer(ProviderStanding, self.wire.json("PUT", f"{_provider_path(name)}/verified"))

    def take_verification(self, name: str) -> ProviderStanding:
        """Take that back (admin)."""
        return read_answer(ProviderStanding, self.wire.json("DELETE", f"{_provider_path(name)}/verified"))

    def take_key(self, name: str) -> ProviderStanding:
        """Take an account's signing key back (admin), which is lost, or which somebody else has: it may bind another one."""
        return read_answer(ProviderStanding, self.wire.json("DELETE", f"{_provider_path(name)}/key"))

    # -------------------------------------------------------------------------------------------- domains

    def domains(self) -> Iterator[Domain]:
        """The registered key domains, without their keys."""
        return (read_answer(Domain, item) for item in self.wire.pages("/v1/domains"))

    def domain(self, id: str, version: int = 1) -> KeyDomain:
        """A registered key domain with all its keys and their parents, checked against its digest."""
        return self.keys_of(self.domain_facts(id, version), id, version)

    def domain_facts(self, id: str, version: int = 1) -> Domain:
        """A registered key domain without its keys."""
        return read_answer(Domain, self.wire.json("GET", _domain_path(id, version)))

    def keys_of(self, facts: Domain, id: str, version: int) -> KeyDomain:
        """What belongs to these facts: it may have as many keys as they say and no more."""
        columns = 1 + len(facts.levels)
        if not 0 < facts.size <= MAX_KEYS or columns > 1 + MAX_PARENTS:
            raise InvalidDomain(f"the platform says that the domain {id!r} is larger than key domains are.")
        most = min(ROOM + facts.size * columns * BYTES_PER_KEY, LARGEST_DOMAIN)
        with _ONE_LARGE if facts.size * columns > LARGE else nullcontext():
            place = f"{_domain_path(id, version)}/file"
            content = self.wire.send("GET", place, headers={"Accept": "text/csv"}, most=most).content
            found = domain_from_csv(content, id=facts.id, version=facts.version, shape=(facts.size, columns))
        if found.digest != facts.digest or (facts.id, facts.version) != (id, version):
            raise InvalidDomain(f"the platform sent other keys than those of the domain {id!r} version {version}.")
        return found

    def register_domain(self, domain: KeyDomain) -> Domain:
        """Make a key domain known. The same one again changes nothing; another one under its name is refused."""
        answer = self.wire.json(
            "PUT",
            _domain_path(domain.id, domain.version),
            content=domain_to_csv(domain),
            headers={"Content-Type": "text/csv"},
        )
        return read_answer(Domain, answer)

    # -------------------------------------------------------------------------------------------- datasets

    def datasets(self, **filters: Any) -> Iterator[Dataset]:
        """What is published, page after page; `q`, `domain`, `provider`, `feature` and `tag` narrow the list, `sort`
        orders it.
        """
        return (read_answer(Dataset, item) for item in self.wire.pages("/v1/datasets", filters))

    def dataset(self, id: str) -> ShownDataset:
        """One dataset with its private profile and its versions."""
        return read_answer(ShownDataset, self.wire.json("GET", f"/v1/datasets/{quote(id, safe='')}"))

    def about(self, id: str) -> About:
        """Licence, contact, tags and more of a dataset's table, as its provider says; see `Provider.describe`."""
        return read_answer(About, self.wire.json("GET", f"/v1/datasets/{quote(id, safe='')}/about"))

    def confirm(self, id: str, digest: str) -> Dataset:
        """Say that an open dataset's source is what it claims (admin); `digest` is of the sketch that was looked at."""
        place = f"/v1/datasets/{quote(id, safe='')}/confirm"
        return read_answer(Dataset, self.wire.json("POST", place, params={"digest": digest}))

    def related(self, id: str) -> Related:
        """Which datasets join or union with a published one, and why."""
        return read_answer(Related, self.wire.json("GET", f"/v1/datasets/{quote(id, safe='')}/related"))

    def manifest(self, domain: str | None = None) -> Iterator[CorpusEntry]:
        """Which sketches make up the corpus, or the slice of it that has this key domain."""
        return (read_answer(CorpusEntry, item) for item in self.wire.pages("/v1/corpus", {"domain": domain}))

    def factors(self) -> Iterator[FactorsEntry]:
        """The shared factors that the platform's values use at present."""
        return (read_answer(FactorsEntry, item) for item in self.wire.pages("/v1/factors"))

    def searches(self) -> list[Search]:
        """This account's searches that the platform still keeps."""
        return [read_answer(Search, item) for item in self.wire.pages("/v1/searches")]

    def job(self, id: str) -> Job:
        """A search that was submitted before."""
        return Job(self.wire, read_answer(Search, self.wire.json("GET", f"/v1/searches/{id}")))

    def audit(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Who published, withdrew, downloaded and asked what, and who was refused, newest first (admin).

        `action`, `account` and `since` (a day) narrow it. Downloads and refusals are sums by the hour: `times` of `hour`.
        """
        return self.wire.pages("/v1/audit", filters)


def read_domain_file(path: Path, *, id: str, version: int = 1) -> KeyDomain:
    """A key domain from a CSV or Parquet file on this machine."""
    from saibot.privatize.domain_file import read_domain

    return read_domain(path, id=id, version=version)


def _provider_path(name: str) -> str:
    return f"/v1/providers/{quote(name, safe='')}"


def _domain_path(id: str, version: int) -> str:
    return f"/v1/domains/{quote(id, safe='')}/{version}"
