"""One question, which domain a sketch names, put to one source after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from saibot.domains import DomainRegistry, KeyDomain, KnownDomains

PLAIN = KeyDomain.of("schools", ["a", "b"])
RICH = KeyDomain.of("schools", ["a", "b"], parents={"town": ["x", "y"]})


@dataclass(frozen=True)
class Named:
    domain: str
    version: int
    size: int
    digest: str
    keys_digest: str


def named(domain: KeyDomain) -> Named:
    return Named(domain.id, domain.version, len(domain), domain.digest, domain.keys_digest)


def test_the_very_domain_goes_before_another_one_with_the_same_keys() -> None:
    assert KnownDomains.of([PLAIN, RICH]).find(named(RICH)) is RICH
    assert KnownDomains.of([RICH, PLAIN]).find(named(PLAIN)) is PLAIN
    assert KnownDomains.of([RICH]).find(named(PLAIN)) is RICH


def test_an_id_that_spells_its_keys_out_needs_nobody_but_must_tell_the_truth() -> None:
    months = KeyDomain.of_range(1, 12)
    assert KnownDomains.of().find(named(months)) == months
    for told in (len(PLAIN), 12):
        assert KnownDomains.of().find(replace(named(PLAIN), domain="range:1:12", size=told)) is None


def test_what_is_given_goes_before_the_registry_and_a_damaged_file_is_no_source(tmp_path: Path) -> None:
    registry = DomainRegistry(tmp_path)
    registry.register(RICH)
    assert KnownDomains.of(registry=registry).find(named(RICH)) == RICH
    assert KnownDomains.of([RICH], registry).find(named(RICH)) is RICH
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    file.write_bytes(content.replace(b"ab", b"xx", 1) if b"ab" in content else content[:-50])
    assert KnownDomains.of(registry=DomainRegistry(tmp_path)).find(named(RICH)) is None


def test_nobody_knows_what_nobody_has() -> None:
    assert KnownDomains.of([RICH]).find(named(KeyDomain.of("schools", ["b", "a"]))) is None
