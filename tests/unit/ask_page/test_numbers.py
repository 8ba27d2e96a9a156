"""The page spells numbers as Python does: a sketch's digest covers its header as text."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import random
import struct
from decimal import Decimal

from saibot.privacy.budget import plain
from tests.support.page_script import run_script

ODD = (
    0.0,
    -0.0,
    1e23,
    9.999999999999999e22,
    5e-324,
    1.7976931348623157e308,
    1e15,
    1e16,
    999999999999999.5,
    1e-4,
    1e-5,
    123456.0,
)
TIES = (1234567890123.125, 1234567890123.375, -1234567890123.125, 0.5, 4503599627370497.5)  # between two of fifteen digits


def floats(count: int) -> list[float]:
    rng = random.Random(5)
    found = [*ODD, *TIES]
    while len(found) < count:
        kind = rng.random()
        if kind < 0.4:
            value = struct.unpack(">d", rng.getrandbits(64).to_bytes(8, "big"))[0]
        elif kind < 0.7:
            value = rng.choice([-1, 1]) * rng.randrange(10**17) / 10 ** rng.randrange(20)
        else:
            value = rng.randrange(2**52) / 2 ** rng.randrange(30)
        if math.isfinite(value):
            found.append(value)
    return found


def as_bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def test_floats_are_spelled_and_shortened_as_by_python():
    wanted = floats(20_000)
    found = run_script(
        """
        const { pythonFloat, fifteenDigits } = await page("numbers");
        const view = new DataView(new ArrayBuffer(8));
        return data.map((bits) => {
          view.setBigUint64(0, BigInt(`0x${bits}`));
          const x = view.getFloat64(0);
          view.setFloat64(0, fifteenDigits(x));
          return [pythonFloat(x), view.getBigUint64(0).toString(16).padStart(16, "0")];
        });""",
        [as_bits(value) for value in wanted],
    )
    for value, (text, short) in zip(wanted, found, strict=True):
        assert text == repr(value)
        assert short == as_bits(float(f"{value:.15g}")), value


def test_decimals_have_the_one_spelling_of_budgets():
    texts = [
        "1",
        "1e-6",
        "0.25",
        "100000",
        "1e16",
        "12345678901234567",
        "0.00001",
        "0.000001",
        "1.50",
        "-3",
        "0",
        ".5",
        "+2.",
    ]
    body = 'const n = await page("numbers"); return data.map((text) => n.plainDecimal(n.decimalOf(text)));'
    assert run_script(body, texts) == [plain(Decimal(text)) for text in texts]
    refused = ["", "1e", "nan", "inf", "1_0", "0x1", "1e31", "1e-31", "1" * 31, "1,5"]
    assert run_script('const n = await page("numbers"); return data.map((t) => n.decimalOf(t));', refused) == [None] * 10


def test_hashes_are_those_of_everybody():
    texts = ["", "abc", "é" * 1000, "x" * 55, "x" * 56, "x" * 63, "x" * 64, "x" * 119]
    body = """
        const { sha256Hex, hmacHex } = await page("sha256");
        const keyed = [hmacHex(new Uint8Array(32).fill(7), "hello"), hmacHex(new Uint8Array(99), "")];
        return [data.map((text) => sha256Hex(text)), ...keyed];"""
    hashes, keyed, long = run_script(body, texts)
    assert hashes == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    assert keyed == hmac.new(b"\7" * 32, b"hello", hashlib.sha256).hexdigest()
    assert long == hmac.new(bytes(99), b"", hashlib.sha256).hexdigest()


def test_json_has_the_spelling_that_readers_write_anew():
    texts = ["", 'a"b\\', "\n\t\x01\x7f", "é😀\u2028", "ﬀ", "\ue000"]
    document = {text: [text, {"z": 1, "a": None}] for text in texts} | {"😀": True, "\uffff": False}
    found = run_script('const { canonicalJson } = await page("canonical_json"); return canonicalJson(data);', document)
    assert found == json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_people_read_a_minus_and_powers_of_ten_as_on_other_pages() -> None:
    body = """
        const { told } = await page("refused");
        return data.map(told);"""
    texts = ["1e-6", "2.5e-7", "0.01", "0", "-0.5", "1"]
    assert run_script(body, texts) == ["10⁻⁶", "2.5×10⁻⁷", "0.01", "0", "−0.5", "1"]
