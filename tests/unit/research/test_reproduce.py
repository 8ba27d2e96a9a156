"""Figures are made whole, kept, told where they come from, and never made twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from research.reproducing import registry
from research.reproducing.figure import Check, Figure, RunConfig, verdict
from research.reproducing.plotting import canvas, error_lines, look, summary
from research.reproducing.report import write_page
from research.reproducing.reproduce import make
from saibot.errors import InvalidInput


def counting_figure(runs: list[int], *, sizes: tuple[int, ...] = (10, 100)) -> Figure:
    def run(config: RunConfig) -> pd.DataFrame:
        runs.append(config.seed)
        rows = [{"method": "fpm", "n": n, "run": i, "error": i / n if i else float("inf")} for n in sizes for i in range(5)]
        return pd.DataFrame(rows)

    def draw(frame: pd.DataFrame):
        drawing, axes = canvas()
        error_lines(axes, frame, x="n", value="error", methods=["fpm"])
        return drawing

    return Figure(
        name="toy",
        title="a toy",
        shows="errors fall",
        run=run,
        draw=draw,
        check=lambda frame: [Check("errors fall", bool(frame.error.iloc[1] > frame.error.iloc[-1]), "0.1 to 0.04")],
        settings=lambda config: {"sizes": list(sizes)},
    )


def test_a_figure_leaves_numbers_two_drawings_and_a_note(tmp_path: Path) -> None:
    done = make(counting_figure([]), RunConfig(seed=3), out=tmp_path)
    assert [path.name for path in done.files] == ["toy.csv", "toy.png", "toy.svg", "toy.json"]
    assert all(path.stat().st_size > 0 for path in done.files)
    note = json.loads((tmp_path / "toy.json").read_text())
    assert note["verdict"] == "pass"
    assert note["settings"] == {"figure": "toy", "seed": 3, "quick": False, "sizes": [10, 100]}


def test_every_row_of_the_numbers_says_where_it_comes_from(tmp_path: Path) -> None:
    done = make(counting_figure([]), RunConfig(seed=3), out=tmp_path)
    frame = pd.read_csv(tmp_path / "toy.csv")
    assert {"method", "seed", "configuration", "commit"} <= set(frame)
    assert set(frame["seed"]) == {3}
    assert set(frame["configuration"]) == {done.configuration}
    assert frame["commit"].notna().all()


def test_the_same_configuration_is_not_run_again_and_another_one_is(tmp_path: Path) -> None:
    runs: list[int] = []
    first = make(counting_figure(runs), RunConfig(seed=1), out=tmp_path)
    again = make(counting_figure(runs), RunConfig(seed=1), out=tmp_path)
    assert (first.reused, again.reused, runs) == (False, True, [1])
    assert again.checks == first.checks
    make(counting_figure(runs), RunConfig(seed=2), out=tmp_path)
    make(counting_figure(runs, sizes=(10, 1000)), RunConfig(seed=2), out=tmp_path)
    assert runs == [1, 2, 2]
    make(counting_figure(runs, sizes=(10, 1000)), RunConfig(seed=2), out=tmp_path, fresh=True)
    assert runs == [1, 2, 2, 2]


def test_numbers_of_an_interrupted_or_damaged_run_are_not_taken_for_finished_ones(tmp_path: Path) -> None:
    runs: list[int] = []
    make(counting_figure(runs), RunConfig(), out=tmp_path)
    (tmp_path / "toy.json").unlink()
    make(counting_figure(runs), RunConfig(), out=tmp_path)
    (tmp_path / "toy.csv").write_text("")
    make(counting_figure(runs), RunConfig(), out=tmp_path)
    assert len(runs) == 3


def test_other_tables_are_another_configuration(tmp_path: Path) -> None:
    tables, runs = tmp_path / "tables", []
    tables.mkdir()
    (tables / "a.csv").write_text("x\n1\n")
    reads = replace(counting_figure(runs), uses_tables=True)
    config = RunConfig(tables=tables)
    make(reads, config, out=tmp_path)
    make(reads, config, out=tmp_path)
    (tables / "b.csv").write_text("x\n1\n")
    make(reads, config, out=tmp_path)
    assert len(runs) == 2


def test_one_check_that_fails_makes_the_figure_differ_and_the_page_says_why(tmp_path: Path) -> None:
    bad = replace(counting_figure([]), check=lambda frame: [Check("a", True, ""), Check("b", False, "<not> small")])
    done = make(bad, RunConfig(), out=tmp_path)
    assert done.verdict == verdict(list(done.checks)) == "differ"
    assert done.to_json()["reasons"] == ["b: <not> small"]
    page = write_page([done], tmp_path).read_text()
    assert "&lt;not&gt; small" in page and "toy.png" in page
    assert "http://" not in page and "https://" not in page


def test_a_name_may_be_a_family_and_an_unknown_one_is_explained() -> None:
    assert registry.chosen(["fig12", "fig10b", "fig10a"]) == ["fig10a", "fig10b", "fig12a", "fig12b"]
    assert registry.chosen(["all"]) == list(registry.NAMES)
    with pytest.raises(InvalidInput, match="no figure 'fig99'"):
        registry.chosen(["fig99"])


def test_quartiles_with_failures_are_values_of_actual_runs() -> None:
    errors = [1.0, 2.0, float("inf"), float("inf")]
    found = summary(pd.DataFrame({"method": "fpm", "n": 10, "error": errors}), ["method", "n"], "error").iloc[0]
    assert found["low"] in errors and found["median"] in errors and found["failed"] == 0.5


def test_no_two_methods_look_the_same() -> None:
    from research.reproducing.plotting import LOOKS

    together = ("fpm", "fpm-opt", "joint", "apm", "tpm", "sf1", "sf1-closed", "sf2", "sf2-closed", "nonprivate")
    assert len({(look(name).colour, look(name).line) for name in together}) == len(together)
    assert len({look(name).label for name in LOOKS}) == len(LOOKS)
