"""Statistics before noise, and the vector that gets it: the page's are the product's, number by number."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.page_requests import IN_NODE, cells_that_agree
from tests.support.page_script import run_script

ODD_NUMBERS = [
    "",
    "x",
    "NaN",
    "inf",
    "-inf",
    "1e400",
    " 7 ",
    "true",
    "0.1",
    "-0",
    "5.",
    ".5",
    "1e-7",
    "100",
    "0",
    "99.99999999999999",
]
ODD_KEYS = ["W1", "w1", " W1 ", "W1.0", "W2", "W3", "nowhere", "", "Ä", "A\u0308", "ä", "7", "07", "7.0", "1e-05", "0.00001"]
ODD_LEVELS = ["f", "m", "F", " f", "", "é", "e\u0301", "1", "1.0"]
ODD_IDS = ["1", "1.0", "01", "-0", "0", "nan", "", "p-1", "p-2", "0.00001", "1e-05", "x"]
FEATURES = [
    {"column": "cost", "kind": "bounds", "lower": "0", "upper": "100", "unit": "EUR"},
    {"column": "age", "kind": "bounds", "lower": "-10", "upper": "97.3", "missing": "33.3", "name": "years old"},
    {"column": "sex", "kind": "levels", "levels": ["f", "m", "é", "1"]},
]
LIST = {"column": "ward", "name": "place", "id": "wards", "values": ["W1", "W2", "W3", "Ä", "7", "1e-05"]}
DAYS = {"column": "day", "spelled": "dates:2024-01-01:2024-01-31"}
MONTHS = {"column": "day", "spelled": "months:2023-12:2024-02"}
COMMON = {"name": "my-table", "individual": "one patient", "epsilon": "1", "delta": "1e-6", "test": "0.3"}


def table_text(rng: random.Random, rows: int) -> str:
    days = ["2024-01-05", "2024-01-05 10:00:00", "2024-01-31T00:00:00", "2024-02-01", "2024-02-30", "x", "", " 2024-01-06 "]
    lines = ["cost,age,sex,ward,day,who"]
    for _ in range(rows):
        numbers = [rng.choice(ODD_NUMBERS) if rng.random() < 0.2 else repr(rng.gauss(50, 30)) for _ in range(2)]
        others = [rng.choice(words) for words in (ODD_LEVELS, ODD_KEYS, days)]
        # Enough individuals that both parts of a split, which is drawn anew each time, have numbers and keys to read.
        who = rng.choice(ODD_IDS) if rng.random() < 0.3 else f"p-{rng.randrange(3, 200)}"
        lines.append(",".join([*numbers, *others, who]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "case",
    [
        {"key": LIST, "neighbours": "replace-one"},
        {"key": DAYS, "neighbours": "replace-one", "epsilon": "0.1"},
        {"key": MONTHS, "neighbours": "add-remove", "maxRows": "1000"},
        {"key": None, "neighbours": "replace-one", "delta": "1e-4"},
        {"key": None, "neighbours": "add-remove", "maxRows": "40"},  # fewer than there are: sums are clamped
        {"key": LIST, "neighbours": "replace-one", "id": "who", "rowsPerIndividual": "1", "maxRows": "500"},
        {"key": DAYS, "neighbours": "add-remove", "id": "who", "rowsPerIndividual": "3", "maxRows": "500", "test": "0"},
        {"key": LIST, "neighbours": "replace-one", "features": FEATURES[:1], "test": "0.5"},
    ],
    ids=["list", "days", "months", "no-key", "clamped", "one-row-each", "three-rows-each", "one-feature"],
)
def test_statistics_before_noise_are_the_products(tmp_path: Path, case: dict):
    rng = random.Random(str(sorted(case)))
    typed = COMMON | {"features": FEATURES} | case
    text = table_text(rng, 400)
    found = run_script(IN_NODE, {"name": "table.csv", "content": text, "typed": typed})
    assert found["doubts"] == []
    assert cells_that_agree(found, text, typed, tmp_path) >= 10


def test_rows_that_mean_the_same_are_told_apart_by_how_they_are_written(tmp_path: Path):
    rng = random.Random(2)
    lines = ["cost,ward,who"]
    lines += [
        ",".join(map(rng.choice, (["1", "1.0", "01", " 1", ""], ["7", "07", "7.0", "", "+7"], "abcde"))) for _ in range(200)
    ]
    key = {"column": "ward", "id": "wards", "values": ["7", "07", "+7"]}  # three keys that are one number
    typed = COMMON | {
        "features": FEATURES[:1],
        "key": key,
        "neighbours": "replace-one",
        "id": "who",
        "maxRows": "99",
        "rowsPerIndividual": "4",
    }
    text = "\n".join(lines) + "\n"
    found = run_script(IN_NODE, {"name": "table.csv", "content": text, "typed": typed})
    assert cells_that_agree(found, text, typed, tmp_path) > 10
    assert sum(int(release["whole"][0]) for release in found["releases"]) == 4 * 5


def test_a_release_that_would_be_noise_alone_is_doubted():
    text = "cost,age,ward\nx,1,A\ny,2,B\n"
    typed = COMMON | {"features": FEATURES[:2], "key": LIST, "neighbours": "replace-one", "test": "0"}
    found = run_script(IN_NODE, {"name": "table.csv", "content": text, "typed": typed})
    assert found["doubts"] == [
        "no cell of the column cost reads as a number.",
        "no row has a key of the list: all of them would count as other.",
    ]


def test_products_of_very_many_rows_stay_exact():
    """As if a table of any length were read: rows at their bound, on a grid that leaves room for few of them in a float."""
    body = """
        const { aggregate } = await page("statistics");
        const text = "x\\n" + "100\\n".repeat(data.rows) + "0\\n".repeat(3), file = new File([text], "t.csv");
        const table = { features: [{ column: "x", lower: 0, upper: 100, missing: null }], at: [0], key: null, id: null };
        const [sums] = await aggregate(file, new Uint8Array(data.rows + 3), [{ part: 0, bits: 25 }], table);
        return sums.whole;"""
    rows, one = 9, 1 << 25  # products of 2^50: four of them fill what is exact in a float
    assert run_script(body, {"rows": rows}) == [str(rows + 3), str((rows - 3) * one), str((rows + 3) * one**2)]
