"""The page of a dataset says by which keys its table is there. It and its provider's pages say what its account has cost."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx
import pytest

from saibot.client.in_process import running
from saibot.platform import Settings, shown_sketches
from saibot.platform.accounts import Caller
from saibot.platform.api.app import app_of
from saibot.platform.pages.views import provider as provider_page
from saibot.platform.service import open_platform
from saibot.sketch import write_sketch
from tests.support.fabricating import honest_sketch
from tests.support.serving import ADMIN, signed_in

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"


def test_a_page_tells_the_other_keys_and_the_total_where_the_sketch_says_so(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")

        def page(name: str) -> str:
            id = platform.accept(provider, (GOLDEN / f"{name}.saibot").read_bytes())[0].id
            return " ".join(html.unescape(re.sub("<[^>]+>", " ", client.get(f"/datasets/{id}").text)).split())

        old = page("semiring-composite")
        assert "Budget ε 1" in old and "of this account" not in old and "also by" not in old
        first = page("v2-lookup-levels")
        assert "also by port_weekday" in first
        assert "sketches of this account together" not in first, "it is the only one so far"
        second = page("v2-semiring-composite")
        assert "also by day" in second and "sketches of this account together: ε 1.46, δ 10⁻⁶" in second


def test_the_pages_of_a_provider_have_one_number_for_what_a_table_has_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    token = platform.accounts.create(ADMIN, "clinic", ["provider"]).token
    for name in ("v2-lookup-levels", "v2-semiring-composite", "union-laplace"):
        platform.accept(platform.accounts.caller_of(token), (GOLDEN / f"{name}.saibot").read_bytes())
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")
        client.cookies.set("saibot_session", signed_in(client, token))

        def page(address: str) -> str:
            return " ".join(html.unescape(re.sub("<[^>]+>", " ", client.get(address).text)).split())

        own = page("/budget")
        assert "ε 2.46 in all by your ledger, and releases that it does not name, at δ 10⁻⁶" in own
        assert "The budgets below come to ε 3, δ 2×10⁻⁶ if simply added" in own
        public = page("/providers/clinic")
        assert "ε 2.46 in all by its provider's ledger" in public and "Spent in total ε 2.46" in public
        monkeypatch.setattr(provider_page, "MOST", 1)
        public = page("/providers/clinic")
        assert "Spent on those listed" in public and "Spent in total" not in public
        assert "3 sketches published here. The first 1 are listed" in public and "Sketches 3" in public


def test_asking_from_a_dataset_says_what_for_and_what_it_takes(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    token = platform.accounts.create(ADMIN, "ana", ["requester"]).token
    keyed, plain = (
        platform.accept(provider, (GOLDEN / f"{name}.saibot").read_bytes(), visibility=seen)[0].id
        for name, seen in (("v2-lookup-levels", "public"), ("union-laplace", "restricted"))
    )
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")

        def page(address: str) -> str:
            return " ".join(html.unescape(re.sub("<[^>]+>", " ", client.get(address).text)).split())

        assert f'href="/ask?dataset={keyed}"' in client.get(f"/datasets/{keyed}").text
        assert f"/sign-in?next=/ask%3Fdataset%3D{keyed}" in client.get(f"/ask?dataset={keyed}").text
        assert "For:" not in page(f"/ask?dataset={plain}"), "nobody is told of what is not for them"
        assert "For:" not in page("/ask") and "For:" not in page("/ask?dataset=nowhere")
        client.cookies.set("saibot_session", signed_in(client, token))
        told = page(f"/ask?dataset={keyed}")
        assert "For: Flüge, erfunden by day Your table needs a column with days" in told
        assert "No sketch of your table yet? Make one first" in told and "--part train --key day" in told
        assert "its rows are added to yours" in page(f"/ask?dataset={plain}")
        code = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/ask").text)
        fields = {"csrf": code[1] if code else "", "dataset": keyed, "target": "delay"}
        refused = client.post("/ask", data=fields, files={"train": ("mine.csv", b"a,b")})
        assert "The file mine.csv is not a sketch" in refused.text and f'name="dataset" value="{keyed}"' in refused.text


def test_a_table_of_very_many_features_scrolls_and_can_be_narrowed(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")
        for count in (3, 31):
            sketch = honest_sketch(f"with-{count}", features=tuple(f"f{number:02d}" for number in range(count)))
            page = client.get(f"/datasets/{platform.accept(provider, write_sketch(sketch))[0].id}").text
            assert ('data-filters="features-table"' in page) is (count > 30)
            assert ('class="table tall" tabindex="0" role="region" aria-label="Table of features"' in page) is (count > 30)


def test_values_of_a_large_sketch_are_shown_one_feature_at_a_time_or_the_page_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 0)
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")
        dataset = platform.accept(provider, (GOLDEN / "v2-lookup-levels.saibot").read_bytes())[0]
        first, second = (feature.name for feature in dataset.features[:2])

        def page(query: str = "") -> str:
            return html.unescape(client.get(f"/datasets/{dataset.id}{query}").text)

        assert f'data-feature="{first}"' in page() and f'data-pick="{second}"' in page()
        other = page(f"?feature={second}")
        assert f'data-feature="{second}"' in other and "All keys, this feature:" in other
        assert "Keys with rows" in other and "there is no profile" not in other
        lines = client.get(f"/datasets/{dataset.id}/values.csv?feature={second}").text.splitlines()
        assert lines[0].removeprefix("\ufeff").split(",")[1:] == ["rows", second, f"{second} error"]
        monkeypatch.setattr(shown_sketches, "MOST_KEYS", 3)
        platform.key_values._remembered.clear()
        refused = page()
        assert "This sketch has more than 3 keys" in refused and "Download the sketch" in refused
        assert "<code>saibot inspect</code>" in refused and "Values by key" in refused
        answer = client.get(f"/datasets/{dataset.id}/rows")
        assert answer.status_code == 422 and "more than 3 keys" in answer.text


def test_coarser_levels_and_parts_of_a_key_are_picked_by_links_that_keep_what_was_asked(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")

        def links(name: str) -> tuple[str, str, dict[str, str]]:
            id = platform.accept(provider, (GOLDEN / f"{name}.saibot").read_bytes())[0].id
            text = html.unescape(client.get(f"/datasets/{id}").text)
            found = re.findall(r'<a href="([^"]+)" data-(?:level|within)="([^"]*)"', text)
            return id, text, {name: address.partition("#")[0] for address, name in found}

        def keys(address: str) -> list[str]:
            text = html.unescape(client.get(address).text)
            (body,) = re.findall(r'aria-label="Table of values by key".*?<tbody>(.*?)</tbody>', text, flags=re.DOTALL)
            return re.findall(r'<th scope="row"[^>]*>(.*?)</th>', body)

        id, text, levels = links("v2-lookup-levels")
        fine, (_, level) = keys(f"/datasets/{id}"), levels
        coarse = keys(levels[level])
        assert f"by {level}" in text and len(coarse) < len(fine) and not set(coarse) & set(fine)
        lines = client.get(f"/datasets/{id}/values.csv?level={level}").text.splitlines()
        assert len(lines) == 1 + len(coarse) and lines[0].removeprefix("\ufeff").startswith(level)

        id, text, parts = links("v2-semiring-composite")
        assert "" in parts and len(parts) > 2
        one = list(parts)[1]
        some = keys(parts[one])
        assert " × " in keys(f"/datasets/{id}")[0] and len(some) > 0 and " × " not in some[0]
        rows = client.get(parts[one].replace("?", "/rows?")).json()
        assert [row[0] for row in rows["rows"]] == some
        assert keys(f"/datasets/{id}?within=nothing-of-the-kind") == keys(f"/datasets/{id}")
