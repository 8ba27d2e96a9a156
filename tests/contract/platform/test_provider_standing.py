"""Whom to believe: providers are named with their standing, verified by admins, and flagged where claims are implausible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from saibot.platform import Settings
from saibot.sketch import Sketch, write_sketch
from tests.support.fabricating import drawn_anew, with_numbers


def result(verbs: Any, asker: Any, sketches: dict[str, bytes], **options: Any) -> dict[str, Any]:
    job = verbs.ask(asker, sketches["train"], sketches["test"], **{"steps": 1, "shown": 1000} | options).json()
    ended = verbs.wait(asker, job["id"])
    assert ended["status"] == "done", ended
    found: dict[str, Any] = asker.get(f"/v1/searches/{job['id']}/result").json()
    return found


def test_an_admin_verifies_a_provider_and_takes_it_back(server: Any, verbs: Any, sketches: dict[str, bytes]) -> None:
    provider = server.account("provider")
    dataset = verbs.publish(provider, sketches["good"]).json()
    place, visitor = f"/v1/providers/{provider.account}", server.client()
    before = visitor.get(place).json()
    assert (before["verified"], before["verified_since"], before["datasets"]) == (False, None, 1)
    assert before["since"] == dataset["published"]
    assert server.admin.put(f"{place}/verified").json()["verified"]
    assert server.admin.put(f"{place}/verified").status_code == 200, "once more changes nothing"
    now = visitor.get(place).json()
    assert now["verified"] and now["verified_since"] >= dataset["published"]
    assert visitor.get(f"/v1/datasets/{dataset['id']}").json()["verified"]
    listed = visitor.get("/v1/datasets", params={"provider": provider.account}).json()["items"]
    assert [one["verified"] for one in listed] == [True]
    everybody = [one for page in pages(visitor, "/v1/providers") for one in page]
    assert [one for one in everybody if one["name"] == provider.account] == [now]
    assert [one["name"] for one in everybody] == sorted(one["name"] for one in everybody)
    assert not server.admin.delete(f"{place}/verified").json()["verified"]
    assert not visitor.get(f"/v1/datasets/{dataset['id']}").json()["verified"]
    trail = server.admin.get("/v1/audit", params={"limit": 50}).json()["items"]
    noted = [entry["action"] for entry in trail if entry["subject"] == provider.account]
    assert noted == ["take verification back", "verify"]


def pages(client: Any, address: str) -> list[list[dict[str, Any]]]:
    found, cursor = [], None
    while True:
        page = client.get(address, params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        found.append(page["items"])
        if (cursor := page["next"]) is None:
            return found


def test_nobody_verifies_themselves_or_somebody_who_is_not_there(server: Any, tmp_path: Any) -> None:
    both = server.account("admin", "provider", name=f"both-{tmp_path.name}"[:90])
    assert both.put(f"/v1/providers/{both.account}/verified").status_code == 403
    assert server.admin.put("/v1/providers/no-such-account/verified").status_code == 404


def test_who_is_given_a_name_later_is_not_who_was_verified(server: Any, verbs: Any, sketches: dict[str, bytes]) -> None:
    provider = server.account("provider")
    verbs.publish(provider, sketches["good"])
    server.admin.put(f"/v1/providers/{provider.account}/verified")
    ids = [token["id"] for page in pages(server.admin, "/v1/tokens") for token in page if token["name"] == provider.account]
    assert server.admin.delete(f"/v1/tokens/{ids[0]}").status_code == 204
    server.account("provider", name=provider.account)
    assert not server.client().get(f"/v1/providers/{provider.account}").json()["verified"]


def test_results_name_who_stands_behind_each_candidate(server: Any, verbs: Any, sketches: dict[str, bytes]) -> None:
    one, other, asker = server.account("provider"), server.account("provider"), server.account("requester")
    verbs.publish(one, sketches["good"])
    verbs.publish(other, sketches["useless"])
    server.admin.put(f"/v1/providers/{one.account}/verified")
    found = result(verbs, asker, sketches)
    whose = {
        entry["dataset"]: entry["provider"] for entry in found["ranked"] if entry["provider"] in (one.account, other.account)
    }
    assert whose == {"survey": one.account, "noise": other.account}
    standing = {one["name"]: (one["verified"], one["datasets"]) for one in found["providers"]}
    assert (standing[one.account], standing[other.account]) == ((True, 1), (False, 1))
    server.admin.delete(f"/v1/providers/{one.account}/verified")


def test_a_search_is_limited_to_chosen_or_to_verified_providers(
    server: Any, verbs: Any, sketches: dict[str, bytes], make_sketch: Callable[..., Sketch]
) -> None:
    one, other, asker = server.account("provider"), server.account("provider"), server.account("requester")
    verbs.publish(one, sketches["useless"])
    verbs.publish(other, sketches["good"])
    chosen = result(verbs, asker, sketches, providers=[one.account])
    assert {entry["provider"] for entry in chosen["ranked"]} == {one.account} and chosen["candidates"] == 1
    assert f"only datasets of the providers {one.account} were looked at" in chosen["notes"]
    server.admin.put(f"/v1/providers/{other.account}/verified")
    verified = result(verbs, asker, sketches, verified=True)
    named = {entry["provider"] for entry in verified["ranked"]}
    assert other.account in named and one.account not in named
    assert all(standing["verified"] for standing in verified["providers"])  # others' tests verify theirs
    server.admin.delete(f"/v1/providers/{other.account}/verified")
    job = verbs.ask(asker, sketches["train"], providers=["nobody-here"]).json()
    ended = verbs.wait(asker, job["id"])
    assert ended["status"] == "failed" and "no provider is called 'nobody-here'" in ended["error"]["message"]
    assert verbs.ask(asker, sketches["train"], providers=["x" * 300]).status_code == 422


def test_a_provider_of_whom_the_requester_may_not_know_cannot_be_asked_for(
    server: Any, verbs: Any, sketches: dict[str, bytes]
) -> None:
    hidden, asker = server.account("provider"), server.account("requester")
    verbs.publish(hidden, sketches["good"], visibility="granted")
    job = verbs.ask(asker, sketches["train"], providers=[hidden.account]).json()
    assert "no provider is called" in verbs.wait(asker, job["id"])["error"]["message"]
    assert asker.get(f"/v1/providers/{hidden.account}").status_code == 404


def test_claims_beyond_belief_are_flagged_at_publishing_in_lists_and_in_results(
    server: Any, verbs: Any, sketches: dict[str, bytes], made_sketches: dict[str, Sketch]
) -> None:
    provider, asker = server.account("provider"), server.account("requester")
    base = drawn_anew(made_sketches["good"])
    values = base.levels[0].values.copy()
    values[:, 0] *= 2
    dataset = verbs.publish(provider, write_sketch(with_numbers(base, values))).json()
    assert "rows" in [flag["code"] for flag in dataset["flags"]]
    visitor = server.client()
    assert visitor.get(f"/v1/datasets/{dataset['id']}").json()["flags"] == dataset["flags"]
    listed = visitor.get("/v1/datasets", params={"provider": provider.account}).json()["items"]
    assert [one["flags"] for one in listed] == [dataset["flags"]]
    ranked = result(verbs, asker, sketches, providers=[provider.account])["ranked"]
    assert [one["flags"] for one in ranked] == [dataset["flags"]]
    trail = server.admin.get("/v1/audit", params={"limit": 50}).json()["items"]
    noted = next(entry["facts"] for entry in trail if entry["subject"] == dataset["id"])
    assert "rows" in noted["flags"]
    sound = verbs.publish(provider, sketches["useless"]).json()
    assert sound["flags"] == []


@pytest.mark.parametrize("name, epsilon, most", [("epsilon", "21", {}), ("delta", "1", {"max_delta": "1e-9"})])
def test_a_sketch_above_the_largest_budget_is_refused(
    fresh: Settings,
    start_in_process: Any,
    verbs: Any,
    make_sketch: Callable[..., Sketch],
    name: str,
    epsilon: str,
    most: dict[str, str],
) -> None:
    settings = Settings(**fresh.model_dump() | {"max_epsilon": "20"} | most)
    for server in start_in_process(settings):
        answer = verbs.publish(server.account("provider"), write_sketch(make_sketch("large", epsilon=epsilon)))
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "budget_too_large")
        assert f"the {name}" in answer.json()["error"]["message"] and "smaller budget" in answer.json()["error"]["hint"]
        if name == "epsilon":
            assert (
                verbs.publish(server.account("provider"), write_sketch(make_sketch("fine", epsilon="20"))).status_code == 201
            )
            asker = server.account("requester")
            train = write_sketch(make_sketch("asked", epsilon="200", target=True))
            assert verbs.ask(asker, train).status_code == 202, "what is asked with is listed nowhere"


def test_made_up_features_of_one_provider_do_not_stop_an_honest_gain(
    fresh: Settings, start_in_process: Any, verbs: Any, sketches: dict[str, bytes], made_sketches: dict[str, Sketch]
) -> None:
    """The attack from the door to the result: random numbers with many claimed rows, from one account."""
    rng = np.random.default_rng(5)
    for server in start_in_process(fresh):
        honest, fake, asker = server.account("provider"), server.account("provider"), server.account("requester")
        verbs.publish(honest, sketches["good"])
        for number in range(40):
            base = made_sketches["useless"]
            values = base.levels[0].values.copy()
            values[:, 1] = values[:, 0] * rng.uniform(-0.8, 0.8, len(values))
            facts = base.header.dataset.model_copy(update={"name": f"fake-{number}"})
            header = base.header.model_copy(update={"dataset": facts})
            made = with_numbers(Sketch(header, base.levels), values + rng.normal(0, 1e-6, values.shape))
            assert verbs.publish(fake, write_sketch(made)).status_code == 201
        found = result(verbs, asker, sketches, rank="usable")
        assert [step["provider"] for step in found["steps"]] == [honest.account]
        assert sum(entry["provider"] == fake.account for entry in found["ranked"][:2]) <= 1
