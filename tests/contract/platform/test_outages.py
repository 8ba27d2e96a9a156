"""Storage that is away or full for a while: callers are told in the one error shape, and it goes on by itself."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from saibot.errors import InvalidInput, SaibotError
from saibot.platform import Settings, create_app
from saibot.platform.backup import backup
from saibot.platform.jobs.process import WorkerProcess
from saibot.platform.storage.unavailable import StorageAway

pytestmark = pytest.mark.fault
BROWSER = {"Accept": "text/html"}


@contextmanager
def away(address: str) -> Iterator[None]:
    """Postgres cuts every connection to this database and takes no new one."""
    url = sqlalchemy.make_url(address.replace("postgresql://", "postgresql+psycopg://"))
    engine = sqlalchemy.create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        allow = f"ALTER DATABASE {url.database} ALLOW_CONNECTIONS"
        connection.execute(sqlalchemy.text(f"{allow} false"))
        cut = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = :name"  # and waits for it
        connection.execute(sqlalchemy.text(cut), {"name": url.database})
        try:
            yield
        finally:
            connection.execute(sqlalchemy.text(f"{allow} true"))
    engine.dispose()


@pytest.fixture
def on_postgres(postgres: Callable[[], str], fresh: Settings) -> Settings:
    return fresh.model_copy(update={"database": postgres(), "pages": True})


def test_while_the_database_is_away_everything_answers_503_and_recovers_by_itself(
    on_postgres: Settings, start_over_http: Any, sketches: dict[str, bytes], verbs: Any
) -> None:
    address = on_postgres.database
    assert address is not None
    for server in start_over_http(on_postgres):
        provider, nobody = server.account("provider"), server.client()
        assert verbs.publish(provider, sketches["good"]).status_code == 201
        with away(address):
            answers = [nobody.get("/healthz"), nobody.get("/v1/datasets"), verbs.publish(provider, sketches["useless"])]
            answers.append(server.client("saibot_unknown").get("/v1/me"))
            for answer in answers:
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
            for cookie in ({}, {"Cookie": "saibot_session=saibot_unknown"}):
                page = nobody.get("/", headers=BROWSER | cookie)
                assert page.status_code == 503 and "Back in a moment" in page.text
            numbers = nobody.get("/metrics")
            assert numbers.status_code == 200 and "saibot_datasets NaN" in numbers.text
        assert nobody.get("/healthz").status_code == 200
        assert nobody.get("/", headers=BROWSER).status_code == 200
        assert verbs.publish(provider, sketches["useless"]).status_code == 201
        assert "saibot_datasets 2.0" in nobody.get("/metrics").text


def test_a_search_that_ends_while_the_database_is_away_is_told_of_when_it_is_back(
    on_postgres: Settings,
    start_over_http: Any,
    sketches: dict[str, bytes],
    verbs: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = on_postgres.database
    assert address is not None
    monkeypatch.setattr("saibot.platform.jobs.runner.LOOK_SECONDS", 0.05)
    plain, outage, gone = WorkerProcess.run, away(address), threading.Event()

    def run(self: WorkerProcess, *arguments: Any, **named: Any) -> Any:
        outcome = plain(self, *arguments, **named)
        if "question" in arguments[0]:  # what was published is packed and learned from in such processes, too
            outage.__enter__()
            gone.set()
        return outcome

    for server in start_over_http(on_postgres):
        verbs.publish(server.account("provider"), sketches["good"])
        requester = server.account("requester")
        monkeypatch.setattr(WorkerProcess, "run", run)
        id = verbs.ask(requester, sketches["train"], sketches["test"]).json()["id"]
        assert gone.wait(120)
        assert requester.get(f"/v1/searches/{id}").status_code == 503
        monkeypatch.setattr(WorkerProcess, "run", plain)
        outage.__exit__(None, None, None)
        assert verbs.wait(requester, id)["status"] == "done"
        assert requester.get(f"/v1/searches/{id}/result").status_code == 200


def test_a_platform_stops_cleanly_while_its_database_is_away(
    on_postgres: Settings, start_over_http: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    address = on_postgres.database
    assert address is not None
    outage = away(address)
    for server in start_over_http(on_postgres):
        server.account("provider").get("/v1/me")
        outage.__enter__()
    outage.__exit__(None, None, None)
    assert "Traceback" not in capfd.readouterr().err
    create_app(on_postgres).state.platform.close()  # it has let go of its folder


def test_two_platforms_do_not_share_one_postgres(on_postgres: Settings, tmp_path: Path) -> None:
    other = on_postgres.model_copy(update={"data": tmp_path / "other", "files": str(on_postgres.data / "sketches")})
    app = create_app(on_postgres)
    with pytest.raises(InvalidInput, match="using this database"):
        create_app(other)
    app.state.platform.close()
    create_app(other).state.platform.close()


def test_a_full_disk_refuses_what_is_new_and_keeps_nothing_of_it(
    fresh: Settings, start_over_http: Any, sketches: dict[str, bytes], verbs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for server in start_over_http(fresh):
        provider, requester = server.account("provider"), server.account("requester")
        with monkeypatch.context() as patch:
            patch.setattr("saibot.platform.storage.files.os.replace", full)
            for answer in (verbs.publish(provider, sketches["good"]), verbs.ask(requester, sketches["train"])):
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
            assert server.client().get("/v1/datasets").json()["items"] == []
            assert not [path for path in (fresh.data / "sketches").rglob("*") if path.is_file()]
            assert not list((fresh.data / "searches").iterdir())
        assert verbs.publish(provider, sketches["good"]).status_code == 201
        assert verbs.ask(requester, sketches["train"]).status_code == 202


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"database": "postgresql://me:hidden@127.0.0.1:1/x"}, "the database cannot be used"),
        ({"data": Path("/dev/null/data")}, "/dev/null"),
    ],
)
def test_a_start_without_its_storage_says_in_a_line_what_is_missing(
    fresh: Settings, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    settings = fresh.model_copy(update=change)
    with pytest.raises(StorageAway, match=words) as told:
        create_app(settings)
    assert "hidden" not in str(told.value) and "\n" not in told.value.message
    with pytest.raises(SaibotError):
        backup(settings, tmp_path / "backup.tar")


def test_a_backup_of_a_mistyped_folder_makes_no_platform_there(fresh: Settings, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no platform"):
        backup(fresh, tmp_path / "backup.tar")
    assert not fresh.data.exists()
