"""What a sketch says of its account: a name that tells nothing, and a total that follows from requests alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, contribute, privatize
from saibot.privatize.noise import OpenDPNoise

CARD: dict[str, Any] = {
    "dataset": {"name": "clinic-visits", "account": "patients"},
    "budget": {"cap": {"epsilon": "4", "delta": "1e-6"}},
    "features": {"x": {"bounds": [0, 10]}},
    "keys": {"k": {"domain": {"range": [1, 8]}}, "l": {"column": "k", "domain": {"range": [1, 9]}}},
}


class Broken(OpenDPNoise):
    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        raise OSError("no noise to be had")


def asked(**other: Any) -> ReleaseRequest:
    card = CARD | {"dataset": CARD["dataset"] | other.pop("dataset", {})}
    terms = {"budget": Budget("1", "1e-6"), "neighbours": Neighbours.REPLACE_ONE, "key": "k", "allocation": "equal"}
    return ReleaseRequest(Card.parse(card), **(terms | other))


def rows(first: float) -> pd.DataFrame:
    return pd.DataFrame({"x": [first, *[5.0] * 49], "k": [1] * 50})


def test_the_account_is_one_for_all_its_sketches_and_names_nobody(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "one")
    first = privatize(rows(1), asked(), ledger).sketch.header
    second = privatize(rows(1), asked(key="l", dataset={"name": "clinic-bills"}), ledger).sketch.header
    elsewhere = privatize(rows(1), asked(), Ledger(tmp_path / "two")).sketch.header
    apart = privatize(rows(1), asked(dataset={"name": "staff", "account": "staff"}), ledger).sketch.header
    assert first.account == second.account and len({first.account, elsewhere.account, apart.account}) == 3
    guesses = [name.encode() for name in ("patients", "clinic-visits", "account patients", "saibot account patients")]
    assert first.account not in {hashlib.sha256(guess).hexdigest() for guess in guesses}
    assert "patients" not in first.model_dump_json()


def test_the_total_grows_with_every_request_and_is_that_of_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    totals = []
    for request in (asked(), asked(key="l"), asked(new_version=True), asked(budget=Budget("0.5", "1e-7"))):
        total = privatize(rows(1), request, ledger).sketch.header.total()
        account = ledger.account("patients")
        assert total is not None and account is not None and total.delta == account.cap.delta
        assert float(total.epsilon) == pytest.approx(account.spent_epsilon, rel=1e-5)
        assert float(total.epsilon) >= account.spent_epsilon - 1e-9
        totals.append(total.epsilon)
    assert totals == sorted(set(totals)) and totals[0] == 1


def test_a_charge_that_bought_nothing_counts_in_the_total(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(OSError, match="no noise"):
        privatize(rows(1), asked(), ledger, noise=Broken())
    total = privatize(rows(1), asked(key="l"), ledger).sketch.header.total()
    assert total is not None and total.epsilon > 1


def test_the_same_request_again_gives_the_same_total_whatever_was_released_since(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first = privatize(rows(1), asked(), ledger)
    privatize(rows(1), asked(key="l"), ledger)
    again = privatize(rows(9), asked(), ledger)
    assert again.repeated and again.content == first.content


def test_laplace_noise_alone_has_a_total_without_delta(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first = privatize(rows(1), asked(budget=Budget("0.25")), ledger).sketch.header
    second = privatize(rows(1), asked(budget=Budget("0.5"), key="l"), ledger).sketch.header
    mixed = privatize(rows(1), asked(key="l"), ledger).sketch.header
    assert (first.total(), second.total()) == (Budget("0.25"), Budget("0.75"))
    total = mixed.total()
    assert total is not None and total.delta == Budget("1", "1e-6").delta


def test_a_report_of_an_individual_names_no_account(tmp_path: Path) -> None:
    card = CARD | {"dataset": {"name": "survey"}}
    request = replace(asked(), card=Card.parse(card), model="local")
    header = contribute({"x": 3.0, "k": 2}, request, Ledger(tmp_path)).sketch.header
    assert (header.model, header.account, header.spent) == ("local", None, None)
