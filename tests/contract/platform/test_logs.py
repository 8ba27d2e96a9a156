"""What the platform writes about itself never holds a token, a cell, a key or a statistic."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pytest

from saibot.platform import Settings
from saibot.platform.logs import Log

SECRET = "Mrs-Secret-Patient-4711"


def test_secrets_and_values_are_in_no_log(
    fresh: Settings,
    start_in_process: Any,
    sketches: dict[str, bytes],
    verbs: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
) -> None:
    written = io.StringIO()
    monkeypatch.setattr("saibot.platform.service.Log", lambda level: Log("debug", written))
    tokens, answers = [], []
    for server in start_in_process(fresh):
        provider, requester = server.account("provider"), server.account("requester")
        tokens = [client.headers["Authorization"].removeprefix("Bearer ") for client in (provider, requester, server.admin)]
        dataset = verbs.publish(provider, sketches["good"]).json()
        table = f"name,level\n{SECRET},4242.125\n".encode()
        answers += [verbs.publish(provider, table), verbs.publish(provider, sketches["good"][:-9] + SECRET.encode())]
        answers.append(provider.put("/v1/domains/bad/1", content=f"k\n{SECRET}\n{SECRET}\n".encode()))
        answers.append(server.client(f"saibot_{SECRET}").get("/v1/me"))
        answers.append(server.client().get(f"/{SECRET}?token={tokens[0]}&q={SECRET}"))
        server.client().get("/v1/datasets", params={"q": SECRET, "token": tokens[0]})
        answers.append(verbs.ask(requester, sketches["train"], target=SECRET))
        answers.append(requester.post("/v1/searches", files={"train": table}, data={"options": SECRET}))
        id = verbs.ask(requester, sketches["train"]).json()["id"]
        verbs.wait(requester, id)
        result = requester.get(f"/v1/searches/{id}/result").json()
        monkeypatch.setattr(server.app.state.platform.catalog, "row", broken)
        failed = provider.get(f"/v1/datasets/{dataset['id']}")
        assert failed.status_code == 500 and failed.json()["error"]["code"] == "internal"
        answers.append(failed)
    text = written.getvalue() + "".join(capfd.readouterr())
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert {line["event"] for line in lines} >= {"request", "search", "request failed"}
    assert any(line.get("account") == provider.account for line in lines)  # there is something to grep
    for secret in (*tokens, SECRET, "4242.125"):
        assert secret not in text
    for number in (result["base"]["train_r2"], *numbers(sketches["train"])):
        assert repr(number) not in text and f"{number:.6f}" not in text
    for answer in answers:
        assert SECRET not in answer.text or answer.status_code < 400, answer.text


def broken(*_: Any) -> None:
    raise RuntimeError(f"could not handle {SECRET}")


def numbers(sketch: bytes) -> list[float]:
    """Some of the floats in the file."""
    import pyarrow as pa

    with pa.ipc.open_file(sketch) as reader:
        column = reader.get_batch(0).column(2).to_pylist()
    assert struct.pack("<d", column[0]) in sketch
    return column[:20]


def test_the_trail_and_the_metrics_hold_no_statistics(server: Any, sketches: dict[str, bytes], verbs: Any) -> None:
    requester = server.account("requester")
    verbs.wait(requester, verbs.ask(requester, sketches["train"]).json()["id"])
    trail = server.admin.get("/v1/audit", params={"limit": 200}).text
    metrics = server.client().get("/metrics").text
    assert "saibot_searches_total" in metrics and "saibot_request_seconds" in metrics
    for number in numbers(sketches["train"]):
        assert repr(number) not in trail and repr(number) not in metrics
    assert requester.account not in metrics
