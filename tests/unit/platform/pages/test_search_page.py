"""The page of a search that is under way: whoever asked stops it, or an admin, and nobody else."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx

from saibot.client.in_process import AppTransport
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.api.app import app_of
from saibot.platform.service import open_platform
from saibot.wire import Question
from tests.support.serving import ADMIN, signed_in

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"


def test_an_admin_stops_somebodys_search_on_its_page(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    content = (GOLDEN / "lookup-levels.saibot").read_bytes()
    question = Question(target=_feature(content))
    found = platform.searches.submit(Caller("curious", frozenset({"requester"}), "t"), content, None, question)
    other = platform.accounts.create(ADMIN, "other", ["requester"]).token
    platform.start = lambda: None  # type: ignore[method-assign]  # what is asked for stays in the queue
    transport = AppTransport(app_of(platform))
    transport.start()
    client = httpx.Client(transport=transport, base_url="http://platform.example")
    address = f"/searches/{found.id}"
    client.cookies.set("saibot_session", signed_in(client, other))
    assert client.get(address).status_code == 404
    assert platform.first_admin_token is not None
    client.cookies.clear()
    client.cookies.set("saibot_session", signed_in(client, platform.first_admin_token))
    page = client.get(address).text
    button = re.search(rf'<form method="post" action="{address}/cancel".*?</form>', page, flags=re.DOTALL)
    assert button is not None and "Stop this search of curious" in html.unescape(button[0])
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', button[0])
    assert code is not None
    answer = client.post(f"{address}/cancel", data={"csrf": code[1]})
    assert answer.status_code == 303 and answer.headers["location"].startswith(address)
    assert platform.searches.show(ADMIN, found.id).status == "cancelled"
    assert "Cancelled" in client.get(address).text and "/cancel" not in client.get(address).text
    assert platform.trail.list(ADMIN, None, 1).items[0]["action"] == "cancel search"
    client.close()
    transport.stop()


def _feature(content: bytes) -> str:
    from saibot.sketch import read_sketch

    return str(read_sketch(content).header.features[0].name)
