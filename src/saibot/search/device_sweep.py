"""Parts that are swept on a GPU: copied into its memory once, as far as they fit; what is not asked for stays there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saibot.search.board import Board
from saibot.search.parts import PartSweep, ShardPart
from saibot.search.scoring import Base


class DeviceSweep(PartSweep):
    """Needs torch and triton, and a GPU that they see. One feature at a time."""

    def __init__(self, parts: Sequence[ShardPart]) -> None:
        super().__init__(parts)
        self._there: Any = None  # `saibot.search.gpu.DeviceShards`, from the first step on

    def board(self, bases: Mapping[int, Base], quantile: float, *, potential: bool = False) -> Board:
        from saibot.search import gpu

        self._there = self._there or gpu.DeviceShards()
        found, bounds = [], []
        for number, part in enumerate(self.parts):
            scores = self._there.scores(number, part.rows.values, bases[part.view], quantile=quantile)
            found += scores
            if potential:
                names = ("gain", "deviation")
                columns = {name: np.asarray(gpu.DeviceColumn([one.column(name) for one in scores])) for name in names}
                bounds.append(part.potential(columns, bases[part.view], quantile))
        if not found:
            return super().board(bases, quantile, potential=potential)
        whole = {name: gpu.DeviceColumn([scores.column(name) for scores in found]) for name in gpu.SCORES}
        columns = {name: np.concatenate([part[name] for part in bounds]) for name in (bounds[0] if bounds else ())}
        return Board(
            gain=whole["gain"],
            lower=whole["lower"],
            deviation=whole["deviation"],
            coefficient=whole["coefficient"],
            keys=np.concatenate([np.full(len(part), bases[part.view].keys) for part in self.parts]),
            rank=(columns["potential"], columns["potential_lower"]) if bounds else None,
            device_rank=whole["rank"],
            providers=self.providers,
        )


def gpu_is_there() -> bool:
    """Whether torch and triton are installed and see a GPU."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        return False
    return bool(torch.cuda.is_available())
