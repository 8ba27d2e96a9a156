"""What a sketch's released numbers are, whatever they are called: a copy under another name has the same payload.

Noise is drawn once, so two releases never agree in a column of noisy counts, and whoever has the same numbers there, in
whatever order, has copied them. Names, texts and bounds say nothing about that and are left out. Somebody who changes the
numbers themselves has another payload; that is then no longer what was released (docs/explanation/threat-model.md).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from saibot.sketch.sketch import Sketch

VERSION = b"saibot payload 1\n"
BITS = 48  # that counts must hold by themselves, so that among many sketches none agree by chance
VALUES = 24  # different ones that sorted counts must have: how often each occurs holds two bits and more


def payload_of(sketch: Sketch) -> str:
    """sha256 of the noisy counts of the finest keys, sorted: a sketch from which features were dropped still has them.

    Where counts are alike, sorted ones may agree by chance (a row for every key, and hardly any noise): then they count as
    they lie, and of few keys, of simulated noise and of an open sketch all numbers. This goes by the numbers alone, which
    whoever copies them cannot change.
    """
    header = sketch.header
    if not header.open and not header.simulation and sketch.levels:
        counts = sketch.levels[0].values[:, 0]
        _, often = np.unique(counts, return_counts=True)
        if len(often) >= VALUES:
            return hashlib.sha256(VERSION + b"counts\n" + _bytes(np.sort(counts))).hexdigest()
        if float(often @ np.log2(len(counts) / often)) >= BITS:
            return hashlib.sha256(VERSION + b"counts by key\n" + _bytes(counts)).hexdigest()
    columns = [_bytes(column) for table in sketch.levels for column in table.values.T]
    blocks = [_bytes(np.array(block.values)) for block in header.global_blocks]
    sha = hashlib.sha256(VERSION + b"all\n")
    for part in sorted(hashlib.sha256(part).digest() for part in columns + blocks):
        sha.update(part)
    return sha.hexdigest()


def _bytes(values: np.ndarray) -> bytes:
    return (values + 0.0).astype("<f8").tobytes()  # + 0.0: there is one zero
