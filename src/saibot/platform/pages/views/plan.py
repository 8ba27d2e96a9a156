"""The plan page: what a release would be worth, from public facts alone. The same code as `saibot preview`."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from starlette.responses import JSONResponse, Response

from saibot.errors import InvalidInput, SaibotError
from saibot.estimate.preview import Preview, preview
from saibot.platform.errors import TooManyRequests
from saibot.platform.pages.render import render
from saibot.platform.pages.visit import Visit
from saibot.privacy import Budget, Neighbours
from saibot.privacy.budget import exact_decimal
from saibot.privacy.mechanisms import DEFAULT, PlanRequest, mechanism_named
from saibot.report import sketch_charts
from saibot.report.words import preview_rows

CURVE = ("0.1", "0.2", "0.5", "1", "2", "4", "8")
MOST = {"rows": 10**9, "keys": 10**7, "features": 100}
# Previews take a core for a moment: one at a time is computed, few wait for their turn, others are told to come back.
_ONE_AT_A_TIME = threading.Lock()
_WAITING = threading.BoundedSemaphore(4)


@dataclass(frozen=True)
class Asked:
    """The fields of the form. Texts, so that what was typed is what is shown again."""

    epsilon: str = "1"
    delta: str = "1e-6"
    rows: str = "100000"
    keys: str = "365"
    features: str = "3"
    bound: str = ""
    neighbours: str = "replace-one"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Asked:
        return cls(**{name: query[name].strip()[:40] for name in cls.__dataclass_fields__ if name in query})


def show(visit: Visit) -> Response:
    asked = Asked.of(visit.request.query_params)
    found = answer(asked)
    return visit.page("plan.html", here="plan", asked=asked, default_bound=_default_bound(asked), **found)


def numbers(visit: Visit) -> Response:
    """What the sliders ask for while they move: the preview as JSON, and the same as the piece of page that shows it."""
    found = answer(Asked.of(visit.request.query_params))
    html = render("plan_expected.html", **found)
    expected = found["expected"]
    told = {"preview": expected.to_json() if expected else None, "html": html}
    told |= {"problem": render("plan_problem.html", **found), "field": found["problem_field"]}
    return JSONResponse(told, status_code=200 if expected is not None else 422)


def answer(asked: Asked) -> dict[str, Any]:
    """The preview, its curve over epsilon, and the command that would say the same."""
    if not _WAITING.acquire(blocking=False):
        raise TooManyRequests(0)
    try:
        with _ONE_AT_A_TIME:
            expected = _preview(asked)
            points = _curve(asked) if expected.reliability is not None else ()
    except SaibotError as problem:
        wrong = _wrong_field(asked)
        return {"expected": None, "rows": [], "problem": problem, "problem_field": wrong, "chart": None, "command": ""}
    finally:
        _WAITING.release()
    chart = sketch_charts.reliability(points, float(asked.epsilon)) if points else None
    rows, command = preview_rows(expected.to_json()), _command(asked)
    return {"expected": expected, "rows": rows, "problem": None, "problem_field": "", "chart": chart, "command": command}


@lru_cache(4096)
def _preview(asked: Asked) -> Preview:
    rows, keys, features = (_counted(asked, name) for name in ("rows", "keys", "features"))
    try:
        relation = Neighbours(asked.neighbours)
    except ValueError:
        raise InvalidInput("neighbours is replace-one or add-remove.") from None
    bound = _bound(asked)
    sizes = (keys,) if keys else ()
    request = PlanRequest(
        mechanism=DEFAULT,
        layout=mechanism_named(DEFAULT).default_layout(keyed=bool(sizes)).name,
        features=features,
        bound_squared=bound * bound if bound is not None else Decimal(features),
        order=2,
        budget=Budget(asked.epsilon, asked.delta),
        neighbours=relation,
        row_count_public=relation is Neighbours.REPLACE_ONE,
        rows=rows,
        keys=tuple(size + 1 for size in sizes),
    )
    return preview(request, rows=rows, keys=sizes)


def _wrong_field(asked: Asked) -> str:
    """The first field that is refused by itself; no text where only several together are."""
    checks: dict[str, Callable[[], Any]] = {name: partial(_counted, asked, name) for name in MOST}
    checks |= {
        "epsilon": lambda: Budget(asked.epsilon),
        "bound": lambda: _bound(asked),
        "delta": lambda: Budget(1, asked.delta),
    }
    for name, check in checks.items():
        try:
            check()
        except SaibotError:
            return name
    return ""


def _curve(asked: Asked) -> tuple[dict[str, Any], ...]:
    facts = Asked(**{**_fields(asked), "epsilon": "1"})
    return _curve_of(facts)


@lru_cache(1024)
def _curve_of(facts: Asked) -> tuple[dict[str, Any], ...]:
    points = ((epsilon, _preview(Asked(**{**_fields(facts), "epsilon": epsilon}))) for epsilon in CURVE)
    return tuple({"epsilon": float(epsilon), "reliability": found.reliability} for epsilon, found in points)


def _fields(asked: Asked) -> dict[str, str]:
    return {name: getattr(asked, name) for name in Asked.__dataclass_fields__}


def _whole(asked: Asked, name: str) -> int:
    text = getattr(asked, name)
    try:
        value = int(float(text)) if text else 0
    except (ValueError, OverflowError):
        raise InvalidInput(f"{name} is a whole number.") from None
    if not 0 <= value <= MOST[name]:
        raise InvalidInput(f"{name} lies between 0 and {MOST[name]:,}.")
    return value


def _counted(asked: Asked, name: str) -> int:
    value = _whole(asked, name)
    if value < 1 and name != "keys":
        raise InvalidInput("a table has at least one row and one feature.")
    return value


def _bound(asked: Asked) -> Decimal | None:
    bound = exact_decimal(asked.bound, name="bound") if asked.bound else None
    if bound is not None and bound <= 0:
        raise InvalidInput("the norm bound must be greater than 0.")
    return bound


def _default_bound(asked: Asked) -> float:
    try:
        return math.sqrt(max(_whole(asked, "features"), 1))
    except SaibotError:
        return 1.0


def _command(asked: Asked) -> str:
    keys = f" --keys {_whole(asked, 'keys')}" if _whole(asked, "keys") else ""
    bound = f" --bound {asked.bound}" if asked.bound else ""
    return (
        f"saibot preview --rows {_whole(asked, 'rows')}{keys} --features {_whole(asked, 'features')} "
        f"--epsilon {asked.epsilon} --delta {asked.delta}{bound} --neighbours {asked.neighbours}"
    )
