"""The page's ledger: charged before noise is drawn, read again at the next visit, capped; the same is bought once."""

from __future__ import annotations

import json

import pytest

from saibot.privacy import Budget
from saibot.privacy.events import GaussianEvent, Spent
from tests.support.page_script import run_script

# visits: [{ typed..., again }], each to the end or, with `stop`, to the charge; what is said of each, and the ledger's text.
VISITS = """
  const { cardOf } = await page("card"), { listedDomain } = await page("key_domain");
  const l = await page("ledger"), r = await page("request");
  const { Refused } = await page("refused"), said = [];
  const file = new File(["y,g\\n" + "5,A\\n7,B\\n".repeat(40)], "t.csv");
  let text = data.text ?? l.ledgerText(l.newLedger());
  for (const visit of data.visits) {
    try {
      const ledger = l.readLedger(text);
      const card = cardOf({
        name: "mine", individual: "one row", neighbours: "replace-one", epsilon: "1", delta: "1e-6", test: "0.25",
        features: [{ column: "y", kind: "bounds", lower: "0", upper: "10" }],
        key: { column: "g", domain: listedDomain("g", 1, ["A", "B"]), source: { kind: "list" } }, ...visit,
      });
      const bought = visit.again ? null : l.boughtBefore(ledger, card);
      if (bought) { said.push({ bought: bought.parts.map(({ receipt }) => receipt) }); continue; }
      const options = { again: visit.again ?? false, now: "2026-03-04T05:06:07Z", progress: async () => {} };
      const ready = await r.prepared(file, ["y", "g"], card, ledger, options);
      const charged = l.ledgerText(ready.ledger);
      if (visit.old) { await r.drawn(ready, l.readLedger(text), async () => {}); }
      text = charged;
      if (visit.stop) { said.push({ stopped: true }); continue; }
      const done = await r.drawn(ready, l.readLedger(charged), async () => {});
      text = l.ledgerText(done.ledger);
      said.push({ digests: done.files.map(({ digest }) => digest), header: JSON.parse(done.files[0].text) });
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      said.push({ refused: problem.message });
    }
  }
  return { said, text };"""


def visits(*each: dict, text: str | None = None) -> tuple[list[dict], str]:
    found = run_script(VISITS, {"visits": each, "text": text})
    return found["said"], found["text"]


def test_the_same_request_is_bought_once_and_handed_out_again_at_the_next_visit():
    (first,), text = visits({})
    (again, new), later = visits({}, {"again": True, "capEpsilon": "1"}, text=text)
    assert [receipt["digest"] for receipt in again["bought"]] == first["digests"]
    assert all(receipt["content"] for receipt in again["bought"])
    assert "about ε = 0 of the cap of 1 is left" in new["refused"]
    assert later == text


def test_a_cap_holds_over_visits_and_mu_squared_adds():
    cap = {"capEpsilon": "2", "capDelta": "1e-6", "again": True}
    said, text = visits(*[cap] * 5)
    taken = [one for one in said if "digests" in one]
    # By the product's own rule: as many requests as fit (2, 1e-6), which is more than two because mu^2 adds, not epsilon.
    (event,) = {
        (part["event"]["mu"], part["event"]["touched"]) for one in json.loads(text)["requests"] for part in one["parts"]
    }
    fits = [n for n in range(1, 6) if Spent.of([GaussianEvent(*event)] * n).within(Budget("2", "1e-6"))]
    assert len(taken) == max(fits) == 3
    assert [one["header"]["edition"] for one in taken] == [1, 2, 3]
    assert all("is left" in one["refused"] for one in said[3:])
    totals = [one["header"]["spent"] for one in taken]
    assert totals[0] == {"epsilon": "1", "delta": "1e-6"}
    for n, total in enumerate(totals, start=1):
        assert Spent.of([GaussianEvent(*event)] * n).within(Budget(total["epsilon"], total["delta"]))
    assert len({one["header"]["account"] for one in taken}) == 1


def test_both_parts_of_a_split_have_the_whole_budget():
    (said,), text = visits({})
    (request,) = json.loads(text)["requests"]
    assert [part["part"] for part in request["parts"]] == ["train", "test"] and request["split"]
    assert said["header"]["budget"] == {"epsilon": "1", "delta": "1e-6"}
    _, text = visits({"test": "0"})
    (request,) = json.loads(text)["requests"]
    assert [part["part"] for part in request["parts"]] == ["train"] and request["split"] is None


def test_a_charge_without_a_release_stays_spent():
    (stopped, after), text = visits({"stop": True}, {})
    assert stopped == {"stopped": True}
    assert "is left" in after["refused"]
    assert json.loads(text)["requests"][0]["parts"][0]["receipt"] is None


def test_no_noise_is_drawn_with_a_ledger_that_lacks_the_charge():
    (said,), _ = visits({"old": True})
    assert said == {"refused": "this ledger does not hold the charge of this request."}


@pytest.mark.parametrize(
    "other, why",
    [
        ({"neighbours": "add-remove", "maxRows": "100"}, "kept under replace-one"),
        ({"id": "g", "maxRows": "100", "rowsPerIndividual": "1"}, "protects rows"),
        ({"capEpsilon": "9"}, "has the cap ε = 2"),
        ({"capEpsilon": "2", "capDelta": "1e-5"}, "has the cap ε = 2"),
    ],
)
def test_an_account_keeps_its_terms(other: dict, why: str):
    _, text = visits({"capEpsilon": "2"})
    (said,), after = visits({"capEpsilon": "2"} | other | {"again": True}, text=text)
    assert why in said["refused"]
    assert after == text


def test_other_people_have_a_cap_of_their_own():
    said, _ = visits({}, {"name": "others"})
    assert all("digests" in one for one in said)
    assert said[0]["header"]["account"] != said[1]["header"]["account"]


@pytest.mark.parametrize("part", ["mu", "requests", "secret"])
def test_a_ledger_that_was_changed_by_hand_is_refused(part: str):
    _, text = visits({})
    document = json.loads(text)
    if part == "mu":
        document["requests"][0]["parts"][0]["event"]["mu"] = 1e-9
    elif part == "requests":
        document["requests"] = []
    else:
        document["secret"] = "0" * 64
    (said,), _ = visits({}, text=json.dumps(document))
    assert said == {"refused": "the ledger is damaged, or was changed by hand."}
    (said,), _ = visits({}, text="{}")
    assert said == {"refused": "this is not a ledger of this page."}


def test_two_ledgers_give_an_account_two_names():
    (one,), _ = visits({})
    (other,), _ = visits({})
    assert one["header"]["account"] != other["header"]["account"]


def test_a_table_may_be_called_like_anything_that_objects_have():
    (said,), text = visits({"name": "constructor"})
    assert said["digests"] and list(json.loads(text)["accounts"]) == ["constructor"]
    (again,), _ = visits({"name": "toString"}, text=text)
    assert again["digests"]
