"""A small server that speaks as much of the S3 protocol as a client needs to keep files."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


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
        if source := self.headers.get("x-amz-copy-source"):
            self.objects[self.key] = self.objects[unquote(source).lstrip("/").removeprefix("bucket/")]
            text = b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"
            return self.answer(200, text, Content_Type="application/xml")
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


@contextmanager
def object_store() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a store, and what is in it. Whoever uses it needs `KEYS` in the environment."""
    handler = type("Own", (Bucket,), {"objects": {}, "parts": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"127.0.0.1:{server.server_port}"
    yield f"s3://bucket/saibot?endpoint_override={place}&scheme=http&region=us-east-1", handler.objects
    server.shutdown()
    server.server_close()
