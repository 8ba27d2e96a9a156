"""Enquiries: a requester asks a provider for more, the provider grants a dataset or refuses; and grants by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

from saibot.client.answers import read_answer
from saibot.client.platform import Platform
from saibot.client.privatizing import Amount, budget_of
from saibot.errors import InvalidInput
from saibot.wire import DatasetGrant, Enquiry
from saibot.wire.enquiry import TELLS


class Enquiries:
    """`Enquiries(platform)`, for both sides: ask, list, show, grant, refuse and remove; grants, give and take."""

    def __init__(self, platform: Platform) -> None:
        self._wire = platform.wire

    def ask(
        self,
        dataset: str,
        *,
        why: str,
        columns: Sequence[str] = (),
        keys: Sequence[str] = (),
        epsilon: Amount | None = None,
        delta: Amount = "1e-6",
        yes: bool = False,
    ) -> Enquiry:
        """Ask the provider of a published dataset for access, or for a second release: which columns, keys and budget, why.

        It tells the provider what you are after, which a search at home kept to itself: nothing is sent without `yes=True`.
        """
        if not yes:
            raise InvalidInput(TELLS, hint="Say yes=True to send it.")
        budget = None if epsilon is None else budget_of(epsilon, delta).to_json()
        body = {"dataset": dataset, "columns": list(columns), "keys": list(keys), "budget": budget, "why": why}
        return self._enquiry("POST", "/v1/enquiries", body | {"understood": True})

    def list(self, side: Literal["asked", "received"] | None = None, *, open_only: bool = False) -> Iterator[Enquiry]:
        """Those that were sent or received, the latest first."""
        filters = {"side": side, "open": "true" if open_only else None}
        return (read_answer(Enquiry, item) for item in self._wire.pages("/v1/enquiries", filters))

    def show(self, id: str) -> Enquiry:
        return self._enquiry("GET", _place(id))

    def grant(self, id: str, dataset: str, words: str = "") -> Enquiry:
        """Say yes with one of one's own datasets, published already: the requester may use it from now on."""
        return self._enquiry("POST", f"{_place(id)}/grant", {"dataset": dataset, "words": words})

    def refuse(self, id: str, reason: str) -> Enquiry:
        return self._enquiry("POST", f"{_place(id)}/refuse", {"reason": reason})

    def remove(self, id: str) -> None:
        """Take one's own enquiry back, or forget it when it is answered. What was granted stays granted."""
        self._wire.send("DELETE", _place(id))

    # -------------------------------------------------------------------------------------------- grants

    def grants(self, dataset: str) -> Iterator[DatasetGrant]:
        """To whom one's own dataset is granted."""
        return (read_answer(DatasetGrant, item) for item in self._wire.pages(f"{_dataset(dataset)}/grants"))

    def give(self, dataset: str, account: str) -> DatasetGrant:
        place = f"{_dataset(dataset)}/grants/{quote(account, safe='')}"
        return read_answer(DatasetGrant, self._wire.json("PUT", place))

    def take(self, dataset: str, account: str) -> None:
        """From now on the account sees the dataset no longer. What it has downloaded stays with it."""
        self._wire.send("DELETE", f"{_dataset(dataset)}/grants/{quote(account, safe='')}")

    def _enquiry(self, method: str, place: str, body: dict[str, Any] | None = None) -> Enquiry:
        return read_answer(Enquiry, self._wire.json(method, place, json=body))


def _place(id: str) -> str:
    return f"/v1/enquiries/{quote(id, safe='')}"


def _dataset(id: str) -> str:
    return f"/v1/datasets/{quote(id, safe='')}"
