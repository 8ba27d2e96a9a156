"""A requester asks for more in the browser, the provider answers there; each sees its own side."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import httpx

from saibot.client.in_process import running
from saibot.platform import Settings
from saibot.platform.api.app import app_of
from saibot.platform.service import open_platform
from tests.support.serving import ADMIN

FIELDS = {"why": "To plan beds.\r\nSoon.", "columns": "age, , beds", "keys": "", "epsilon": "2", "delta": "1e-6"}


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", text)).split())


def test_an_enquiry_from_its_form_to_the_answer(tmp_path: Path, named: Callable[..., bytes]) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    roles = {"clinic": "provider", "ana": "requester", "ben": "requester"}
    tokens = {name: platform.accounts.create(ADMIN, name, [role]).token for name, role in roles.items()}
    clinic = platform.accounts.caller_of(tokens["clinic"])
    public = platform.accept(clinic, named("stays"))[0].id
    fuller = platform.accept(clinic, named("fuller"), visibility="granted")[0].id
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")

        def sign_in(name: str) -> None:
            client.cookies.clear()
            client.cookies.set("saibot_session", platform.accounts.open_session(tokens[name]))

        def send(page: str, to: str, **fields: str) -> httpx.Response:
            code = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get(page).text)
            assert code is not None
            return client.post(to, data={"csrf": code[1], **fields})

        form = f"/datasets/{public}/enquire"
        assert "Enquire" not in words(client.get(f"/datasets/{public}").text)
        assert client.get(form).status_code == 303, "signed out: to the sign-in page"
        sign_in("ana")
        assert "Enquire" in words(client.get(f"/datasets/{public}").text)
        assert "may tell what a search on your own machine has found" in words(client.get(form).text)
        unsure = send(form, form, **FIELDS)
        assert unsure.status_code == 422 and "not ticked" in words(unsure.text)
        assert platform.enquiries.list(platform.accounts.caller_of(tokens["ana"])).items == []
        sent = send(form, form, **FIELDS, understood="yes").headers["location"]
        place = sent.removesuffix("?done=enquired")
        assert "You ask clinic for more" in (shown := words(client.get(sent).text)) and "age, beds" in shown
        assert "ε 2, δ 10⁻⁶" in shown and "Grant a dataset" not in shown

        sign_in("ben")
        assert client.get(place).status_code == 404 and "stays" not in words(client.get("/enquiries").text)
        sign_in("clinic")
        assert "1 enquiry waits for your answer" in words(client.get("/budget").text)
        assert "waits for you from ana" in words(client.get("/enquiries").text)
        page = client.get(place).text
        assert page.index(f'value="{fuller}"') < page.index(f'value="{public}"'), "what is there to be granted comes first"
        assert send(place, f"{place}/grant", dataset=fuller, words="For a year.").status_code == 303
        assert "waits for your answer" not in words(client.get("/budget").text)
        assert "Granted to ana since" in words(client.get(f"/datasets/{fuller}").text)

        sign_in("ana")
        shown = words(client.get(place).text)
        assert "Granted By clinic" in shown and "For a year." in shown and "not there any more" not in shown
        assert "granted to you" in words(client.get(f"/datasets/{fuller}").text)
        sign_in("clinic")
        taken = send(f"/datasets/{fuller}", f"/datasets/{fuller}/grants/take", account="ana")
        assert taken.headers["location"] == f"/datasets/{fuller}?done=grant-taken"
        sign_in("ana")
        assert client.get(f"/datasets/{fuller}").status_code == 404
        assert "not there any more, or not for you" in words(client.get(place).text)
        second = send(form, form, **FIELDS | {"epsilon": ""}, understood="yes").headers["location"].partition("?")[0]
        sign_in("clinic")
        assert send(second, f"{second}/refuse", reason="Too <few> rows.").status_code == 303
        sign_in("ana")
        assert "Refused By clinic" in (shown := words(client.get(second).text)) and "Too <few> rows." in shown
        assert send(second, f"{second}/remove").headers["location"] == "/enquiries?done=taken-back"
        assert client.get(second).status_code == 404
