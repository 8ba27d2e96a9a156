"""Key domains count against quotas, can be removed, and cost nothing to whoever has them already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saibot.errors import InvalidDomain
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.errors import Conflict, OverQuota
from saibot.platform.packing import Packing
from saibot.platform.service import open_platform

CSV = {"Content-Type": "text/csv"}


def test_a_file_of_keys_is_made_once_and_not_sent_to_whoever_has_it(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = server.account("provider")
    id = f"numbers-{provider.account}"
    keys = b"key\n" + b"".join(b"%06d\n" % n for n in range(100_000))
    assert provider.put(f"/v1/domains/{id}/1", content=keys, headers=CSV).status_code == 201
    first = server.client().get(f"/v1/domains/{id}/1/file")
    assert first.content == keys

    def made(*_: Any) -> None:
        raise AssertionError("the list is opened for one who has it")

    for name in ("made_csv", "csv"):
        monkeypatch.setattr(server.app.state.platform.domains, name, made)
    for _ in range(20):
        again = server.client().get(f"/v1/domains/{id}/1/file", headers={"If-None-Match": first.headers["etag"]})
        assert again.status_code == 304 and not again.content


def test_a_sketch_with_more_keys_than_a_domain_may_have_is_refused_published_or_asked_with(
    fresh: Settings, start_in_process: Any, verbs: Any, sketches: dict[str, bytes]
) -> None:
    """The shops are 30."""
    for most, status in ((30, (201, 202)), (29, (422, 422))):
        for server in start_in_process(fresh.model_copy(update={"keys_per_domain": most})):
            told = verbs.publish(server.account("provider"), sketches["good"])
            asked = verbs.ask(server.account("requester"), sketches["train"])
            assert (told.status_code, asked.status_code) == status
            if most < 30:
                assert {one.json()["error"]["code"] for one in (told, asked)} == {"too_many_keys"}
                assert "has 30 keys, and this platform takes 29" in told.json()["error"]["message"]


def test_a_domain_that_nothing_uses_is_removed_with_its_file(fresh: Settings, sketches: dict[str, bytes]) -> None:
    platform = open_platform(fresh)
    caller = Caller("clinic", frozenset({"provider"}), "t")
    shops = b"key\n" + b"".join(b"%02d\n" % n for n in range(1, 31))
    platform.register_domain(caller, "shops", 1, shops)
    platform.register_domain(caller, "spare", 1, b"key\na\nb\n")
    dataset, _ = platform.accept(caller, sketches["good"])
    with pytest.raises(Conflict, match="datasets here have"):
        platform.domains.remove(caller, "shops", 1)
    platform.domains.remove(caller, "spare", 1)
    platform.withdraw(caller, dataset.id)
    platform.domains.remove(caller, "shops", 1)
    assert not list((fresh.data / "sketches").rglob("*.arrow")) and not platform.domains.list(None, 10).items
    platform.close()


def test_the_name_of_a_domain_that_was_removed_is_not_free_for_others_nor_for_other_keys(fresh: Settings) -> None:
    platform = open_platform(fresh)
    clinic, other = (Caller(name, frozenset({"provider"}), f"t-{name}") for name in ("clinic", "other"))
    platform.register_domain(clinic, "wards", 1, b"key\na\nb\n")
    platform.domains.remove(clinic, "wards", 1)
    for caller, keys in ((other, b"key\na\nb\n"), (other, b"key\nx\n"), (clinic, b"key\nx\n")):
        with pytest.raises(Conflict, match="'wards' version 1 was another"):
            platform.register_domain(caller, "wards", 1, keys)
    assert not list((fresh.data / "sketches").rglob("*.arrow"))
    assert platform.register_domain(clinic, "wards", 1, b"key\na\nb\n")[1]
    platform.domains.remove(clinic, "wards", 1)
    assert platform.register_domain(other, "wards", 2, b"key\nx\n")[1]
    platform.close()


def test_keys_count_against_their_provider_until_they_are_removed(fresh: Settings) -> None:
    platform = open_platform(fresh.model_copy(update={"keys_per_provider": 5}))
    caller = Caller("clinic", frozenset({"provider"}), "t")
    platform.register_domain(caller, "three", 1, b"key\na\nb\nc\n")
    with pytest.raises(OverQuota, match="more than 5 keys"):
        platform.register_domain(caller, "other", 1, b"key\nd\ne\nf\n")
    platform.domains.remove(caller, "three", 1)
    platform.register_domain(caller, "other", 1, b"key\nd\ne\nf\n")
    platform.close()


def test_long_keys_take_of_the_bytes_that_a_provider_may_take_and_none_is_longer_than_keys_are(fresh: Settings) -> None:
    """A list of one key is one key by number; a thousand of them, each as long as an upload may be, were 24 GB."""
    long = b"key,parent\n" + b"".join(b"%03d%s,p\n" % (n, b"x" * 150) for n in range(400))
    platform = open_platform(fresh.model_copy(update={"bytes_per_provider": 200_000, "workers": 1}))
    caller = Caller("clinic", frozenset({"provider"}), "t")
    for key, parent in (("x" * 201, "p"), ("a", "x" * 201), ("x" * 120_000, "p")):
        with pytest.raises(InvalidDomain, match="more than 200 letters"):
            platform.register_domain(caller, "long", 1, f"key,parent\n{key},{parent}\n".encode())
    platform.register_domain(caller, "long", 1, f"key,parent\n{'x' * 200},{'é' * 200}\n".encode())
    for version in (2, 3):
        platform.register_domain(caller, "long", version, long.replace(b",p", b",p%d" % version))
    with pytest.raises(OverQuota, match="200,000 bytes"):
        platform.register_domain(caller, "long", 4, long)
    platform.close()
    platform = open_platform(platform.settings)  # what it takes is known after a start, too
    with pytest.raises(OverQuota, match="200,000 bytes"):
        platform.register_domain(caller, "long", 4, long)
    platform.domains.remove(caller, "long", 2)
    platform.register_domain(caller, "long", 4, long)
    assert len([name for name in platform.files.names() if name.startswith("domains/")]) == 3
    platform.close()


def test_lists_of_keys_and_sketches_share_the_bytes_of_their_provider(fresh: Settings, sketches: dict[str, bytes]) -> None:
    most = len(sketches["good"]) + 3000
    platform = open_platform(fresh.model_copy(update={"bytes_per_provider": most}))
    caller = Caller("clinic", frozenset({"provider"}), "t")
    dataset, _ = platform.accept(caller, sketches["good"])
    keys = b"key\n" + b"".join(b"%03d%s\n" % (n, b"x" * 90) for n in range(40))
    with pytest.raises(OverQuota, match=f"{most:,} bytes"):
        platform.register_domain(caller, "wards", 1, keys)
    platform.withdraw(caller, dataset.id)
    platform.register_domain(caller, "wards", 1, keys)
    with pytest.raises(OverQuota, match=f"{most:,} bytes"):
        platform.accept(caller, sketches["good"])
    platform.close()


def test_what_was_being_written_when_a_platform_was_killed_is_gone_after_a_start(fresh: Settings) -> None:
    platform = open_platform(fresh)
    caller = Caller("clinic", frozenset({"provider"}), "t")
    facts, _ = platform.register_domain(caller, "wards", 1, b"key\na\nb\n")
    platform.domains.csv(facts.digest).close()
    platform.close()
    folder = fresh.data / "cache" / "domains"
    (folder / ".writing-0123456789ab").write_bytes(b"half a list")
    (folder / "read-abcdefgh").mkdir()
    (folder / "read-abcdefgh" / "file").write_bytes(b"half another")
    (folder / f"{'0' * 64}.csv").write_bytes(b"key\nremoved\n")
    platform = open_platform(fresh)
    assert [path.name for path in folder.iterdir()] == [f"{facts.digest}.csv"]
    platform.close()


def test_packing_has_few_bytes_of_sketches_in_memory_at_a_time(
    tmp_path: Path, sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from saibot.platform import packing
    from saibot.search.corpus import Corpus
    from saibot.sketch import read_sketch

    Corpus.create(tmp_path)
    digests = []
    for name in ("good", "good2", "useless", "train"):
        digests.append(read_sketch(sketches[name]).digest)
        (tmp_path / "sketches" / f"{digests[-1]}.saibot").write_bytes(sketches[name])
    monkeypatch.setattr(packing, "READ_TOGETHER", len(sketches["good"]) + len(sketches["good2"]))
    made = Packing(tmp_path)
    assert [len(some) for some in made._together([*digests, "0" * 64])] in ([2, 1, 1], [2, 2])
    most = []
    add = made.corpus.add
    monkeypatch.setattr(made.corpus, "add", lambda some, *more: (most.append(len(list(some))), add(some, *more))[1])
    assert made.apply(add=digests)["size"] == 4 and max(most) <= 2
