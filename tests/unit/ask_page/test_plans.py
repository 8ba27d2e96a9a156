"""How much noise the page plans: never less than the product, for every budget; and its plans are confirmed by readers."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from saibot.errors import UnsupportedPlan
from saibot.privacy import Budget, Neighbours
from saibot.privacy.calibration import analytic_mu
from saibot.privacy.mechanisms import PlanRequest, confirmed, make_plan
from saibot.privacy.mechanisms.allocation import predicted_error
from saibot.sketch.header import _claimed_plan
from tests.support.page_script import run_script

BUDGETS = [
    *(
        (epsilon, delta, touched)
        for epsilon in ("0.05", "0.3", "1", "5", "30")
        for delta in ("1e-3", "1e-6", "1e-12")
        for touched in (5, 32)
    ),
    *(
        ("1", "1e-30", 33),
        ("1e-7", "1e-6", 5),
        ("100", "1e-6", 32),
        ("1", "0.1", 7),
        ("0.01", "1e-9", 64),
        ("1", "1e-6", 700),
    ),
]


def test_noise_is_never_less_than_the_products_and_hardly_more():
    body = """
        const c = await page("calibration"), n = await page("numbers");
        return data.map(([epsilon, delta, touched]) => c.analyticMu(n.decimalOf(epsilon), n.decimalOf(delta), touched));"""
    for (epsilon, delta, touched), mu in zip(BUDGETS, run_script(body, BUDGETS), strict=True):
        product = analytic_mu(Budget(epsilon, delta), touched=touched)
        assert product * (1 - 1e-8) < mu <= product, (epsilon, delta, touched)


def test_a_budget_that_no_release_fits_is_refused():
    body = """
        const c = await page("calibration"), n = await page("numbers");
        return c.analyticMu(n.decimalOf("1e-9"), n.decimalOf("1e-6"), 3000);"""
    assert run_script(body) is None
    with pytest.raises(UnsupportedPlan):
        analytic_mu(Budget("1e-9", "1e-6"), touched=3000)


def test_what_all_requests_come_to_is_rounded_up():
    body = """
        const c = await page("calibration"), n = await page("numbers"), d = n.decimalOf("1e-6");
        return data.map((mu) => n.plainDecimal(c.epsilonOf(mu, d, 20, n.decimalOf("50"))));"""
    mus = [0.01, 0.1, 0.2367, 0.5, 1.0, 3.0]
    from saibot.privacy.events import GaussianEvent, Spent

    for mu, shown in zip(mus, run_script(body, mus), strict=True):
        spent = Spent.of([GaussianEvent(mu, 20)])
        assert spent.within(Budget(shown, "1e-6"))
        assert float(shown) == pytest.approx(spent.epsilon_at(Decimal("1e-6")), rel=2e-5)


def test_enclosures_enclose():
    """Against 250 digits: tails of the normal and of chi-squared, exponentials, roots, pi."""
    body = """
        const e = await page("enclosure"), l = await page("normal_law");
        const of = ([a, b]) => e.enclosureOf(BigInt(a), BigInt(b));
        return [
          e.pi(), ...data.normal.map((x) => l.normalTail(of(x))), ...data.exponents.map((x) => e.exponential(of(x))),
          ...data.roots.map((x) => e.squareRoot(of(x))), ...data.chi.map(([n, y]) => l.chiSquaredTail(n, of(y))),
          e.product(of([-7, 3]), of([5, 11])), e.quotient(of([-7, 3]), of([5, 11])), e.difference(of([1, 3]), of([2, 7])),
        ];"""

    def pair(value: Fraction) -> list[str]:
        return [str(value.numerator), str(value.denominator)]

    normal = [Fraction(x) for x in ("0", "1/3", "-1/3", "2", "-5/2", "51/7", "11", "23", "-23")]
    exponents = [Fraction(x) for x in ("0", "1/1000000", "1", "-1", "37/3", "-37/3", "250", "-100")]
    roots = [Fraction(x) for x in ("0", "2", "1/3", "1000000007", "1/1000000007")]
    chi = [(n, Fraction(y)) for n in (1, 2, 3, 8, 9, 30, 101) for y in ("1/2", "7", "60")]
    data = {
        "normal": [*map(pair, normal)],
        "exponents": [*map(pair, exponents)],
        "roots": [*map(pair, roots)],
        "chi": [(n, pair(y)) for n, y in chi],
    }
    found = [[Fraction(int(end), 2**768) for end in ends] for ends in run_script(body, data)]
    with mp.workdps(250):
        num = lambda x: mpf(x.numerator) / x.denominator  # noqa: E731
        wanted = [+mp.pi, *(mp.erfc(num(x) / mp.sqrt(2)) / 2 for x in normal), *(mp.exp(num(x)) for x in exponents)]
        wanted += [mp.sqrt(num(x)) for x in roots] + [mp.gammainc(mpf(n) / 2, num(y), regularized=True) for n, y in chi]
        wanted += [mpf(-35) / 33, mpf(-77) / 15, mpf(1) / 21]
        for value, (low, high) in zip(wanted, found, strict=True):
            assert num(low) <= value <= num(high)
            assert num(high - low) <= mpf(10) ** -80 * max(abs(value), 1)


REQUESTS = [  # features, features of the card, keys, rows, relation, rows of an individual, epsilon
    *(
        (1, 1, 11, 100, "replace-one", 1, "1"),
        (1, 1, None, 100, "replace-one", 1, "1"),
        (1, 1, None, None, "add-remove", 1, "1"),
    ),
    *(
        (2, 2, 366, 10000, "replace-one", 1, "1"),
        (3, 2, 51, 500, "replace-one", 1, "0.3"),
        (5, 5, 3236, 100000, "replace-one", 1, "3"),
    ),
    *(
        (5, 5, 3236, None, "add-remove", 1, "3"),
        (4, 3, 20, None, "replace-one", 3, "2"),
        (4, 3, None, None, "replace-one", 3, "2"),
    ),
    *(
        (20, 10, 100, 2000, "replace-one", 1, "10"),
        (1, 1, 7, None, "replace-one", 2, "1"),
        (2, 1, 5, 9, "replace-one", 1, "1"),
    ),
]


def test_plans_are_confirmed_by_readers_and_as_useful_as_the_products():
    asked, requests = [], []
    for m, card, keys, rows, relation, each, epsilon in REQUESTS:
        public = relation == "replace-one" and rows is not None
        facts = {
            "features": m,
            "boundSquared": card,
            "neighbours": relation,
            "rowCountPublic": public,
            "rowsPerIndividual": each,
        }
        asked.append(facts | {"epsilon": epsilon, "rows": rows, "keyed": keys is not None, "keys": keys})
        layout, sizes = ("lookup", (keys,)) if keys else ("union", ())
        terms = {"rows_per_individual": each, "rows": rows, "keys": sizes}
        requests.append(
            PlanRequest("joint", layout, m, Decimal(card), 2, Budget(epsilon, "1e-6"), Neighbours(relation), public, **terms)
        )
    body = """
        const { makePlan, planDocument } = await page("plan"), { canonicalJson } = await page("canonical_json");
        const n = await page("numbers"), delta = n.decimalOf("1e-6");
        const plan = (one) => makePlan({ ...one, delta, epsilon: n.decimalOf(one.epsilon) });
        return data.map((one) => JSON.parse(canonicalJson(planDocument(plan(one)))));"""
    for request, document in zip(requests, run_script(body, asked), strict=True):
        claimed = _claimed_plan(document, PlanRequest.from_json(document["request"]))
        assert claimed.request == request
        assert claimed.to_json() == document
        assert confirmed(claimed)
        product = make_plan(request)
        errors = [
            predicted_error(request, plan.blocks, [block.sigma for block in plan.blocks]) for plan in (claimed, product)
        ]
        assert errors[0] == pytest.approx(errors[1], rel=1e-6)
        assert [block.sensitivity for block in claimed.blocks] == pytest.approx(
            [block.sensitivity for block in product.blocks], rel=1e-12
        )


def test_a_plan_for_too_many_numbers_is_refused():
    body = """
        const { makePlan } = await page("plan"), n = await page("numbers");
        try {
          makePlan({
            features: 90, boundSquared: 90, neighbours: "replace-one", rowCountPublic: true, rowsPerIndividual: 1, rows: 5,
            keyed: false, keys: null, epsilon: n.decimalOf("1"), delta: n.decimalOf("1e-6"),
          });
        } catch (problem) { return [problem.message, problem.hint]; }"""
    message, hint = run_script(body)
    assert "4,185 numbers" in message and "saibot privatize" in hint
