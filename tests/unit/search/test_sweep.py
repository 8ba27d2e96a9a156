"""The sweep: every way to the moments gives the same numbers, whatever the shapes and sizes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from saibot.search import sweep as module
from saibot.search.sweep import on_threads, sweep

EPS = {np.float32: 1e-6, np.float64: 1e-13}  # of the sum of absolute products


def moments(values: np.ndarray, linear: np.ndarray, square: np.ndarray):
    wide = values.astype(np.float64)
    return wide @ linear, (wide * wide) @ square, np.abs(wide) @ np.abs(linear), (wide * wide) @ np.abs(square)


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    """The kernel where numba is installed, and what is done where it is not."""
    if request.param == "numpy":
        monkeypatch.setattr(module, "_kernel", lambda: (module._in_numpy, lambda columns: columns))
    else:
        pytest.importorskip("numba")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 255, 257, 2051])
@pytest.mark.parametrize("columns", [2, 5, 6, 12, 13])
def test_moments_are_the_plain_matrix_products(way, dtype, rows, columns):
    rng = np.random.default_rng(rows * 100 + columns)
    for keys in (1, 17, 130):
        values = rng.normal(size=(rows, keys)).astype(dtype)
        linear, square = rng.normal(size=(keys, columns)), rng.normal(size=(keys, 2))
        first, second = sweep(values, linear, square)
        exact_first, exact_second, size_first, size_second = moments(values, linear, square)
        assert (np.abs(first - exact_first) <= EPS[dtype] * size_first).all()
        assert (np.abs(second - exact_second) <= EPS[dtype] * size_second).all()
        assert first.dtype == second.dtype == np.float64


def test_float32_values_lose_nothing_to_a_long_sum():
    """A running float32 sum of a million equal numbers is off by a percent; tiles summed in float64 are not."""
    values = np.full((5, 1_000_000), 0.1, np.float32)
    first, second = sweep(values, np.ones((1_000_000, 5)), np.ones((1_000_000, 2)))
    assert first == pytest.approx(1e6 * float(np.float32(0.1)), rel=1e-5)
    assert second == pytest.approx(1e6 * float(np.float32(0.1)) ** 2, rel=1e-5)


def test_weights_beyond_the_range_of_float32_are_held(way):
    """A noisy request's squared residuals, or a feature in the millions: the moments are float64's to hold."""
    values = np.ones((6, 40), np.float32)
    linear = np.column_stack([np.full(40, 1e60), np.full(40, 1e-60), np.zeros(40)])
    first, _ = sweep(values, linear, np.ones((40, 2)))
    assert first[:, 0] == pytest.approx(40e60) and first[:, 1] == pytest.approx(40e-60) and (first[:, 2] == 0).all()


def test_every_item_is_worked_on_once_also_when_searches_run_side_by_side():
    done: dict[int, list[int]] = {caller: [] for caller in range(6)}

    def search(caller: int) -> None:
        on_threads(done[caller].append, range(200))

    callers = [threading.Thread(target=search, args=(caller,)) for caller in done]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(sorted(items) == list(range(200)) for items in done.values())


def test_a_failure_in_any_thread_is_told():
    def fail(item: int) -> None:
        if item == 63:
            raise ValueError("63")

    with pytest.raises(ValueError, match="63"):
        on_threads(fail, range(64))


FORKS = """
import os
import numpy as np
from saibot.search.sweep import sweep

values = np.ones((2000, 3), np.float32)
sweep(values, np.ones((3, 4)), np.ones((3, 2)))
child = os.fork()
if child == 0:
    first, _ = sweep(values, np.ones((3, 4)), np.ones((3, 2)))
    os._exit(0 if (first == 3).all() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_sweeps_too():
    """In a process of its own, where no other test's thread holds a lock that the child would wait for."""
    assert subprocess.run([sys.executable, "-c", FORKS], timeout=250).returncode == 0


def test_compiled_code_that_cannot_be_kept_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's installation is read-only and its user has no home: numba then refuses to cache."""
    numba = pytest.importorskip("numba")
    from saibot.search.kernel import _compiled

    def nowhere(*_: object, **__: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.caching.FunctionCache.__init__", nowhere)
    with pytest.raises(RuntimeError):
        numba.njit(cache=True)(lambda x: x)
    assert _compiled()(lambda x: x + 1)(1) == 2
