"""Files that the page makes: readers accept them, their header is the product's own spelling, any Arrow tool opens them."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from functools import cache

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from saibot.errors import InvalidSketch
from saibot.platform.validation import accepted_sketch
from saibot.privatize import Card
from saibot.search.from_sketches import search_request
from saibot.sketch import read_sketch, write_sketch
from tests.support.page_script import run_script

FILES = """
  const made = {};
  for (const [name, one] of Object.entries(data)) made[name] = await files(one);
  return made;
  async function files(data) {
  const { cardOf, cardToml } = await page("card"), { listedDomain, generatedDomain } = await page("key_domain");
  const l = await page("ledger"), r = await page("request"), { spelled, values } = data.typed.key ?? {};
  const key = data.typed.key && {
    ...data.typed.key,
    domain: spelled ? generatedDomain(spelled) : listedDomain("wards", 2, values),
    source: { kind: spelled ? "spelled" : "list" },
  };
  const card = cardOf({ ...data.typed, key }), names = data.content.split("\\n")[0].split(",");
  const options = { again: false, now: "2026-03-04T05:06:07Z", progress: async () => {} };
  const ready = await r.prepared(new File([data.content], "t.csv"), names, card, l.newLedger(), options);
  const done = await r.drawn(ready, l.readLedger(l.ledgerText(ready.ledger)), async () => {});
  return {
    toml: cardToml(card),
    files: done.files.map(({ content }) => Buffer.from(content).toString("base64")),
    rows: ready.releases.map(({ plan }) => plan.request.rows),
  };
  }"""
TABLE = "cost,sex,ward,day\n" + "".join(f"{n % 90},{'fm'[n % 2]},W{n % 5},2024-01-{1 + n % 28:02d}\n" for n in range(300))
TYPED = {
    "name": "my-table",
    "title": "Ä “title”, 😀",
    "individual": "one patient",
    "neighbours": "replace-one",
    "features": [
        {"column": "cost", "name": "Kosten in €", "kind": "bounds", "lower": "0", "upper": "1e2", "unit": "€"},
        {"column": "sex", "kind": "levels", "levels": ["f", "m"]},
    ],
    "key": {"column": "ward", "name": "Sta\u0308tion", "values": ["W1", "W2", "é\u0301", "😀"]},
    "epsilon": "1.50",
    "delta": "0.000001",
    "capEpsilon": "3",
    "test": "0.25",
}
CASES = {
    "list": {},
    "days": {"key": {"column": "day", "spelled": "dates:2024-01-01:2024-01-31"}},
    "no key": {"key": None},
    "add-remove": {"neighbours": "add-remove", "maxRows": "1000", "key": None},
    "by id": {"id": "day", "rowsPerIndividual": "2", "maxRows": "1000"},
    "one part": {"test": "0"},
}


OTHER_ROWS = "cost,sex,ward,day\n" + "nan,x,elsewhere,never\n" * 300


@cache
def all_made() -> dict:
    """Files of every case, made in one go."""
    asked = {name: {"content": TABLE, "typed": TYPED | other} for name, other in CASES.items()}
    return run_script(FILES, asked | {"other rows": {"content": OTHER_ROWS, "typed": TYPED | CASES["one part"]}})


def made(case: str = "list") -> tuple[list[bytes], dict]:
    found = all_made()[case]
    return [base64.b64decode(content) for content in found["files"]], found


@pytest.mark.parametrize("case", CASES)
def test_readers_and_platforms_accept_them(case: str):
    files, found = made(case)
    for part, content in zip(("train", "test"), files, strict=False):
        sketch, kept = accepted_sketch(content, accept_unsafe=False)
        assert sketch.header.dataset.name == f"my-table-{part}"
        assert write_sketch(sketch) == kept
        # The header is written in the very letters that the product writes it in.
        texts = [pa.ipc.open_file(file).schema.metadata[b"saibot"] for file in (content, kept)]
        assert texts[0] == texts[1]
        assert sketch.header.created == "2026-03-04"
        assert sketch.header.rows == (
            found["rows"][0 if part == "train" else 1] if sketch.header.assumptions.row_count_public else None
        )
    assert len(files) == (1 if case == "one part" else 2)
    if len(files) == 2:
        request = search_request(*map(read_sketch, files), target="Kosten in €")
        assert (request.key is None) == ((TYPED | CASES[case])["key"] is None)


def test_the_card_for_the_command_line_says_the_same(tmp_path):
    files, found = made()
    (tmp_path / "card.toml").write_text(found["toml"], encoding="utf-8")
    card, header = Card.read(tmp_path / "card.toml"), read_sketch(files[0]).header
    assert card.budget is not None and card.budget.limit.epsilon == Decimal(3)
    assert [feature.name for feature in header.features] == ["Kosten in €", "sex=f", "sex=m"]
    assert card.dataset.title == header.dataset.title and card.features["Kosten in €"].bounds == (0, 100)
    assert header.key is not None and list(card.keys) == [header.key.name]


def test_other_tools_read_them():
    (content, _), _ = made()
    frame = pl.read_ipc(io.BytesIO(content), use_pyarrow=False)
    sketch = read_sketch(content)
    assert frame.columns == ["level", "key:Sta\u0308tion", "c", "s:Kosten in €", "s:sex=f", "s:sex=m"]
    assert np.array_equal(frame.select("c", "s:Kosten in €", "s:sex=f", "s:sex=m").to_numpy(), sketch.levels[0].values)
    assert frame.columns[1] in frame.columns and frame.to_series(1).to_list() == [*map(str, sketch.levels[0].keys[0])]


def test_a_changed_file_is_refused():
    (content, _), _ = made()
    for at in range(len(content) // 3, len(content), 397):
        broken = bytearray(content)
        broken[at] ^= 1
        try:
            sketch = read_sketch(bytes(broken))
        except InvalidSketch:
            continue
        assert sketch.digest == read_sketch(content).digest  # padding alone


def test_nothing_of_the_rows_is_in_the_header_but_their_public_number():
    """Two tables with other cells, other keys and other spellings give headers that differ in noise alone."""
    texts = []
    for case in ("one part", "other rows"):
        (content,), _ = made(case)
        header = json.loads(pa.ipc.open_file(content).schema.metadata[b"saibot"])
        for name in ("digest", "global_blocks", "account"):
            del header[name]
        texts.append(json.dumps(header, sort_keys=True))
    assert texts[0] == texts[1]
