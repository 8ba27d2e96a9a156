"""The guide at /help: its own policy, its own files and nothing else; and what is said where there is none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from saibot.embedded import embedded_settings, make_app
from saibot.platform.pages import help_site

PAGE = '<html><script src="a.js"></script></html>'


def write(path: Path, words: str = PAGE) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps({"scripts": ["sha256-AAA=", "sha256-BBB="]}))
        archive.writestr("index.html", words)
        archive.writestr("assets/a.js", "1")
        archive.writestr(zipfile.ZipInfo("x.png"), b"picture")
        archive.writestr("secret.txt", "not of a kind that is served")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(help_site, "ARCHIVE", tmp_path / "help.zip")
    return TestClient(make_app(embedded_settings(tmp_path / "data")), follow_redirects=False)


def test_without_its_guide_a_platform_says_how_to_get_it(client: TestClient) -> None:
    for address in ("/help", "/help/", "/help/guides/install.html"):
        answer = client.get(address)
        assert answer.status_code == 404 and "make site" in answer.text
    assert 'href="/help/guides/use-the-pages.html#catalogue"' in client.get("/").text


def test_the_guide_is_served_with_the_digests_of_its_scripts_and_nothing_else_may_run(
    client: TestClient, tmp_path: Path
) -> None:
    write(tmp_path / "help.zip")
    for address in ("/help", "/help/"):
        assert client.get(address).headers["location"] == "/help/index.html"
    page = client.get("/help/index.html")
    assert page.text == PAGE and page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "script-src 'sha256-AAA=' 'sha256-BBB=';" in policy and "'unsafe" not in policy
    assert "'self'" not in policy.partition("script-src")[2].partition(";")[0]
    assert page.headers["x-frame-options"] == "DENY" and page.headers["x-content-type-options"] == "nosniff"


def test_files_are_sent_as_they_are_packed(client: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "help.zip", PAGE * 100)
    packed = client.get("/help/index.html", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and packed.text == PAGE * 100
    plain = client.get("/help/index.html", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text == PAGE * 100
    assert client.get("/help/x.png").content == b"picture"
    again = client.get("/help/index.html", headers={"if-none-match": plain.headers["etag"]})
    assert again.status_code == 304 and again.content == b""


@pytest.mark.parametrize(
    "name", ["nothing.html", "manifest.json", "secret.txt", "../about.html", "..%2f..%2fmount.py", "assets"]
)
def test_nothing_but_pages_and_what_they_load_is_served(client: TestClient, tmp_path: Path, name: str) -> None:
    write(tmp_path / "help.zip")
    assert client.get(f"/help/{name}").status_code == 404


def test_a_guide_that_is_written_anew_is_read_anew(client: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "help.zip")
    assert client.get("/help/index.html").text == PAGE
    write(tmp_path / "new.zip", "<html>another, longer guide</html>")
    (tmp_path / "new.zip").replace(tmp_path / "help.zip")
    assert client.get("/help/index.html").text == "<html>another, longer guide</html>"


def test_the_interface_for_programs_is_one_of_the_pages(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200 and "/v1/datasets" in page.text and 'class="brand"' in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"] and "style=" not in page.text
