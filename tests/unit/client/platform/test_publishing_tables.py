"""`Provider.publish(frame, ...)`: from a frame to a dataset of a platform, and what is refused before anything is paid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import Provider
from saibot.errors import InvalidInput
from saibot.privacy.ledger import Ledger
from saibot.privatize import make_card
from saibot.sketch import read_sketch

SAID: dict[str, Any] = {
    "name": "homes",
    "individual": "one home",
    "key": "ward",
    "domain": "range:ward:1:20",
    "features": ["age"],
}


def homes() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    ward = rng.integers(1, 21, 6000)
    return pd.DataFrame({"ward": ward, "age": rng.normal(40 + ward, 10).round(), "size": rng.integers(1, 9, 6000)})


@pytest.fixture
def provider(fake, saibot_home) -> Provider:
    return Provider(fake.client(), Ledger(saibot_home))


def test_a_frame_and_a_few_words_become_a_dataset(provider, fake) -> None:
    provider.publish(homes(), **SAID, epsilon=1)
    (content,) = fake.sketches.values()
    header = read_sketch(content).header
    assert header.dataset.name == "homes" and header.budget == {"epsilon": "1", "delta": "1e-6"}
    assert header.preparation.kind == "bought" and not header.simulation
    account = provider.ledger.account("homes")
    assert account is not None and account.spent_epsilon == pytest.approx(1, abs=1e-3)


def test_a_card_or_a_plain_document_describes_a_frame_as_well(provider, fake) -> None:
    card = make_card(homes(), **SAID).with_feature("age", bounds=(30, 70)).with_dataset(neighbours="replace-one")
    provider.publish(homes(), card=card.document(), epsilon=0.5)
    (content,) = fake.sketches.values()
    assert read_sketch(content).header.budget["epsilon"] == "0.5"


def test_what_is_missing_is_named_and_nothing_is_charged(provider, fake) -> None:
    for missing in ("individual", "key", "domain", "features", "name"):
        with pytest.raises(InvalidInput, match=f"in Python {missing}="):
            provider.publish(homes(), **{name: said for name, said in SAID.items() if name != missing}, epsilon=1)
    with pytest.raises(InvalidInput, match="epsilon"):
        provider.publish(homes(), **SAID)
    assert not fake.sketches and not provider.ledger.accounts()


def test_keys_that_match_nothing_and_columns_of_noise_are_refused_unless_yes(provider, fake) -> None:
    with pytest.raises(InvalidInput, match="no row has a key of the domain"):
        provider.publish(homes(), **SAID | {"domain": "range:ward:100:120"}, epsilon=1)
    with pytest.raises(InvalidInput, match="nothing but noise"):
        provider.publish(homes(), **SAID | {"name": "wide", "features": ["age=0:1e7"]}, epsilon=1)
    assert not fake.sketches and not provider.ledger.accounts()
    provider.publish(homes(), **SAID | {"name": "wide", "features": ["age=0:1e7"]}, epsilon=1, yes=True)
    assert len(fake.sketches) == 1


def test_a_card_that_was_changed_after_a_look_is_refused_before_it_is_paid(provider, fake) -> None:
    card = make_card(homes(), **SAID).with_feature("age", bounds=(0, 1000))
    look = provider.look(homes(), card, epsilon=1, key="ward")
    assert look.columns[0].survives is not None and look.columns[0].survives < 0.5
    with pytest.raises(InvalidInput, match=r"features.age.bounds"):
        provider.publish(homes(), card=card.with_feature("age", bounds=(40, 60)), epsilon=1)
    assert [request.url.path for request in fake.asked] == ["/v1/me"] and not provider.ledger.accounts()
    provider.publish(homes(), card=card.with_feature("age", bounds={"buy": "auto"}), epsilon=1)
    assert len(fake.sketches) == 1


def test_sketches_are_sent_as_they_are(provider) -> None:
    with pytest.raises(InvalidInput, match="sketches are sent as they are"):
        provider.publish("homes.saibot", epsilon=1)
