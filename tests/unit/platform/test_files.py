"""Both stores keep the same promises: a folder, and an S3-compatible one (here a small one that speaks the protocol)."""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.service import Platform
from saibot.platform.storage.files import FileStore, open_files
from saibot.safe_file import UNFINISHED, write_safely


class Bucket(BaseHTTPRequestHandler):
    """As much of the S3 protocol as a client needs to keep files; objects live in `server.objects`."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    parts: dict[str, dict[int, bytes]]

    def log_message(self, *_: object) -> None:
        pass

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/bucket").lstrip("/")

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", headers.pop("length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return content
        plain = b""
        while True:
            head, _, content = content.partition(b"\r\n")
            size = int(head.split(b";")[0], 16)
            if size == 0:
                return plain
            plain, content = plain + content[:size], content[size + 2 :]

    def do_HEAD(self) -> None:
        if self.key == "":
            return self.answer(200)
        content = self.objects.get(self.key)
        if content is None:
            return self.answer(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"x"')
        self.end_headers()

    def do_GET(self) -> None:
        if self.key == "":
            prefix = self.query.get("prefix", [""])[0]
            found = [name for name in sorted(self.objects) if name.startswith(prefix)]
            entries = "".join(
                f"<Contents><Key>{name}</Key><Size>{len(self.objects[name])}</Size></Contents>" for name in found
            )
            document = f"<ListBucketResult><KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>{entries}"
            return self.answer(200, f"{document}</ListBucketResult>".encode(), Content_Type="application/xml")
        content = self.objects.get(self.key)
        if content is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", Content_Type="application/xml")
        span = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if span is None:
            return self.answer(200, content, ETag='"x"')
        first, last = int(span[1]), int(span[2] or len(content) - 1)
        piece = content[first : last + 1]
        return self.answer(206, piece, Content_Range=f"bytes {first}-{first + len(piece) - 1}/{len(content)}", ETag='"x"')

    def do_PUT(self) -> None:
        content = self.body()
        if "uploadId" in self.query:
            self.parts[self.query["uploadId"][0]][int(self.query["partNumber"][0])] = content
        else:
            self.objects[self.key] = content
        self.answer(200, ETag='"x"')

    def do_POST(self) -> None:
        self.body()
        if "uploads" in self.query:
            id = f"u{len(self.parts)}"
            self.parts[id] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
        else:
            parts = self.parts.pop(self.query["uploadId"][0])
            self.objects[self.key] = b"".join(parts[number] for number in sorted(parts))
            text = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
        self.answer(200, text.encode(), Content_Type="application/xml")

    def do_DELETE(self) -> None:
        self.objects.pop(self.key, None)
        self.answer(204)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a store, and what is in it."""
    handler = type("Own", (Bucket,), {"objects": {}, "parts": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    place = f"127.0.0.1:{server.server_port}"
    yield f"s3://bucket/saibot?endpoint_override={place}&scheme=http&region=us-east-1", handler.objects
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    address = str(tmp_path / "files") if request.param == "folder" else request.getfixturevalue("bucket")[0]
    return open_files(address)


def test_a_file_is_there_until_it_is_deleted(store: FileStore) -> None:
    store.put("ab/one.saibot", b"content")
    store.put("ab/one.saibot", b"content")  # the same again changes nothing
    store.put("two", b"x" * 300_000)
    assert sorted(store.names()) == ["ab/one.saibot", "two"]
    with store.open("two") as file:
        assert file.seek(0, 2) == 300_000
        file.seek(299_999)
        assert file.read(5) == b"x"
    store.delete("ab/one.saibot")
    store.delete("ab/one.saibot")
    assert list(store.names()) == ["two"]
    with pytest.raises(FileNotFoundError):
        store.open("ab/one.saibot")


def test_half_a_file_left_by_a_kill_is_no_file(tmp_path: Path) -> None:
    store = open_files(str(tmp_path))
    half = tmp_path / "ab" / f"{UNFINISHED}1a2b3c4d"
    half.parent.mkdir()
    half.write_bytes(b"cont")
    assert list(store.names()) == [] and list(half.parent.iterdir()) == []


def test_what_others_keep_in_the_same_folder_is_left_alone(tmp_path: Path, settings: Settings) -> None:
    files = tmp_path / "shared"
    (files / "domains").mkdir(parents=True)
    others = {".bashrc", f"{UNFINISHED}thesis", "thesis.docx", "domains/list.arrow"}
    for name in others:
        (files / name).write_bytes(b"years of work")
    stray = files / "ab" / f"{'ab' * 32}.saibot"
    for _ in range(2):
        Platform(settings.model_copy(update={"files": str(files)})).close()
        there = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()}
        assert {name for name in there if not name.startswith("set-aside/")} == others
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"an upload that was cut off: the second start sets it aside")


def test_a_new_database_does_not_take_another_platforms_sketches_for_rubbish(
    settings: Settings, provider: Caller, named: Callable[..., bytes], tmp_path: Path
) -> None:
    shared = settings.model_copy(update={"files": str(tmp_path / "files")})
    platform = Platform(shared)
    platform.accept(provider, named("kept"))
    platform.close()
    for _ in range(2):  # nor the second time it is tried
        with pytest.raises(InvalidInput, match="the database is new"):
            Platform(shared.model_copy(update={"data": tmp_path / "other"}))
    again = Platform(shared)
    assert len(list(again.files.names())) == 1
    again.close()


def test_a_full_disk_keeps_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("saibot.safe_file.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_safely(tmp_path / "one", b"content")
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_of_store_are_refused() -> None:
    with pytest.raises(InvalidInput, match="ftp"):
        open_files("ftp://somewhere")


def test_a_platform_keeps_its_sketches_in_a_bucket_and_searches_copies(
    bucket: tuple[str, dict[str, bytes]], settings: Settings, provider: Caller, named: object
) -> None:
    address, objects = bucket
    sketch = named("far-away")  # type: ignore[operator]
    platform = Platform(settings.model_copy(update={"files": address}))
    dataset, _ = platform.accept(provider, sketch)
    assert [content for name, content in objects.items() if name.endswith(".saibot")] == [sketch]
    with platform.open_sketch(provider, dataset.digest) as file:
        assert file.read() == sketch
    platform.shards.catch_up()
    assert len(platform.shards) == 1
    platform.withdraw(provider, dataset.id)
    assert not any(objects.values()) and len(platform.shards) == 0
    assert list((settings.data / "corpus" / "sketches").iterdir()) == []
    platform.close()
