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
FEWEST_KEYS = 8  # noisy counts of fewer could agree by chance, among many sketches


def payload_of(sketch: Sketch) -> str:
    """sha256 of the noisy counts of the finest keys, sorted: a sketch from which features were dropped still has them.

    Of an open sketch, of simulated noise and of few keys counts may agree by themselves: then all numbers count as they lie.
    """
    header = sketch.header
    drawn = not header.open and not header.simulation
    if drawn and sketch.levels and len(sketch.levels[0]) > FEWEST_KEYS:
        return hashlib.sha256(VERSION + b"counts\n" + _bytes(np.sort(sketch.levels[0].values[:, 0]))).hexdigest()
    columns = [_bytes(column) for table in sketch.levels for column in table.values.T]
    blocks = [_bytes(np.array(block.values)) for block in header.global_blocks]
    sha = hashlib.sha256(VERSION + b"all\n")
    for part in sorted(hashlib.sha256(part).digest() for part in columns + blocks):
        sha.update(part)
    return sha.hexdigest()


def _bytes(values: np.ndarray) -> bytes:
    return (values + 0.0).astype("<f8").tobytes()  # + 0.0: there is one zero
