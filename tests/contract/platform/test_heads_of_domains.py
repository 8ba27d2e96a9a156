"""A key domain that others download as CSV has no head that a spreadsheet takes for a formula; keys stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from saibot.domains.csv_text import FORMULA, domain_from_csv
from saibot.report.spreadsheet import harmless

CSV = {"Content-Type": "text/csv"}


UNSEEN = ["\n=1+1", "\r\n=1+1", " \n+1", "\u00a0=1+1", "\u2028=1+1", "\ufeff=1+1", "\u200b-1", "\nplain"]


@pytest.mark.parametrize("head", ['=HYPERLINK("http://x")', "+1", "-1", "@sum", " =1+1", *UNSEEN])
@pytest.mark.parametrize("place", [0, 1])
def test_a_head_that_is_a_formula_is_refused(server: Any, head: str, place: int) -> None:
    owner = server.account("provider")
    heads = ["code", "region"]
    heads[place] = '"' + head.replace('"', '""') + '"'
    content = f"{','.join(heads)}\na,north\nb,south\n".encode()
    refused = owner.put(f"/v1/domains/{owner.account}/1", content=content, headers=CSV)
    assert refused.status_code == 422 and "formula" in refused.text and "HYPERLINK" not in refused.text
    assert owner.get(f"/v1/domains/{owner.account}/1").status_code == 404
    assert domain_from_csv(content, id="mine", version=1).values == ("a", "b"), "a file of one's own is read as it is"


def test_other_heads_are_taken(server: Any) -> None:
    owner = server.account("provider")
    content = 'key,a=b,"two\nlines",état\na,x,y,z\n'.encode()
    assert owner.put(f"/v1/domains/{owner.account}/1", content=content, headers=CSV).status_code == 201


def test_keys_come_back_as_they_were_sent(server: Any) -> None:
    owner = server.account("provider")
    content = b"key,region\n=1+1,@north\n-5,+south\n"
    assert owner.put(f"/v1/domains/{owner.account}/1", content=content, headers=CSV).status_code == 201
    assert server.client().get(f"/v1/domains/{owner.account}/1/file").content == content


def test_downloads_and_domains_mean_the_same_by_a_formula() -> None:
    assert all(harmless(f"{letter}x") == f"'{letter}x" for letter in FORMULA) and harmless("x=1") == "x=1"
    assert all(harmless(text) == f"'{text}" for text in UNSEEN) and harmless("") == "" and harmless(" x") == " x"
