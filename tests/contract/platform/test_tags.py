"""Tags and licences are what a dataset is found by, on every storage: in lists, counts and pages."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from saibot.platform import Settings
from saibot.platform.storage.tables import datasets, terms
from saibot.sketch import Sketch, write_sketch

Made = Callable[..., Sketch]


def say(owner: Any, id: str, **said: Any) -> None:
    assert owner.put(f"/v1/datasets/{id}/about", json=said).status_code == 200


def listed(client: Any, **query: Any) -> list[str]:
    return sorted(one["name"] for one in client.get("/v1/datasets", params=query).json()["items"])


def test_a_dataset_is_found_by_its_tags_and_the_words_of_its_licence(server: Any, make_sketch: Made, verbs: Any) -> None:
    owner, mark = server.account("provider"), f"tag{id(make_sketch)}"
    first, other = (
        verbs.publish(owner, write_sketch(make_sketch(name, seed=seed))).json()["id"]
        for name, seed in (("wards", 71), ("beds", 72))
    )
    mine = {"provider": owner.account}
    say(owner, first, tags=[f"{mark} Health", "Wards"], licence=f"Open {mark}lic 4.0", contact="x@example.org")
    say(owner, other, tags=["Wards"])
    for client in (owner, server.client()):
        assert listed(client, **mine, q=f"{mark} heal") == ["wards"]
        assert listed(client, **mine, q=f"{mark}lic open") == ["wards"]
        assert listed(client, tag=f"{mark} hEALTH") == ["wards"], "whole, without case"
        assert listed(client, tag="Health") == [] and listed(client, **mine, tag="wards") == ["beds", "wards"]
    (shown,) = server.client().get("/v1/datasets", params={"tag": f"{mark} health"}).json()["items"]
    assert shown["tags"] == [f"{mark} Health", "Wards"]
    counts = server.client().get("/v1/facets", params=mine).json()["tags"]
    assert counts == [{"tag": "wards", "count": 2}, {"tag": f"{mark} health", "count": 1}]
    say(owner, first, tags=["Other"])
    assert listed(owner, **mine, q=mark) == [] and listed(owner, **mine, tag="other") == ["wards"]
    assert listed(owner, **mine, q="wards level") == ["beds", "wards"], (
        "the one by its tag, the other by its name, as before"
    )
    assert server.client().get("/v1/facets", params=mine | {"tag": "other"}).json()["total"] == 1


def test_further_keys_and_later_versions_have_the_tags_of_their_table(server: Any, make_sketch: Made, verbs: Any) -> None:
    owner = server.account("provider")
    first = verbs.publish(owner, write_sketch(make_sketch("homes", seed=73))).json()["id"]
    say(owner, first, tags=["housing"])
    by_another_key = verbs.publish(owner, write_sketch(make_sketch("homes", key=None, seed=74))).json()
    later = verbs.publish(owner, write_sketch(make_sketch("homes", seed=75))).json()
    assert by_another_key["tags"] == later["tags"] == ["housing"] and later["version"] == 2
    assert listed(owner, provider=owner.account, tag="housing") == ["homes", "homes"]
    say(owner, by_another_key["id"], tags=[])
    assert listed(owner, provider=owner.account, tag="housing") == []
    assert owner.get(f"/v1/datasets/{first}").json()["tags"] == []


def test_a_dataset_that_is_withdrawn_leaves_no_term(server: Any, make_sketch: Made, verbs: Any) -> None:
    owner = server.account("provider")
    published = verbs.publish(owner, write_sketch(make_sketch("gone", seed=76))).json()["id"]
    platform = server.app.state.platform
    with platform.database.read() as connection:
        number = connection.execute(select(datasets.c.number).where(datasets.c.id == published)).scalar_one()
    say(owner, published, tags=["fleeting"])
    assert owner.delete(f"/v1/datasets/{published}").status_code == 204
    with platform.database.read() as connection:
        assert not connection.execute(select(terms).where(terms.c.dataset == number)).all()
    again = verbs.publish(owner, write_sketch(make_sketch("gone", seed=76))).json()
    assert again["tags"] == [] and listed(owner, provider=owner.account, tag="fleeting") == []


@pytest.fixture(scope="module")
def pages(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from start_in_process(Settings(data=tmp_path_factory.mktemp("tags") / "data", workers=1, log_level="error"))


@pytest.fixture(scope="module")
def tagged(pages: Any, make_sketch: Made, verbs: Any) -> tuple[Any, str]:
    owner = pages.account("provider")
    id = verbs.publish(owner, write_sketch(make_sketch("wards", seed=77))).json()["id"]
    say(
        owner,
        id,
        tags=["R&D", *(f"t{n:02d}" for n in range(12))],
        licence="https://example.org/licence?x=1&y",
        contact="a@b.example",
    )
    return owner, id


def test_pages_link_tags_to_a_filter_with_the_rarer_ones_behind_more(pages: Any, tagged: tuple[Any, str]) -> None:
    client = pages.client()
    for path in ("/", f"/datasets/{tagged[1]}"):
        assert '<a class="tag" href="/?tag=R%26D">#R&amp;D</a>' in client.get(path).text
    front = client.get("/").text
    facet = front.partition("<h2>Tag</h2>")[2].partition("</section>")[0]
    assert "5 more" in facet and facet.count("/?tag=") == 13
    chosen = client.get("/", params={"tag": "R&D", "q": "wards"}).text
    assert "1 dataset" in chosen and '<input type="hidden" name="tag" value="R&amp;D">' in chosen
    assert "Tag: R&amp;D" in chosen and "Nothing fits" in client.get("/", params={"tag": "nothing"}).text


@pytest.mark.parametrize(
    ("text", "href"),
    [
        ("https://example.org/licence?x=1&y", "https://example.org/licence?x=1&y"),
        ("http://localhost:80", "http://localhost:80"),
        ("data.office+x@b-c.example", "mailto:data.office+x@b-c.example"),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("https://example.org/ is ours", None),
        ('https://example.org/"onclick="x', None),
        ("https://user@evil.example", None),
        ("a@b.example?subject=x", None),
        ("a@b.example%0abcc:c@d.example", None),
        ("CC BY 4.0", None),
    ],
)
def test_licence_and_contact_are_links_where_that_is_safe(
    pages: Any, tagged: tuple[Any, str], text: str, href: str | None
) -> None:
    owner, id = tagged
    said = owner.get(f"/v1/datasets/{id}/about").json()
    say(owner, id, **(said | {"licence": text, "contact": text}))
    page = pages.client().get(f"/datasets/{id}").text
    cells = list(re.findall(r'<dt>Licence</dt><dd class="words">(.*?)<small>contact: (.*?)</small></dd>', page)[0])
    assert len(cells) == 2
    for cell in cells:
        links = [html.unescape(link) for link in re.findall(r'<a href="([^"]*)"', cell)]
        assert links == ([] if href is None else [href])
        assert html.unescape(re.sub("<[^>]*>", "", cell)) == text
