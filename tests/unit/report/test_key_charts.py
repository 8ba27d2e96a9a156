"""Values over keys: a line in time, a map of places, bars for what is neither."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from saibot.report.charts import chart, legend, sized
from saibot.report.key_charts import MOST_BARS, MOST_POINTS, MapShapes, OverKeys, loaded_bars, over_keys, steps_around
from saibot.report.picture import _coloured, colours, load_vl_convert


def address(name: str) -> str:
    return f"/static/{name}"


def days(count: int) -> list[str]:
    return [(date(2000, 1, 1) + timedelta(n)).isoformat() for n in range(count)]


def marks(spec: dict[str, Any]) -> list[str]:
    return [layer["mark"]["type"] for layer in spec["layer"]]


def test_days_weeks_months_and_years_are_a_line_with_a_band_of_noise() -> None:
    keys = {
        "dates:2000-01-01:2000-01-03": days(3),
        "weeks:2013-W01:2013-W03": ["2013-W01", "2013-W02", "2013-W03"],
        "months:2013-01:2013-03": ["2013-01", "2013-02", "2013-03"],
        "years:2011:2013": ["2011", "2012", "2013"],
    }
    firsts = []
    for domain, names in keys.items():
        spec = over_keys(OverKeys(domain, names, np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, 0.5])), address)
        assert marks(spec) == ["area", "line", "point"]
        first = spec["data"]["values"][0]
        firsts.append(first["at"])
        assert (first["low"], first["value"], first["high"]) == (0, 1, 2), "two standard deviations to either side"
    assert firsts == ["2000-01-01", "2012-12-31", "2013-01-01", "2011-01-01"]


def test_a_long_line_takes_neighbours_together_and_their_noise_averages_out() -> None:
    size = 10 * MOST_POINTS
    spec = over_keys(OverKeys("dates:a:b", days(size), np.arange(size, dtype=float), np.ones(size)), address)
    rows = spec["data"]["values"]
    assert len(rows) == MOST_POINTS
    assert rows[0]["value"] == 4.5 and abs(rows[0]["high"] - rows[0]["value"] - 2 / 10**0.5) < 1e-3


def test_places_are_a_map_of_those_that_have_a_shape() -> None:
    shapes = MapShapes("world.json", "countries", "equalEarth", 0.5, {"DE": 276, "FR": 250})
    values = np.array([1.0, 3.0, 5.0])
    spec = over_keys(OverKeys("iso-country", ["DE", "FR", "XX"], values, shapes=shapes), address)
    drawn = spec["layer"][1]
    assert drawn["data"]["url"] == "/static/world.json" and drawn["data"]["format"]["feature"] == "countries"
    rows = drawn["transform"][0]["from"]["data"]["values"]
    assert [(row["id"], row["value"]) for row in rows] == [(276, 1), (250, 3)]
    scale = drawn["encoding"]["color"]["scale"]
    assert scale["domain"] == [1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4.25, 4.75], "the middle of all values is pale"
    assert len(scale["range"]) == len(scale["domain"]) + 1 and set(scale["range"]) <= {f"@{name}" for name in colours()}


def test_other_keys_are_bars_and_of_many_those_that_stand_out_from_their_noise() -> None:
    few = over_keys(OverKeys("shops", ["b", "a"], np.array([1.0, -1.0])), address)
    assert [row["key"] for row in few["data"]["values"]] == ["b", "a"], "in the order of the domain"
    values = np.zeros(500)
    values[[7, 300]] = 5.0, -4.0
    errors = np.ones(500)
    values[9], errors[9] = 50.0, 1000.0  # large, and nothing but noise
    many = over_keys(OverKeys("shops", [f"k{i}" for i in range(500)], values, errors), address)
    keys = [row["key"] for row in many["data"]["values"]]
    assert len(keys) == MOST_BARS and keys[0] == "k7" and keys[-1] == "k300" and "k9" not in keys


def test_values_that_are_missing_are_left_out() -> None:
    spec = over_keys(OverKeys("shops", ["a", "b"], np.array([np.nan, 1.0])), address)
    assert [row["key"] for row in spec["data"]["values"]] == ["b"]


def test_bars_of_a_factor_say_which_way_a_table_goes() -> None:
    rows = loaded_bars([("rain: mm", 0.8), ("sun: hours", -0.3)])["data"]["values"]
    assert [(row["share"], row["told"]) for row in rows] == [(0.8, "80 %"), (-0.3, "30 %")]
    assert loaded_bars([])["data"]["values"] == []


@pytest.mark.parametrize("middle, reach", [(0.0, 1.0), (55.3, 12.7), (0.0194, 0.0031), (-1e6, 3e5), (0.0, 4.5)])
def test_colours_of_a_map_change_at_round_numbers_that_reach_as_far_as_the_values(middle: float, reach: float) -> None:
    ends = steps_around(middle, reach)
    steps = np.diff(ends)
    assert len(ends) == 8 and np.allclose(steps, steps[0]) and f"{steps[0]:.1e}"[0] in "125"
    assert ends[0] - steps[0] <= middle - reach + steps[0] and ends[-1] + steps[0] >= middle + reach - steps[0]
    assert all(len(f"{end:.12g}".replace("-", "").replace(".", "").strip("0")) <= 6 for end in ends)


def test_small_countries_are_dots_and_names_stand_beside_their_codes() -> None:
    shapes = MapShapes(
        "world.json",
        "countries",
        "equalEarth",
        0.5,
        {"DE": 276, "MT": 470, "BV": 74},
        frozenset({"DE"}),
        {"MT": (14.5, 35.9)},
    )
    labels = ["DE · Germany", "MT · Malta", "BV · Bouvet Island"]
    drawn = OverKeys("iso-country", ["DE", "MT", "BV"], np.array([1.0, 3.0, 5.0]), shapes=shapes, labels=labels)
    shape, dotted = over_keys(drawn, address)["layer"][1:]
    assert [row["label"] for row in shape["transform"][0]["from"]["data"]["values"]] == ["DE · Germany"]
    (malta,) = dotted["data"]["values"]
    assert (malta["label"], malta["longitude"], malta["latitude"]) == ("MT · Malta", 14.5, 35.9)
    assert dotted["encoding"]["color"] == shape["encoding"]["color"], "one scale and one legend"
    assert dotted["encoding"]["tooltip"][0] == {"field": "label", "title": "key"}
    bars = over_keys(replace(drawn, shapes=None), address)
    assert bars["encoding"]["y"]["field"] == "label"


def test_the_legend_of_a_map_has_room_for_its_title() -> None:
    shapes = MapShapes("world.json", "countries", "equalEarth", 0.5, {"DE": 276})
    spec = over_keys(OverKeys("iso-country", ["DE"], np.array([1.0]), unit="thousand dollars", shapes=shapes), address)
    assert spec["layer"][1]["encoding"]["color"]["legend"]["titleLimit"] >= 300, "of itself it is cut at 180"


def test_what_hardly_differs_makes_no_landscape_of_its_noise() -> None:
    values, errors = 45 + np.linspace(-0.002, 0.002, 9), np.full(9, 1e-4)
    flat = OverKeys("dates:a:b", days(9), values, errors, bounds=(0.0, 90.0))
    (axis,) = {json.dumps(layer["encoding"]["y"]["scale"]["domain"]) for layer in over_keys(flat, address)["layer"]}
    low, high = json.loads(axis)
    assert high - low == pytest.approx(0.02 * 90) and low < 45 < high, "a share of the public bounds"
    noisy = replace(flat, errors=np.full(9, 30.0), better=np.full(9, 45.0))
    assert noisy.least_reach == 60, "two standard errors"
    steps = over_keys(
        replace(noisy, shapes=MapShapes("w", "c", "equalEarth", 0.5, dict.fromkeys(flat.keys, 1)), domain="x"), address
    )
    ends = steps["layer"][1]["encoding"]["color"]["scale"]["domain"]
    assert ends[0] < 0 and ends[-1] > 90, "on a map noise is pale"
    rich = replace(flat, values=np.linspace(0, 90, 9))
    low, high = over_keys(rich, address)["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert (round(low), round(high)) == (0, 90), "what differs is not squeezed"


def test_a_map_is_no_taller_than_a_screen_and_its_legend_as_long_as_there_is_room() -> None:
    shapes = MapShapes("w", "c", "equalEarth", 0.6, {"DE": 276})
    spec = over_keys(OverKeys("iso-country", ["DE"], np.array([1.0]), shapes=shapes), address)
    assert [sized(spec, width)["height"] for width in (300, 1100)] == [180, 420]
    legend = spec["layer"][1]["encoding"]["color"]["legend"]
    assert legend["type"] == "gradient" and "room" in legend["gradientLength"]["expr"]
    ends = spec["layer"][1]["encoding"]["color"]["scale"]["domain"]
    assert json.dumps([ends[0], ends[2], ends[5], ends[7]]) in legend["labelExpr"], "as many on either side"


@pytest.mark.parametrize("width, told", [(300, 5), (700, 12)])
def test_names_of_months_do_not_touch_each_other(width: int, told: int) -> None:
    size = 365
    spec = over_keys(
        OverKeys("dates:a:b", [str(date(2013, 1, 1) + timedelta(n)) for n in range(size)], np.zeros(size)), address
    )
    svg = load_vl_convert().vegalite_to_svg(json.dumps(_coloured(spec, colours().__getitem__) | {"width": width}))
    shown = [
        (float(x), len(word))
        for x, opacity, word in re.findall(
            r'<text [^>]*transform="translate\(([-.\d]+),[^>]*?opacity="([01])">([A-Z0-9]\w+)<', svg
        )
        if opacity == "1" and (word in "JanFebMarAprMayJunJulAugSepOctNovDec" or word == "2013")
    ]
    assert len(shown) >= told
    assert all(after[0] - before[0] > 24 for before, after in pairwise(shown))


def test_names_of_a_legend_stand_beside_each_other_where_there_is_room_and_are_all_in_the_picture() -> None:
    names = [f"aa-flights-201{n}.dep_delay" for n in range(5)]
    colour = {"field": "name", "type": "nominal", "legend": legend(names)}
    spec = chart([{"name": name} for name in names], description="", mark="point", encoding={"color": colour})
    lines = {}
    for width in (300, 760):
        drawn = _coloured(spec | sized(spec, width), colours().__getitem__)
        svg = load_vl_convert().vegalite_to_svg(json.dumps(drawn))
        assert all(name in svg for name in names)
        lines[width] = float(re.findall(r'viewBox="0 0 [.\d]+ ([.\d]+)"', svg)[0])
    assert lines[300] - lines[760] >= 3 * 12, "five lines on a phone, two on a page"
