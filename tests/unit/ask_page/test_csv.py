"""Text files as the page reads them: whatever it accepts, the product reads as the same cells."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from saibot.errors import InvalidTable
from saibot.privatize.heading import why_no_names
from saibot.privatize.read import open_table
from tests.support.page_script import run_script

READ = """
    const { readRows } = await page("csv"), { Refused } = await page("refused");
    const answers = [];
    for (const { name, content } of data) {
      const file = new File([Buffer.from(content, "base64")], name), rows = [];
      try {
        await readRows(file, (cells) => rows.push(cells));
        answers.push(rows);
      } catch (problem) {
        if (!(problem instanceof Refused)) throw problem;
        answers.push(problem.message);
      }
    }
    return answers;"""
GOOD = {
    "plain": b"a,b\n1,2\n3,4\n",
    "without a last line end": b"a,b\n1,2\n3,4",
    "carriage returns": b"a,b\r\n1,2\r\n3,4",
    "empty lines": b"\n\na,b\n1,2\n\n3,4\n\n\n",
    "one column with empty lines": b"a\n1\n\n3\n\n",
    "quotes": b'a,b\n"x,y","a""b"\n"line\nbreak",4\n"""",""\n',
    "line ends in quotes": b'a,b\r\n"x\ny","z\r\nw"\r\n',
    "byte order mark": b"\xef\xbb\xbfa,b\n1,2\n",
    "blanks": b"a, b \n 1 , 2\n  ,4\n",
    "names alone": b"a,b",
    "odd letters": "a,b\n\x00,é\n\ufffe,😀\n\x1c,\u2028\n".encode(),
}
BAD = {
    "mixed line ends": b"a,b\n1,2\r\n3,4\n",
    "a lone carriage return": b"a,b\n1\r,2\n",
    "a lone carriage return at the end": b"a,b\n1,2\r",
    "carriage returns alone": b"a,b\r1,2\r3,4\r",
    "too few cells": b"a,b\n1\n",
    "too many cells": b"a,b\n1,2,3\n",
    "a quote inside": b'a,b\n1"2,3\n',
    "a quote after a blank": b'a,b\n "1",2\n',
    "letters after a quote": b'a,b\n"1"x,2\n',
    "an open quote": b'a,b\n"1,2\n',
    "no UTF-8": b"a,b\n\xff,2\n",
    "a surrogate": b"a,b\n\xed\xa0\x80,2\n",
    "nothing": b"",
    "empty lines alone": b"\n\n",
}


def read_by_page(files: dict[str, bytes]) -> list:
    return run_script(
        READ, [{"name": name, "content": base64.b64encode(content).decode()} for name, content in files.items()]
    )


def read_by_product(content: bytes, folder: Path, ending: str) -> list[list[str]] | None:
    path = folder / f"table{ending}"
    path.write_bytes(content)
    try:
        source = open_table(path)
        table = source.fetch(source.table)
    except InvalidTable:
        return None
    columns = [["" if cell is None else cell for cell in column.to_pylist()] for column in table.columns]
    return [table.column_names, *(list(row) for row in zip(*columns, strict=True))]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_sound_files_are_read_alike(tmp_path: Path, ending: str):
    files = {
        f"{name}{ending}": content.replace(b",", b"\t") if ending == ".tsv" else content for name, content in GOOD.items()
    }
    for (name, content), found in zip(files.items(), read_by_page(files), strict=True):
        wanted = read_by_product(content, tmp_path, ending)
        assert wanted is not None, name
        assert [[cell.strip() for cell in found[0]], *found[1:]] == wanted, name


def test_files_that_could_be_misread_are_refused_without_a_cell_in_the_message():
    for (name, _), said in zip(
        BAD.items(), read_by_page({f"{name}.csv": content for name, content in BAD.items()}), strict=True
    ):
        assert isinstance(said, str), name
        assert not any(character in said for character in "3\xff"), name


def test_whatever_the_page_accepts_the_product_reads_alike(tmp_path: Path, full: bool):
    rng, count = random.Random(8), 3000 if full else 120
    letters = [b"a", b"1", b" ", b",", b",", b'"', b'"', b"\n", b"\n", b"\r\n", b"\r", "é".encode(), b"\t"]
    files = {}
    for number in range(count):
        line_end = rng.choice([b"\n", b"\n", b"\r\n"])
        rows = []
        for _ in range(rng.randrange(1, 5)):
            cells = [b"".join(rng.choices([*letters[:3], b"x"], k=rng.randrange(3))) for _ in range(2)]
            cells = [
                b'"' + b"".join(rng.choices([*letters[:5], b'""', b"\n"], k=2)) + b'"' if rng.random() < 0.3 else c
                for c in cells
            ]
            rows.append(b",".join(cells))
        content = bytearray(b"p,q" + line_end + line_end.join(rows) + (line_end if rng.random() < 0.5 else b""))
        for _ in range(rng.choice([0, 0, 0, 1])):  # one slip
            content[rng.randrange(4, len(content) + 1) : 0] = rng.choice(letters)
        files[f"t{number}.csv"] = bytes(content)
    accepted = 0
    for content, found in zip(files.values(), read_by_page(files), strict=True):
        if isinstance(found, list):
            assert found == read_by_product(content, tmp_path, ".csv"), content
            accepted += 1
    assert count / 3 < accepted < count


def test_large_files_are_read_in_pieces_that_break_anywhere():
    rows = [[f"{n}", "é\n\r\n" if n % 7 == 0 else "x" * (n % 50)] for n in range(60_000)]
    lines = ["a,b", *(f'{first},"{second}"' if "\n" in second else f"{first},{second}" for first, second in rows)]
    (found,) = read_by_page({"large.csv": "\n".join(lines).encode()})
    assert found == [["a", "b"], *rows]


def test_a_first_line_of_cells_is_recognised_as_by_the_product():
    lines = [
        *(
            ["name", "age"],
            ["name", ""],
            ["7", "x"],
            ["1,234.5", "x"],
            ["2013-01-30", "x"],
            ["30 January 2013", "x"],
            ["x", "10:15"],
        ),
        *(
            ["x", "yes"],
            ["n/a", "x"],
            ["a@b.org", "x"],
            ["Name", "name"],
            ["---", "x"],
            ["Jan 30, 2013", "x"],
            ["0xff", "x"],
            ["May 2013"],
        ),
        *(["12e-5 %", "x"], ["20130130T1015Z", "x"], ["https://x", "y"], ["may", "june"], ["2e", "x"], ["é", "ß"]),
    ]
    body = 'const { whyNoNames } = await page("heading"); return data.map((cells) => whyNoNames(cells));'
    assert run_script(body, lines) == [why_no_names(line) for line in lines]
