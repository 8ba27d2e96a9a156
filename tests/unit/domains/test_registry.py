"""The registry keeps what it promised, whatever happens around it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.domains import DomainConflict, DomainRegistry, UnknownDomain, generated_domain
from saibot.domains import registry as domains_module
from saibot.domains.registry import SUFFIX, file_name
from saibot.errors import InvalidDomain
from saibot.safe_file import UNFINISHED
from saibot.sketch import KeyDomain

SCHOOLS = KeyDomain.of(
    "nyc-dbn",
    ["01M015", "01M019", "02M001", "13K003"],
    parents={"district": ["01", "01", "02", "13"], "borough": ["M", "M", "M", "K"]},
)


@pytest.fixture
def registry(tmp_path: Path) -> DomainRegistry:
    return DomainRegistry(tmp_path / "domains")


def same(one: KeyDomain, other: KeyDomain) -> bool:
    return (one.id, one.version, one.values, one.parents) == (other.id, other.version, other.values, other.parents)


def test_a_registered_domain_is_found_by_name_by_version_and_by_either_digest(registry: DomainRegistry) -> None:
    card = registry.register(SCHOOLS)
    assert (card.size, [(p.name, p.size) for p in card.parents]) == (4, [("district", 3), ("borough", 2)])
    assert same(registry.get("nyc-dbn"), SCHOOLS)
    assert same(registry.get("nyc-dbn", 1), SCHOOLS)
    for digest in (SCHOOLS.digest, SCHOOLS.keys_digest):
        found = registry.find(digest)
        assert found is not None and same(found, SCHOOLS)
        assert registry.entry(digest) == card
    assert registry.find("0" * 64) is None


def test_registering_the_same_content_again_changes_nothing(registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    (file,) = registry.folder.iterdir()
    before = file.stat()
    assert registry.register(SCHOOLS.with_levels(["borough"])) == registry.register(SCHOOLS)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(registry.folder.iterdir()) == [file]


@pytest.mark.parametrize(
    "other",
    [
        KeyDomain.of("nyc-dbn", ["01M015"]),
        KeyDomain.of("nyc-dbn", SCHOOLS.values),
        KeyDomain.of("nyc-dbn", SCHOOLS.values[::-1]),
        KeyDomain.of("nyc-dbn", SCHOOLS.values, parents={"district": ["01", "01", "02", "14"]}),
    ],
)
def test_other_content_under_the_same_name_and_version_is_refused(registry: DomainRegistry, other: KeyDomain) -> None:
    registry.register(SCHOOLS)
    with pytest.raises(DomainConflict, match="new version number") as caught:
        registry.register(other)
    assert (caught.value.registered, caught.value.offered) == (SCHOOLS.digest, other.digest)
    assert same(registry.get("nyc-dbn"), SCHOOLS)


def test_the_latest_version_is_the_largest_number(registry: DomainRegistry) -> None:
    for version in (2, 10, 1):
        registry.register(KeyDomain.of("county", [f"{version}-{i}" for i in range(3)], version=version))
    assert registry.get("county").version == 10
    assert [card.version for card in registry.entries()] == [1, 2, 10]
    with pytest.raises(UnknownDomain, match=r"version 3 .* There is version 1, 2, 10"):
        registry.get("county", 3)
    with pytest.raises(UnknownDomain, match="There is 'county'"):
        registry.get("County")


def test_a_removed_domain_is_gone_and_its_name_free(registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    registry.remove("nyc-dbn", 1)
    assert registry.entries() == () and registry.find(SCHOOLS.digest) is None
    with pytest.raises(UnknownDomain):
        registry.get("nyc-dbn", 1)
    with pytest.raises(UnknownDomain):
        registry.remove("nyc-dbn", 1)
    registry.register(KeyDomain.of("nyc-dbn", ["other"]))
    assert registry.get("nyc-dbn").values == ("other",)


def test_two_registries_on_one_folder_see_each_other(registry: DomainRegistry) -> None:
    other = DomainRegistry(registry.folder)
    assert registry.find(SCHOOLS.digest) is None and other.entries() == ()
    other.register(SCHOOLS)
    assert registry.find(SCHOOLS.digest) is not None
    registry.remove("nyc-dbn", 1)
    assert other.find(SCHOOLS.digest) is None
    with pytest.raises(UnknownDomain):
        other.get("nyc-dbn")


def test_a_folder_that_has_settled_is_not_read_again_until_it_changes(
    registry: DomainRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domains_module, "SETTLED_NS", -(10**12))
    registry.register(SCHOOLS)
    assert registry.find("0" * 64) is None
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda folder: pytest.fail("the folder was listed"))
        assert registry.find("0" * 64) is None
    os.utime(registry.folder, ns=(1, 1))
    DomainRegistry(registry.folder).register(KeyDomain.of("other", ["a"]))
    assert len(registry.entries()) == 2


# ------------------------------------------------------------------------------------------------ files


@pytest.mark.fault
@pytest.mark.parametrize("length", [0, 1, 100, 300, 700])
def test_a_half_written_temporary_file_is_ignored(registry: DomainRegistry, length: int) -> None:
    registry.register(SCHOOLS)
    (file,) = registry.folder.iterdir()
    (registry.folder / f"{UNFINISHED}abc123").write_bytes(file.read_bytes()[:length])
    (registry.folder / f"{UNFINISHED}abc123{SUFFIX}").write_bytes(file.read_bytes()[:length])
    again = DomainRegistry(registry.folder)
    assert [card.id for card in again.entries()] == ["nyc-dbn"] and again.damaged() == ()


@pytest.mark.fault
@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_a_write_that_fails_leaves_nothing_behind(
    registry: DomainRegistry, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(OSError, match="disk full"):
            registry.register(SCHOOLS)
    assert list(registry.folder.iterdir()) == [] and registry.entries() == ()
    registry.register(SCHOOLS)


@pytest.mark.fault
def test_a_file_cut_off_anywhere_is_named_and_does_not_hide_the_others(registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    (file,) = registry.folder.iterdir()
    content = file.read_bytes()
    registry.register(KeyDomain.of("other", ["a"]))
    for length in range(0, len(content), 37):
        file.write_bytes(content[:length])
        fresh = DomainRegistry(registry.folder)
        assert [card.id for card in fresh.entries()] == ["other"]
        assert fresh.damaged() == (file.name,)
        with pytest.raises(InvalidDomain, match="damaged"):
            fresh.get("nyc-dbn", 1)
        assert fresh.find(SCHOOLS.digest) is None
    fresh.remove("nyc-dbn", 1)
    fresh.register(SCHOOLS)
    assert fresh.damaged() == ()


@pytest.mark.fault
def test_a_changed_key_is_noticed(registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    (file,) = registry.folder.iterdir()
    file.write_bytes(file.read_bytes().replace(b"13K003", b"13K004"))
    with pytest.raises(InvalidDomain, match="damaged"):
        DomainRegistry(registry.folder).get("nyc-dbn")


def test_a_file_under_another_name_is_refused(registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    (file,) = registry.folder.iterdir()
    file.rename(registry.folder / file_name("us-county", 1))
    fresh = DomainRegistry(registry.folder)
    assert fresh.entries() == () and fresh.damaged() == (file_name("us-county", 1),)
    with pytest.raises(InvalidDomain, match="renamed"):
        fresh.get("us-county", 1)


def test_any_arrow_tool_can_read_the_file(registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    (file,) = registry.folder.iterdir()
    table = pa.ipc.open_file(file.read_bytes()).read_all()
    assert table.column_names == ["key", "parent:district", "parent:borough"]
    assert tuple(table["key"].to_pylist()) == SCHOOLS.values


@pytest.mark.parametrize(
    "id", ["a/b", "..", ".writing-x", "dates:2013-01-01:2013-01-03", "ü" * 200, "x" * 200, "%", "@1", " "]
)
def test_any_name_makes_a_file_inside_the_folder(registry: DomainRegistry, id: str) -> None:
    domain = KeyDomain.of(id, ["a", "b"])
    registry.register(domain)
    (file,) = registry.folder.iterdir()
    assert file.parent == registry.folder and same(registry.get(id), domain) and len(registry.entries()) == 1


@given(st.tuples(st.text(min_size=1, max_size=200), st.integers(1, 99)), st.tuples(st.text(min_size=1), st.integers(1, 99)))
def test_different_names_have_different_files(one: tuple[str, int], other: tuple[str, int]) -> None:
    assert (file_name(*one) == file_name(*other)) == (one == other)
    assert len(file_name(*one).encode()) < 255 and "/" not in file_name(*one)


@pytest.mark.parametrize(
    ("domain", "why"),
    [
        (lambda: KeyDomain.of("x" * 201, ["a"]), "200"),
        (lambda: KeyDomain.of("x", ["a\x1fb"]), "control character"),
        (lambda: KeyDomain.of("x", ["a\x1eb"]), "control character"),
        (lambda: KeyDomain.of("x", ["\ud800"]), "no valid text"),
        (lambda: KeyDomain("x", 1, ("a",), (("p", ("1",)), ("p", ("2",)))), "two levels of one name"),
        (lambda: KeyDomain("x", 1, ("a",), (("", ("1",)),)), "without a name"),
        (lambda: KeyDomain("x", 1, ("a",), tuple((f"p{i}", ("1",)) for i in range(101))), "100"),
    ],
)
def test_a_domain_that_cannot_be_told_apart_is_refused(
    registry: DomainRegistry, domain: Callable[[], KeyDomain], why: str
) -> None:
    with pytest.raises(InvalidDomain, match=why):
        registry.register(domain())
    assert list(registry.folder.iterdir()) == []


KEYS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).map(str.strip).filter(bool),
    min_size=1,
    max_size=30,
    unique=True,
)


@given(KEYS, st.data())
def test_what_is_registered_is_what_is_got_back(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], data: Any
) -> None:
    parents = data.draw(st.dictionaries(st.sampled_from("pqr"), st.just([key[0].upper() for key in keys])))
    parents = {name: [f"{name}{parent}" for parent in column] for name, column in parents.items()}
    domain = KeyDomain("any", 3, tuple(keys), tuple((name, tuple(column)) for name, column in parents.items()))
    folder = tmp_path_factory.mktemp("domains")
    DomainRegistry(folder).register(domain)
    assert same(DomainRegistry(folder).get("any"), domain)
    found = DomainRegistry(folder).find(domain.digest)
    assert found is not None and found.digest == domain.digest


def test_only_the_domains_read_last_stay_in_memory(registry: DomainRegistry) -> None:
    registry._loaded.most = 5
    for i in range(4):
        registry.register(KeyDomain.of(f"d{i}", ["a", "b", "c"]))
        assert registry.get(f"d{i}") is registry.get(f"d{i}")
    first = registry.get("d0")
    assert registry.get("d3") is not None and registry.get("d0") is not first


def test_where_large_domains_are_not_to_be_read_they_are_known_by_their_cards_and_first_lines(tmp_path: Path) -> None:
    whole, careful = DomainRegistry(tmp_path), DomainRegistry(tmp_path, most=3)
    few = whole.register(KeyDomain.of("few", ["a", "b"]))
    many = whole.register(KeyDomain.of("many", ["a", "b", "c", "d"], parents={"half": ["x", "x", "y", "y"]}))
    assert same(careful.get("few"), whole.get("few")) and careful.find(many.digest) is None
    assert {card.id for card in careful.entries()} == {"few", "many"} and careful.entry(many.digest) == many
    assert careful.sample(many.digest, most=3) == (many, [["a", "x"], ["b", "x"], ["c", "y"]])
    assert careful.sample(few.digest, most=9) == (few, [["a"], ["b"]]) and careful.sample("0" * 64, most=9) is None
    with pytest.raises(UnknownDomain):
        careful.get("many")


# ------------------------------------------------------------------------------------------------ at once


def _register(folder: Path, number: int, start: Any, results: Any) -> None:
    registry = DomainRegistry(folder)
    start.wait()
    for i in range(20):
        try:
            registry.register(KeyDomain.of(f"shared-{i}", [f"{number}-{j}" for j in range(50)]))
            results.put((i, number))
        except DomainConflict:
            pass


@pytest.mark.fault
def test_of_two_processes_that_register_one_name_at_once_exactly_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_register, args=(tmp_path, number, start, results)) for number in range(2)]
    for worker in workers:
        worker.start()
    won = dict(results.get(timeout=120) for _ in range(20))
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(won) == list(range(20)) and results.empty()
    registry = DomainRegistry(tmp_path)
    assert all(registry.get(f"shared-{i}").values[0] == f"{number}-0" for i, number in won.items())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(UNFINISHED)]


def test_threads_may_share_a_registry(registry: DomainRegistry) -> None:
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(30):
                domain = KeyDomain.of(f"d{number}-{i}", [f"{number}-{i}-{j}" for j in range(5)])
                registry.register(domain)
                assert registry.find(domain.digest) is not None and registry.entries()
                registry.remove(domain.id, 1)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == [] and registry.entries() == ()


# ------------------------------------------------------------------------------------------------ generated ones


def test_days_and_ranges_are_known_by_their_names_alone() -> None:
    days = KeyDomain.of_dates(date(2013, 1, 30), date(2013, 2, 2))
    for domain in (days, KeyDomain.of_range(-3, 12)):
        found = generated_domain(domain.id)
        assert found is not None and found.digest == domain.digest


@pytest.mark.parametrize(
    "id",
    ["nyc-dbn", "dates:2013-02-30:2013-03-01", "dates:2013-02-03:2013-02-01", "range:5:1", "range:0:99999999", "range:1"],
)
def test_a_name_that_spells_no_domain_out_gives_none(id: str) -> None:
    assert generated_domain(id) is None
