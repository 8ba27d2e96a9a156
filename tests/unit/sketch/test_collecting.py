"""Adding reports up: only those of one request, each once, each by somebody who was protected. No row is needed for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.errors import InvalidInput, InvalidSketch, SaibotError
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, contribute, privatize
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.sketch import LevelTable, Sketch, collect, read_sketch, write_sketch

CARD: dict[str, Any] = {
    "dataset": {"name": "survey"},
    "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
    "keys": {"k": {"domain": {"values": ["a", "b", "c"], "id": "abc"}}, "l": {"column": "k", "domain": {"range": [1, 3]}}},
}


def asked(card: dict[str, Any] = CARD, **options: Any) -> ReleaseRequest:
    terms = {"budget": Budget("1", "1e-6"), "neighbours": Neighbours.REPLACE_ONE, "key": "k", "allocation": "equal"}
    return ReleaseRequest(Card.parse(card), **(terms | options))


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Sketch]:
    """report(): of another individual each time."""
    seats = iter(range(100))

    def build(card: dict[str, Any] = CARD, noise: NoiseSource | None = None, **options: Any) -> Sketch:
        seat = next(seats)
        ledger = Ledger(tmp_path / f"home {seat}")
        return contribute({"x": seat, "y": 1, "k": "b"}, asked(card, **options), ledger, noise=noise).sketch

    return build


def forged(sketch: Sketch, **changes: Any) -> Sketch:
    """The sketch with another header, and the digest that belongs to it."""
    return replace(sketch, header=sketch.header.model_copy(update=changes)).sealed()


def test_the_sum_is_the_sum_of_all_numbers_and_says_of_how_many(report: Callable[..., Sketch]) -> None:
    reports = [report() for _ in range(3)]
    total = collect(reports)
    assert total.header.model == "local" and total.header.rows == 3
    assert np.allclose(total.levels[0].values, sum(one.levels[0].values for one in reports))
    for order in (1, 2):
        assert np.allclose(total.whole(order), sum(one.whole(order) for one in reports))  # type: ignore[misc,arg-type]
    assert total.sigma("key", 1) == pytest.approx(np.sqrt(3) * reports[0].sigma("key", 1))
    assert [one.header.rows for one in reports] == [1, 1, 1]
    assert np.array_equal(reports[0].levels[0].values, read_sketch(write_sketch(reports[0])).levels[0].values)


def test_the_sum_is_a_sketch_like_any_other_and_the_same_for_the_same_files(
    report: Callable[..., Sketch], tmp_path: Path
) -> None:
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.saibot")
        files[-1].write_bytes(write_sketch(report()))
    content = write_sketch(collect(files))
    assert read_sketch(content).header.rows == 3
    assert write_sketch(collect(files)) == content


def test_the_sum_has_the_latest_day_of_its_reports(report: Callable[..., Sketch]) -> None:
    one, other = report(), report()
    later = (date.fromisoformat(one.header.created) + timedelta(3)).isoformat()
    for reports in ([one, forged(other, created=later)], [forged(one, created=later), other]):
        assert collect(reports).header.created == later


def test_a_report_counts_once(report: Callable[..., Sketch], tmp_path: Path) -> None:
    one, other = report(), report()
    names = []
    for name, sketch in (("anna", one), ("bert", other), ("clara", one)):
        names.append(tmp_path / f"{name}.saibot")
        names[-1].write_bytes(write_sketch(sketch))
    with pytest.raises(InvalidSketch, match=r"clara\.saibot is the same report as anna\.saibot"):
        collect(names)


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "another title": ("dataset", {"card": CARD | {"dataset": {"name": "survey", "title": "T"}}}),
    "other bounds": ("features", {"card": CARD | {"features": {"x": {"bounds": [0, 11]}, "y": {"bounds": [0, 10]}}}}),
    "fewer features": ("features", {"features": ("x",)}),
    "another key": ("key", {"key": "l"}),
    "no key": ("key", {"key": None}),
    "another domain": (
        "key",
        {"card": CARD | {"keys": {"k": {"domain": {"values": ["a", "b", "d"], "id": "abc"}}}}},
    ),
    "another budget": ("budget", {"budget": Budget("2", "1e-6")}),
    "another layout": ("plan", {"layout": "semiring"}),
    "another allocation": ("plan", {"allocation": "alg2"}),
    "another bound": ("bound_squared", {"bound": Decimal(1)}),
}


@pytest.mark.parametrize("field, change", OTHERS.values(), ids=OTHERS)
def test_reports_of_different_requests_do_not_add_up(
    report: Callable[..., Sketch], field: str, change: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSketch, match=rf"report 2 .* differ in {field}"):
        collect([report(), report(**change)])


def test_keys_in_another_order_than_their_domain_says_are_refused(report: Callable[..., Sketch]) -> None:
    """Nothing but the digest of the domain is checked by a reader, so a made-up report may have any keys."""
    one, other = report(), report()
    (keys,) = other.levels[0].keys
    turned = replace(other, levels=(LevelTable((keys[::-1].copy(),), other.levels[0].values),)).sealed()
    with pytest.raises(InvalidSketch, match="differ in keys"):
        collect([one, turned])


def test_last_digits_of_a_plan_that_another_machine_found_do_not_matter(report: Callable[..., Sketch]) -> None:
    one, other = report(allocation=None), report(allocation=None)
    plan = other.plan
    nearly = replace(plan, blocks=tuple(replace(block, sigma=block.sigma * (1 + 1e-9)) for block in plan.blocks))
    assert nearly.to_json() != plan.to_json()
    assert collect([one, forged(other, plan=nearly.to_json())]).header.rows == 2


def test_what_is_no_report_of_a_protected_individual_is_refused(report: Callable[..., Sketch], tmp_path: Path) -> None:
    class Simulated(OpenDPNoise):
        simulated = True

    own = pd.DataFrame({"x": [1.0], "y": [2.0], "k": ["a"]})
    central = privatize(own, asked(), Ledger(tmp_path / "central")).sketch
    one = report()
    nonprivate = forged(one, preparation=one.header.preparation.model_copy(update={"kind": "nonprivate"}))
    for sketch, rule in (
        (central, "not a report of an individual"),
        (collect([report(), report()]), "a collection of 2 reports"),
        (report(noise=Simulated()), "simulated"),
        (nonprivate, "not prepared by public facts"),
    ):
        for reports in ([sketch], [report(), sketch]):
            with pytest.raises(InvalidSketch, match=rule) as caught:
                collect(reports)
            assert caught.value.hint


def test_a_tampered_report_a_file_that_is_none_and_no_file_are_refused(
    report: Callable[..., Sketch], tmp_path: Path
) -> None:
    one = report()
    with pytest.raises(InvalidSketch, match="digest"):
        collect([replace(one, header=one.header.model_copy(update={"edition": 7}))])
    (tmp_path / "odd.saibot").write_bytes(b"no sketch")
    with pytest.raises(InvalidSketch, match=r"odd\.saibot is no report"):
        collect([tmp_path / "odd.saibot"])
    with pytest.raises(SaibotError, match="there is no report"):
        collect([tmp_path / "gone.saibot"])
    with pytest.raises(InvalidInput, match="no reports"):
        collect([])


def test_made_up_numbers_that_leave_the_range_are_refused_in_words(report: Callable[..., Sketch]) -> None:
    huge = []
    for _ in range(2):
        one = report()
        values = np.full_like(one.levels[0].values, 1e308)
        huge.append(replace(one, levels=(LevelTable(one.levels[0].keys, values),)).sealed())
    with pytest.raises(InvalidSketch, match="no rows within its bounds can give"):
        collect(huge)


def test_collecting_loads_nothing_that_reads_rows() -> None:
    code = (
        "import sys\nfrom saibot.sketch import collect\n"
        "assert not [m for m in sys.modules if m.startswith(('saibot.privatize', 'duckdb', 'ibis', 'opendp'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
