"""The page of a dataset with very many keys, in a real browser: how soon it is there, and how smoothly its table scrolls."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.platform import served
from research.releases import Release
from research.seeded import Seeded
from saibot.errors import SaibotError
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.service import open_platform
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.sketch import KeyDomain, write_sketch

CHROMIUM = Path("/usr/bin/chromium")
REPEATED = 5
SECONDS = 3
# Scrolls a different stretch in every frame, and says how long each frame took, in milliseconds.
SCROLL = """async (seconds) => {
  const box = document.querySelector(".rows"), frames = [], end = performance.now() + 1000 * seconds;
  let last = await new Promise(requestAnimationFrame);
  while (performance.now() < end) {
    box.scrollTop += 260;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return [frames, box.querySelectorAll("tbody tr").length];
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@dataclass(frozen=True)
class LongKeysBench:
    """Milliseconds of this machine, medians of five fresh browser profiles; frames over three seconds of scrolling."""

    keys: int
    cold_view_ms: float  # the same for the very first visitor after a start, for whom the sketch is read
    first_view_ms: float  # facts and the first rows are painted
    complete_ms: float  # all charts are drawn, too
    frames_per_second: float
    slowest_frame_ms: float  # the 99th hundredth
    elements: int  # rows that the page holds
    sorted_ms: float  # from a click on a head to the new rows

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bench_long_keys(*, keys: int = 100_000, tell: Callable[[str, float | None], None]) -> LongKeysBench:
    if not CHROMIUM.exists():
        raise SaibotError("there is no chromium here.", hint="On Debian: apt-get install chromium.")
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as folder:
        settings = Settings(data=Path(folder) / "data", log_level="error", accept_unsafe=True)
        tell("publishing a sketch with very many keys", None)
        platform = open_platform(settings)
        try:
            provider = Caller("bench", frozenset({"provider"}), "t")
            id = platform.accept(provider, write_sketch(long_sketch(keys)))[0].id
            platform.shards.catch_up()
        finally:
            platform.close()
        with served(settings, pages=True) as (address, _):
            return _in_browser(f"{address}/datasets/{id}", keys, tell)


def long_sketch(keys: int) -> Any:
    """Two features of ten rows a key, with simulated noise."""
    rng = np.random.default_rng(0)
    means, place = 0.3 * rng.normal(size=keys), rng.integers(0, keys, 10 * keys)
    rows = np.clip(means[place][:, None] * [1, -1] + 0.3 * rng.normal(size=(len(place), 2)), -1, 1)
    described = {"dataset": {"name": "long", "title": "Very many shops"}}
    card = Card.parse(described | {"features": {name: {"bounds": [-1, 1]} for name in ("sales", "visits")}})
    return Release(card, rows, place, KeyDomain.of_range(1, keys, of="shop"), Budget("1", "1e-6")).sketch(Seeded(0))


def _in_browser(address: str, keys: int, tell: Callable[[str, float | None], None]) -> LongKeysBench:
    from playwright.sync_api import sync_playwright

    painted, complete, times, order = [], [], [], []
    elements = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        for run in range(1 + REPEATED):  # the first one builds the chart library
            tell("opening and scrolling the page", run / (1 + REPEATED))
            context = browser.new_context(viewport={"width": 1200, "height": 850})
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.goto(address)
            page.locator("figure[data-chart=values-chart][data-drawn]").wait_for()
            painted.append(float(page.evaluate(PAINT)))
            if run:
                complete.append(float(page.evaluate("performance.now()")))
                frames, elements = page.evaluate(SCROLL, SECONDS)
                times += frames
                order.append(_sorted(page))
            context.close()
        browser.close()
    return LongKeysBench(
        keys=keys,
        cold_view_ms=painted[0],
        first_view_ms=statistics.median(painted[1:]),
        complete_ms=statistics.median(complete),
        frames_per_second=1000 * len(times) / sum(times),
        slowest_frame_ms=float(np.quantile(times, 0.99)),
        elements=elements,
        sorted_ms=statistics.median(order),
    )


def _sorted(page: Any) -> float:
    """Milliseconds until the first row is another one, after a click on the head of the values."""
    return float(
        page.evaluate(
            """async () => {
              const box = document.querySelector(".rows");
              box.scrollTop = 0;
              const first = () => box.querySelector("tbody tr:not(.space) th")?.textContent;
              while (first() !== "1") await new Promise(requestAnimationFrame);
              const start = performance.now();
              box.querySelector("a[data-by=value]").click();
              while (["1", "…", undefined].includes(first())) await new Promise(requestAnimationFrame);
              return performance.now() - start;
            }"""
        )
    )
