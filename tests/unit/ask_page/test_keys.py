"""What a key means to the page: the same as to `saibot.domains`, letter by letter."""

from __future__ import annotations

import random
import unicodedata
from datetime import date, timedelta

import pytest

from saibot.domains import KeyDomain, folded, generated_domain, normal_key, spellings
from saibot.domains.times import counts_days, reading
from tests.support import case_folding as folding
from tests.support.page_script import run_script

IDS = """
    dates:2013-01-01:2013-12-31 dates:1999-12-30:2000-03-02 dates:0001-01-01:0001-02-01 weeks:2009-W50:2011-W02
    months:2012-11:2014-02 years:2010:2019 years:0099:0101 range:1:15 range:-3:12 range:department:1:15 range:weekday:1:7
    range:month-of-year:1:12 range:hour-of-day:0:23"""
SPELLED = IDS.split()
WRONG_IDS = """
    dates:2013-02-30:2013-03-01 dates:2013-02-01:2013-01-01 weeks:2013-W53:2014-W01 months:2013-00:2013-05 range:01:15
    range:5:1 range:Bad:1:5 range:-0:5 years:10:20 dates:2013-01-01 wards range:1:900000"""
NO_IDS = WRONG_IDS.split()
WORDS = """
    7 7.0 07 -7 -0 0 0.0 -0.0 00 1e-05 0.00001 1E-5 0.000010 1e-7 12345678901234567890 9007199254740993 2013-01-01
    2013-01-01T00:00:00 2013-02-30 2013-05-06T23:59 10:15 23:10:00 24:00 9:15 Straße STRASSE straße ǅ İ ı ſ K É Ω ﬁ ΰ
    __other__ 0000012 -007 1.50 +7 1e5 A-1 a-1 2013-W01 2013-01 1 12 15 3.0"""
TIMES = ("2013-01-01 00:00:00", "2013-01-01 00:00:00.000000", "2013-01-01 10:15:00")
BLANKS = ("", "   ", " 7 ", "\u00a07\u2003", "\x1c7", "\ufeff7")
TEXTS = [*WORDS.split(), *TIMES, *BLANKS, "1" * 330, "e\u0301", "\u00e9"]


def test_every_letter_folds_as_in_python():
    known = folding.folds()
    folds = run_script(
        """
        const { caseFolded } = await page("case_folding"), changed = {};
        for (let code = 0; code < 0x110000; code++) {
          if (code >= 0xd800 && code < 0xe000) continue;
          const letter = String.fromCodePoint(code), fold = caseFolded(letter);
          if (fold !== letter) changed[code] = fold;
        }
        return changed;"""
    )
    found = {int(code): fold for code, fold in folds.items()}
    assert found.items() <= known.items()  # a newer Unicode only adds letters
    if f"(Unicode {unicodedata.unidata_version})" in folding.FILE.read_text(encoding="utf-8"):
        assert folding.table() == folding.FILE.read_text(encoding="utf-8")
    assert len(found) > 1500


def test_texts_have_the_same_normal_form_spellings_and_folds():
    body = 'const s = await page("spelling"); return data.map((t) => [s.normalKey(t), s.spellings(t), s.folded(t)]);'
    for text, found in zip(TEXTS, run_script(body, TEXTS), strict=True):
        assert found == [normal_key(text), list(spellings(text)), folded(text)], text


def test_white_space_is_what_python_strips():
    letters = [chr(code) for code in range(0x3100) if chr(code).isspace() or chr(code) in "\ufeff\u200b\u180e\x1b"]
    body = 'const s = await page("spelling"); return data.map((l) => s.withoutWhiteSpace(`${l}x${l}`));'
    assert run_script(body, letters) == [f"{letter}x{letter}".strip() for letter in letters]


@pytest.mark.parametrize("id", SPELLED)
def test_a_domain_that_spells_itself_out_is_the_same_list_with_the_same_digests(id: str):
    domain = generated_domain(id)
    assert domain is not None
    body = """
        const { generatedDomain } = await page("key_domain"), c = await page("calendar"), d = generatedDomain(data);
        return [d.values, d.parents, d.digest, d.keysDigest, c.countsDays(data)];"""
    parents = [[name, list(column)] for name, column in domain.parents]
    assert run_script(body, id) == [list(domain.values), parents, domain.digest, domain.keys_digest, counts_days(id)]


def test_an_id_that_spells_no_keys_out_is_refused():
    body = 'const { generatedDomain } = await page("key_domain"); return data.map((id) => generatedDomain(id));'
    assert [generated_domain(id) for id in NO_IDS] == run_script(body, NO_IDS) == [None] * len(NO_IDS)


def listed(rng: random.Random) -> list[str]:
    """A list of keys that are hard to tell apart."""
    forms = [normal_key(text) for text in TEXTS]
    return [text for text in dict.fromkeys(rng.sample(forms, 12)) if text not in ("", "__other__") and "\x1c" not in text]


def test_texts_have_the_same_places_in_any_list():
    rng = random.Random(11)
    lists = [("wards", listed(rng)) for _ in range(150)]
    lists += [(id, list(generated_domain(id).values)) for id in SPELLED]  # type: ignore[union-attr]
    asked = [normal_key(text) for text in TEXTS]
    body = """
        const { KeyDomain } = await page("key_domain");
        return data.lists.map(([id, values]) => {
          const domain = new KeyDomain(id, 1, values);
          return [data.asked.map((text) => domain.place(text)), domain.digest, domain.keysDigest];
        });"""
    found = run_script(body, {"lists": lists, "asked": asked})
    for (id, values), answer in zip(lists, found, strict=True):
        domain = KeyDomain(id, 1, tuple(values))
        assert answer == [domain.places(asked).tolist(), domain.digest, domain.keys_digest], (id, values)


def test_days_of_four_centuries_have_the_same_weeks_and_numbers():
    days = [(date(1900, 1, 1) + timedelta(13 * n)).isoformat() for n in range(11_000)] + [
        "2000-02-29",
        "1900-02-28",
        "2016-12-31",
    ]
    body = """
        const c = await page("calendar");
        const ids = ["weeks", "months", "years", "range:weekday:1:7", "range:month-of-year:1:12"];
        const readings = ids.map((id) => c.readingOf(id));
        return data.map((day) => [c.dayText(c.dayNumber(day)), ...readings.map((read) => read(`${day} 10:00:00`))]);"""
    ids = ("weeks:", "months:", "years:", "range:weekday:", "range:month-of-year:")
    for day, (text, *found) in zip(days, run_script(body, days), strict=True):
        assert text == day
        assert found == [read(f"{day} 10:00:00") for id in ids if (read := reading(id)) is not None]
