"""Downloads: cached by digest, continued where they broke off, and believed only when the content fits."""

from __future__ import annotations

import httpx
import pytest

from saibot.client import NotFound, PlatformError, SketchCache
from saibot.errors import InvalidInput
from saibot.sketch import Sketch, read_sketch


def test_a_sketch_crosses_the_network_once(fake, sketches, tmp_path):
    fake.add(sketches[0])
    cache, wire, digest = SketchCache(tmp_path), fake.client().wire, sketches[0].digest
    path = cache.fetch(wire, digest)
    assert read_sketch(path).digest == digest and cache.has(digest)
    assert cache.fetch(wire, digest) == path
    assert len(fake.asked) == 1


def test_a_download_goes_on_where_it_broke_off(fake, sketches, tmp_path):
    fake.add(sketches[0])
    fake.cut_after = 1000
    digest = sketches[0].digest
    SketchCache(tmp_path).fetch(fake.client().wire, digest)
    first, second = fake.asked_for("/v1/sketches/.*")
    assert "range" not in first.headers
    assert second.headers["range"] == "bytes=1000-" and second.headers["if-range"] == f'"{digest}"'


def test_another_process_goes_on_with_what_the_first_left(fake, sketches, tmp_path, monkeypatch):
    fake.add(sketches[0])
    fake.cut_after = 1000
    digest = sketches[0].digest

    def give_up(seconds: float) -> None:
        raise KeyboardInterrupt

    platform = fake.client()
    platform.wire._sleep = give_up
    with pytest.raises(KeyboardInterrupt):
        SketchCache(tmp_path).fetch(platform.wire, digest)
    SketchCache(tmp_path).fetch(fake.client().wire, digest)
    assert fake.asked[-1].headers["range"] == "bytes=1000-"


def test_a_platform_without_ranges_sends_all_of_it_again(fake, sketches, tmp_path):
    fake.add(sketches[0])
    fake.cut_after, fake.ignores_ranges = 1000, True
    assert SketchCache(tmp_path).fetch(fake.client().wire, sketches[0].digest).is_file()


def test_a_partial_file_that_is_not_a_part_is_thrown_away(fake, sketches, tmp_path):
    fake.add(sketches[0])
    cache, digest = SketchCache(tmp_path), sketches[0].digest
    path = cache.path(digest)
    path.parent.mkdir(parents=True)
    for left in (b"x" * 500, b"x" * (len(fake.sketches[digest]) + 1)):
        path.with_name(f".{path.name}.part").write_bytes(left)
        assert cache.fetch(fake.client().wire, digest).read_bytes() == fake.sketches[digest]
        path.unlink()


def test_another_sketch_than_the_one_asked_for_is_refused_and_not_kept(fake, sketches, tmp_path):
    fake.sketches[sketches[0].digest] = fake_content(fake, sketches[1])
    cache = SketchCache(tmp_path)
    with pytest.raises(PlatformError, match="something else"):
        cache.fetch(fake.client().wire, sketches[0].digest)
    assert not cache.has(sketches[0].digest) and not list(tmp_path.rglob("*.part"))


def test_more_than_was_announced_is_refused(fake, sketches, tmp_path):
    fake.add(sketches[0])
    with pytest.raises(PlatformError, match="more than"):
        SketchCache(tmp_path).fetch(fake.client().wire, sketches[0].digest, expected=100)
    assert not list(tmp_path.rglob("*.part"))


def test_what_is_not_there_is_not_asked_for_again_and_again(fake, tmp_path):
    with pytest.raises(NotFound):
        SketchCache(tmp_path).fetch(fake.client().wire, "0" * 64)
    assert len(fake.asked) == 1


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "0" * 63, "G" * 64])
def test_a_digest_that_is_none_never_becomes_a_file_name(digest, tmp_path):
    with pytest.raises(InvalidInput):
        SketchCache(tmp_path).path(digest)


def test_a_platform_that_is_down_is_given_up_after_a_while(sketches, tmp_path):
    from saibot.client import Platform, PlatformUnreachable

    def down(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("down")

    platform = Platform("http://platform.test", transport=httpx.MockTransport(down))
    platform.wire._sleep = lambda seconds: None
    with pytest.raises(PlatformUnreachable):
        SketchCache(tmp_path).fetch(platform.wire, sketches[0].digest)


def fake_content(fake, sketch: Sketch) -> bytes:
    fake.add(sketch)
    return fake.sketches[sketch.digest]
