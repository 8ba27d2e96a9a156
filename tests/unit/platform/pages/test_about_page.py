"""A provider describes a dataset in the browser; everybody who sees the dataset reads it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx

from saibot.client.in_process import running
from saibot.platform import Settings, uses
from saibot.platform.api.app import app_of
from saibot.platform.service import open_platform
from tests.support.serving import ADMIN

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", text)).split())


def test_the_page_shows_what_is_said_and_has_a_form_for_its_provider_alone(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    own, other = (platform.accounts.create(ADMIN, name, ["provider"]).token for name in ("clinic", "rival"))
    dataset = platform.accept(platform.accounts.caller_of(own), (GOLDEN / "lookup-levels.saibot").read_bytes())[0]
    id = dataset.id
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")
        assert client.get(f"/datasets/{id}/about").status_code == 303, "signed out: to the sign-in page"
        client.cookies.clear()
        client.cookies.set("saibot_session", platform.accounts.open_session(own))
        assert "Licence not stated no contact stated" in words(client.get(f"/datasets/{id}").text)
        code = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get(f"/datasets/{id}/about").text)
        assert code is not None
        fields = {"csrf": code[1], "licence": "CC0", "contact": "me", "tags": "a, b,, a", "more": "# Top <script>"}
        assert client.post(f"/datasets/{id}/about", data=fields).headers["location"] == f"/datasets/{id}?done=described"
        page = client.get(f"/datasets/{id}")
        assert "Licence CC0 contact: me" in words(page.text), "among the facts"
        assert "Used in no search yet" in words(page.text)
        with platform.database.write() as connection:
            uses.count(connection, "s1", [dataset.digest])
        assert "Used in 1 search, 1 in the last 7 days" in words(client.get(f"/datasets/{id}").text)
        assert '<a class="tag" href="/?tag=a">#a</a><a class="tag" href="/?tag=b">#b</a>' in page.text
        assert "<h3>Top &lt;script&gt;</h3>" in page.text
        long = client.post(f"/datasets/{id}/about", data=fields | {"licence": "x" * 300})
        assert long.status_code in (400, 422) and "too long" in words(long.text)
        client.cookies.clear()
        client.cookies.set("saibot_session", platform.accounts.open_session(other))
        assert client.get(f"/datasets/{id}/about").status_code == 403
        assert "Describe" not in words(client.get(f"/datasets/{id}").text)
