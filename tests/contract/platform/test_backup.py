"""A backup has everything but searches, and restores onto either database."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.backup import backup, restore


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_a_restored_platform_answers_as_the_one_that_was_backed_up(
    server: Any,
    sketches: dict[str, bytes],
    verbs: Any,
    tmp_path: Path,
    start_in_process: Any,
    request: pytest.FixtureRequest,
    target: str,
) -> None:
    provider = server.account("provider")
    verbs.publish(provider, sketches["good"])
    dataset = verbs.publish(provider, sketches["good2"]).json()
    domain = f"kept-{provider.account}"
    provider.put(f"/v1/domains/{domain}/1", content=b"k,level\na,x\n")
    asker, place = server.account("requester"), f"/v1/datasets/{dataset['id']}"
    provider.put(f"{place}/about", json={"licence": "CC0"})
    provider.put(f"{place}/grants/{asker.account}")
    enquiry = asker.post("/v1/enquiries", json={"dataset": dataset["id"], "why": "more", "understood": True}).json()
    told = backup(server.settings, tmp_path / "backup.tar")
    assert told.datasets >= 1 and (tmp_path / "backup.tar").stat().st_mode & 0o077 == 0
    database = request.getfixturevalue("postgres")() if target == "postgres" else None
    settings = Settings(data=tmp_path / "new", database=database, workers=1, pages=False, log_level="error")
    assert restore(settings, tmp_path / "backup.tar") == told
    copy: Any
    for copy in start_in_process(settings):
        again = copy.client(provider.headers["Authorization"].removeprefix("Bearer "))
        assert again.get("/v1/me").json()["name"] == provider.account
        assert again.get(f"/v1/datasets/{dataset['id']}").json() == provider.get(f"/v1/datasets/{dataset['id']}").json()
        for name in ("good", "good2"):
            digest = again.get(f"/v1/datasets/{dataset['id']}").json()["versions"][name == "good"]["digest"]
            assert again.get(f"/v1/sketches/{digest}").content == sketches[name]
        for kept in (f"{place}/about", f"{place}/grants", f"/v1/enquiries/{enquiry['id']}"):
            assert again.get(kept).json() == provider.get(kept).json()
        assert again.get(f"/v1/domains/{domain}/1/file").text == "key,level\na,x\n"
        copy.app.state.platform.shards.catch_up()
        admin = copy.client(server.admin.headers["Authorization"].removeprefix("Bearer "))
        slice = admin.get("/v1/corpus", params={"limit": 1000}).json()["items"]
        assert len(copy.app.state.platform.shards) == len({entry["digest"] for entry in slice})
        assert verbs.publish(again, sketches["whole"]).status_code == 201  # numbers go on where they were
    with pytest.raises(InvalidInput, match="not empty"):
        restore(settings, tmp_path / "backup.tar")


def test_a_backup_that_is_cut_off_restores_nothing(
    fresh: Settings, tmp_path: Path, start_in_process: Any, sketches: dict[str, bytes], verbs: Any
) -> None:
    for server in start_in_process(fresh):
        verbs.publish(server.account("provider"), sketches["good"])
        backup(fresh, tmp_path / "whole.tar")
    content = (tmp_path / "whole.tar").read_bytes()
    make: Callable[[str], Settings] = lambda name: Settings(data=tmp_path / name, pages=False, workers=1, log_level="error")  # noqa: E731
    for number, size in enumerate((0, 100, len(content) // 3, len(content) // 2)):
        (tmp_path / "cut.tar").write_bytes(content[:size])
        with pytest.raises(InvalidInput):
            restore(make(f"cut-{number}"), tmp_path / "cut.tar")
    with pytest.raises(InvalidInput):
        backup(make("nothing"), tmp_path / "none.tar")
    assert not (tmp_path / "none.tar").exists()


def contents_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as source:
        return {member.name: source.extractfile(member).read() for member in source.getmembers()}  # type: ignore[union-attr]


def write_tar(path: Path, contents: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as target:
        for member, content in contents.items():
            facts = tarfile.TarInfo(member)
            facts.size = len(content)
            target.addfile(facts, io.BytesIO(content))


def as_of_0001(contents: dict[str, bytes]) -> dict[str, bytes]:
    """What the first version would have written: no later tables and columns, documents without later fields."""

    def rows(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in contents[f"tables/{name}.jsonl"].decode().splitlines()]

    held = [
        {k: v for k, v in row.items() if k not in ("holder", "spent_epsilon", "spent_delta", "payload", "signer")}
        for row in rows("versions")
    ]
    told = []
    for row in rows("datasets"):
        document = json.loads(row["document"])
        for later in (
            "keys",
            "account",
            "spent",
            "open",
            "source",
            "confirmed",
            "verified",
            "signer",
            "copy_of",
            "flags",
            "tags",
        ):
            del document[later]
        del row["teaches"], row["ended"], row["copy_of"], row["used"]
        told.append(row | {"document": json.dumps(document)})
    older = {"versions": held, "datasets": told}
    for name, gained in (("tokens", {"parent"}), ("trail", {"hour", "times"})):
        older[name] = [{k: v for k, v in row.items() if k not in gained} for row in rows(name)]
    manifest = json.loads(contents["manifest.json"]) | {"revision": "0001"}
    first = ("tokens", "domains", "datasets", "versions", "terms", "trail")  # the tables that a backup had then
    manifest["rows"] = {name: manifest["rows"][name] for name in first}
    later = {f"tables/{name}.jsonl" for name in json.loads(contents["manifest.json"])["rows"] if name not in first}
    contents = {name: content for name, content in contents.items() if name not in later}
    lines = {
        f"tables/{name}.jsonl": "".join(json.dumps(row) + "\n" for row in some).encode() for name, some in older.items()
    }
    return contents | lines | {"manifest.json": json.dumps(manifest).encode()}


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_a_backup_of_the_first_version_is_restored_and_brought_up_to_date(
    fresh: Settings,
    tmp_path: Path,
    start_in_process: Any,
    sketches: dict[str, bytes],
    verbs: Any,
    request: pytest.FixtureRequest,
    target: str,
) -> None:
    for server in start_in_process(fresh):
        dataset = verbs.publish(server.account("provider"), sketches["good"]).json()
        backup(fresh, tmp_path / "new.tar")
    write_tar(tmp_path / "old.tar", as_of_0001(contents_of(tmp_path / "new.tar")))
    database = request.getfixturevalue("postgres")() if target == "postgres" else None
    settings = Settings(data=tmp_path / "restored", database=database, pages=False, workers=1, log_level="error")
    assert restore(settings, tmp_path / "old.tar").datasets == 1
    for copy in start_in_process(settings):
        again = copy.client(None).get(f"/v1/datasets/{dataset['id']}").json()
        assert {name: again[name] for name in dataset} == dataset | {"account": None, "spent": None}
    with pytest.raises(InvalidInput, match="another version"):
        restore(settings, tmp_path / "old.tar")


@pytest.mark.parametrize(
    "name", ["../../escaped.saibot", "/escaped.saibot", f"aa/{'a' * 64}.saibot", f"domains/{'a' * 64}.arrow"]
)
def test_a_backup_with_a_file_that_is_not_the_platforms_own_restores_nothing(
    fresh: Settings, tmp_path: Path, start_in_process: Any, sketches: dict[str, bytes], name: str
) -> None:
    for _ in start_in_process(fresh):
        backup(fresh, tmp_path / "sound.tar")
    contents = contents_of(tmp_path / "sound.tar")
    manifest = json.loads(contents["manifest.json"])
    contents |= {"manifest.json": json.dumps(manifest | {"files": [name]}).encode(), f"files/{name}": sketches["good"]}
    write_tar(tmp_path / "evil.tar", contents)
    new = Settings(data=tmp_path / "deep" / "new", pages=False, workers=1, log_level="error")
    with pytest.raises(InvalidInput, match="not the platform's own"):
        restore(new, tmp_path / "evil.tar")
    assert not list(tmp_path.rglob("escaped*")) and not list(tmp_path.rglob(f"{'a' * 64}*"))
