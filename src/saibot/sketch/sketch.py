"""The sketch: the only thing that crosses the trust boundary. Frozen, and already private, or of a table that is open."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Self

import numpy as np
import pyarrow as pa

from saibot.errors import InvalidSketch
from saibot.privacy.mechanisms import EXACT, Plan
from saibot.privacy.mechanisms.plan import Block, Scope
from saibot.semiring import Basis, Monomial
from saibot.sketch.allowed import check_numbers
from saibot.sketch.exact import check_exact, exact_blocks, exact_layout
from saibot.sketch.header import Header

TOGETHER = 1 << 19  # values that are copied at a time


@dataclass(frozen=True, eq=False)
class LevelTable:
    """Noisy statistics of one key level: row i belongs to key i; the last row is the catch-all."""

    texts: tuple[np.ndarray | pa.StringArray, ...]  # one column per key part (coarser levels: one), as it was made or read
    values: np.ndarray  # (keys, entries), the columns of `Sketch.key_basis`

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def keys(self) -> tuple[np.ndarray, ...]:
        """One array of text per key part. Made when it is asked for: a text takes ten times its letters in memory."""
        found = tuple(
            np.array(part.to_pylist(), dtype=object) if isinstance(part, pa.StringArray) else part for part in self.texts
        )
        for part in found:
            part.setflags(write=False)
        return found

    @property
    def columns(self) -> tuple[pa.StringArray, ...]:
        """The keys as files hold them: all letters in one piece, without a Python object for each key."""
        return tuple(
            part if isinstance(part, pa.StringArray) else pa.array(part.tolist(), pa.string()) for part in self.texts
        )


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """A header, the global blocks in it, and one table per key level (none for a union-only sketch)."""

    header: Header
    levels: tuple[LevelTable, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {said}" for name, said in self._in_short().items())

    def _repr_html_(self) -> str:
        """What notebooks show: the same few lines as a table."""
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(said)}</td></tr>" for name, said in self._in_short().items())
        return f"<table>{rows}</table>"

    def _in_short(self) -> dict[str, str]:
        header, key = self.header, self.header.key
        by = "no key" if key is None else f"{key.name} ({len(self.levels[0]) - 1:,} keys)" if self.levels else key.name
        names = ", ".join(self.features[:8]) + (f" and {len(self.features) - 8} more" if len(self.features) > 8 else "")
        price = ", ".join(f"{name} {amount}" for name, amount in header.budget.items())
        return {
            "sketch": f"{header.dataset.name}, edition {header.edition}, by {by}",
            "features": names,
            "protects": f"{header.dataset.individual}, {price}, {header.neighbours}",
            "preparation": header.preparation.kind + (", SIMULATED noise" if header.simulation else ""),
            "digest": (header.digest or "not sealed")[:16],
        }

    @property
    def digest(self) -> str:
        assert self.header.digest is not None
        return self.header.digest

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.header.features)

    @cached_property
    def plan(self) -> Plan | None:
        """What was released at which noise; None of an open sketch, which is exact."""
        return self.header.read_plan()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The statistics that it holds, each with its noise, which is 0 in an open sketch."""
        return exact_blocks(self.header) if self.plan is None else self.plan.blocks

    @property
    def mechanism(self) -> str:
        """The name of what made the noise; `exact` where there is none."""
        return EXACT if self.plan is None else self.plan.request.mechanism

    @property
    def layout(self) -> str:
        return exact_layout(self.header) if self.plan is None else self.plan.request.layout

    @cached_property
    def key_basis(self) -> Basis:
        """The monomials of the per-key columns: orders 0..1 for layout lookup, 0..k otherwise."""
        orders = [block.order for block in self.blocks if block.scope == "key"]
        return Basis(self.features, max(orders, default=1))

    def whole(self, order: int) -> np.ndarray | None:
        """The global block of an order, packed, scaled units."""
        for block in self.header.global_blocks:
            if block.order == order:
                return np.array(block.values)
        return None

    def sigma(self, scope: Scope, order: int, *, level: int = 0, multiplicity: int = 1) -> float | None:
        """Standard deviation of the noise of one released number, or None where the block was not released.

        In the local model every row carried its own noise, and the sketch is the sum of all of them.
        """
        block = next((one for one in self.blocks if (one.scope, one.order, one.level) == (scope, order, level)), None)
        if block is None:
            return None
        reports = self.header.rows if self.header.model == "local" else 1
        assert reports is not None
        return block.noise_of(multiplicity) * math.sqrt(reports)

    def sealed(self) -> Self:
        """The same sketch with its digest filled in."""
        return replace(self, header=self.header.model_copy(update={"digest": self.compute_digest()}))

    def compute_digest(self) -> str:
        """sha256 of the canonical header without digest, then every column in file order: levels, keys, values."""
        sha = hashlib.sha256(self.header.canonical())
        for number, table in enumerate(self.levels):
            sha.update(f"\x1elevel {number} {len(table)}\x1e".encode())
            for part in table.columns:
                offsets, letters = text_buffers(part)
                sha.update(np.diff(offsets).astype("<u4").data)
                sha.update(letters)
            together = max(TOGETHER // max(len(table), 1), 1)
            for first in range(0, table.values.shape[1], together):
                some = np.asfortranarray(table.values[:, first : first + together], dtype="<f8")
                sha.update(some.T.reshape(-1).data)  # one column after the other, as they lie there
        return sha.hexdigest()

    def check(self) -> None:
        """Every promise that a reader relies on; raises InvalidSketch."""
        header, blocks = self.header, self.blocks
        if header.digest != self.compute_digest():
            raise InvalidSketch("the sketch's digest does not fit its content: it was changed or damaged.")
        if len(self.levels) != ((1 + len(header.key.levels)) if header.key else 0):
            raise InvalidSketch("the sketch's key levels do not fit its header.")
        if self.plan is not None:
            self._check_plan(self.plan)
        for number, table in enumerate(self.levels):
            if table.values.shape[1] != self.key_basis.size or not np.isfinite(table.values).all():
                raise InvalidSketch("the sketch's columns do not fit its plan, or hold numbers that are not finite.")
            if number == 0 and header.key and len(table) != math.prod(p.size for p in header.key.parts) + 1:
                raise InvalidSketch("the sketch does not hold every key of its domain.")
        for block in blocks:
            if block.scope == "global":
                values = self.whole(block.order)
                if values is None or len(values) != block.entries(len(header.features)):
                    raise InvalidSketch("the sketch misses a global block of its plan.")
        if len(header.global_blocks) != sum(b.scope == "global" for b in blocks):
            raise InvalidSketch("the sketch holds a global block that its plan does not name.")
        if self.plan is None:
            check_exact(header, self.levels, self.whole(1))
        check_numbers(self)
        if header.model == "local" and header.rows is None:
            raise InvalidSketch("the sketch is a sum of reports, but does not say of how many.")
        if header.simulation != (header.assumptions.noise == "simulated"):
            raise InvalidSketch("the sketch contradicts itself about where its noise came from.")

    def _check_plan(self, plan: Plan) -> None:
        header = self.header
        if (header.key is not None) != plan.request.keyed:
            raise InvalidSketch("the sketch's key levels do not fit its header.")
        if header.key and plan.request.levels != len(self.levels):
            raise InvalidSketch("the sketch's key levels do not fit its plan.")
        if plan.request.keys and plan.request.keys != tuple(map(len, self.levels)):
            raise InvalidSketch("the sketch does not hold every key of its levels.")
        if (header.rows is not None) != plan.request.row_count_public:
            raise InvalidSketch("the sketch's row count is not public under its neighbouring relation.")
        if (1 if header.model == "local" else header.rows) != plan.request.rows:
            raise InvalidSketch("the sketch's row count is not the one that its plan was made for.")


def text_buffers(column: pa.StringArray) -> tuple[np.ndarray, memoryview]:
    """Where each text of a column ends, beginning with where the first one begins, which is 0; and the letters of all."""
    _, ends, letters = column.buffers()
    first, last = column.offset, column.offset + len(column) + 1
    offsets = np.frombuffer(ends, np.int32)[first:last] if len(column) else np.zeros(1, np.int32)
    whole = memoryview(b"" if letters is None else letters)
    return offsets - offsets[0], whole[int(offsets[0]) : int(offsets[-1])]


def column_name(monomial: Monomial) -> str:
    """`c`, `s:x`, `q:x*y`, and `m3:x*y*z` from order 3 on."""
    match monomial.order:
        case 0:
            return "c"
        case 1:
            return f"s:{monomial}"
        case 2:
            return f"q:{monomial}"
        case order:
            return f"m{order}:{monomial}"
