"""Sign-ins, refusals and downloads are in the trail, on every storage; refused tokens' texts are nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from saibot.platform import Settings, create_app
from saibot.platform.audit_log import Trail
from saibot.platform.storage.database import Database
from tests.support.serving import listening

WRONG = "saibot_" + "x" * 43


def counted(server: Any, **filters: Any) -> Counter[tuple[str, str, str]]:
    server.app.state.platform.trail.flush()
    found: Counter[tuple[str, str, str]] = Counter()
    asked: dict[str, Any] = {"limit": 200} | filters
    while True:  # all pages: a sum stands where its hour began, and other tests fill the trail
        page = server.admin.get("/v1/audit", params=asked).json()
        for entry in page["items"]:
            if entry["hour"] is not None:  # tests may run over an hour's end
                found[entry["account"], entry["action"], entry["subject"]] += entry["times"]
        if page["next"] is None:
            return found
        asked["cursor"] = page["next"]


def test_downloads_are_counted_by_account_and_unchanged_files_are_none(
    server: Any, sketches: dict[str, bytes], verbs: Any
) -> None:
    owner = server.account("provider")
    dataset = verbs.publish(owner, sketches["good"]).json()
    places = (f"/v1/datasets/{dataset['id']}/sketch", f"/v1/sketches/{dataset['digest']}")
    before = counted(server)
    for place in places:
        assert owner.get(place).status_code == 200
        assert owner.get(place, headers={"If-None-Match": f'"{dataset["digest"]}"'}).status_code == 304
        for span in ("bytes=0-9", "bytes=1-", "bytes=-1000000"):  # almost all, or all, of it in another way
            assert owner.get(place, headers={"Range": span}).status_code == 206
        stale = {"Range": "bytes=1-", "If-Range": '"what was there before"'}
        assert owner.get(place, headers=stale).status_code == 200
        assert server.client().get(place).status_code == 200
    after = counted(server)
    assert after[owner.account, "download", "sketch"] == 2 * 5
    assert after["-", "download", "sketch"] - before["-", "download", "sketch"] == 2
    assert counted(server, account=owner.account) == {(owner.account, "download", "sketch"): 2 * 5}


def test_refusals_are_counted_and_no_tokens_text_is_kept(server: Any) -> None:
    asker, nobody, wrong = server.account("requester"), server.client(), server.client(WRONG)
    before = counted(server)
    for _ in range(3):
        assert wrong.get("/v1/datasets").status_code == 401
    assert nobody.get("/v1/me").status_code == 401, "nobody was refused: they brought no token"
    assert asker.get("/v1/audit").status_code == 403
    assert nobody.get("/v1/nowhere", headers={"Authorization": f"Bearer {WRONG}"}).status_code == 404
    new = counted(server) - before
    assert new == {("-", "refuse token", "datasets"): 3, (asker.account, "refused", "audit"): 1}
    assert WRONG not in server.admin.get("/v1/audit", params={"limit": 200}).text


def test_the_trail_is_asked_for_by_action_account_and_day(server: Any) -> None:
    account = server.account("provider").account
    every = {"action": "create token", "limit": 200}
    made = server.admin.get("/v1/audit", params=every).json()["items"]
    assert made and {entry["action"] for entry in made} == {"create token"} and made[0]["times"] == 1
    assert account in str(made[0]["facts"])
    assert server.admin.get("/v1/audit", params={"since": "2999-01-01"}).json()["items"] == []
    for bad in ("yesterday", "2026-1-1", "2026-01-01' OR 1"):
        assert server.admin.get("/v1/audit", params={"since": bad}).status_code == 422


def test_two_servers_count_into_one_row(request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("postgres")()
    databases = [Database(address) for _ in range(2)]
    from saibot.platform.storage.migrate import migrate

    migrate(databases[0])
    trails = [Trail(database) for database in databases]
    for _ in range(3):
        for one in trails:
            one.count("clinic", "download", "sketch")
            one.flush()
    from tests.support.serving import ADMIN

    items = trails[0].list(ADMIN, None, 10).items
    assert sum(entry["times"] for entry in items) == 6 and len(items) in (1, 2)
    for database in databases:
        database.close()


@pytest.fixture
def with_pages(fresh: Settings) -> Any:
    app = create_app(fresh.model_copy(update={"pages": True}))
    with listening(app) as address:
        yield app, lambda: httpx.Client(base_url=address, timeout=60)


def test_sign_ins_and_refused_ones_are_in_the_trail_and_on_the_admins_page(
    with_pages: tuple[Any, Callable[[], Any]],
) -> None:
    from tests.support.serving import signed_in

    app, client = with_pages
    platform = app.state.platform
    token = (platform.settings.data / "admin-token").read_text().strip()
    with client() as stranger:
        code = stranger.get("/sign-in").text.partition('name="csrf" value="')[2].partition('"')[0]
        for _ in range(2):
            refused = stranger.post("/sign-in", data={"csrf": code, "token": WRONG, "next": "/"})
            assert refused.status_code == 401
    with client() as admin:
        signed_in(admin, token)
        platform.trail.flush()
        page = admin.get("/admin").text
    assert "sign in" in page and "refuse sign-in" in page and "2 times from" in page and WRONG not in page
