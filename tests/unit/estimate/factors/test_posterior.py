"""The posterior of tables given factors, against the same computed with dense matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saibot.estimate.factors import (
    FactorPosterior,
    Factors,
    RequestSums,
    denoised_request,
    expected_gains,
    variance_within,
)
from saibot.estimate.factors.posterior import NOISE_FLOOR


class Dense:
    """One table of a block, with all covariances written out."""

    def __init__(self, readings, number, loadings, shares, tau2):
        tree = readings.tree
        groups = [np.eye(tree.size)]
        for group in tree.up:
            step = np.zeros((group.size, groups[-1].shape[0]))
            step[group.index, np.arange(len(group.index))] = 1
            groups.append(step @ groups[-1])
        self.prior = tau2 * (loadings @ loadings.T + sum(t * g.T @ g for t, g in zip(shares, groups, strict=True)))
        parts, y, noise = [], [], []
        for level, group in enumerate(groups):
            variance = readings.noise[level][number]
            read = np.isfinite(variance)
            A = (group * readings.weight[number])[read]
            floored = np.maximum(variance[read], NOISE_FLOOR * tau2 * A.sum(axis=1) ** 2)
            parts.append(A)
            noise.append(np.where(floored > 0, floored, 1.0))
            y.append(readings.sums[level][number][read])
        A, self.y = np.vstack(parts), np.concatenate(y)
        self.sigma = A @ self.prior @ A.T + np.diag(np.concatenate(noise))
        gain = self.prior @ A.T @ np.linalg.inv(self.sigma)
        self.mean, self.covariance = gain @ self.y, self.prior - gain @ A @ self.prior
        read = np.sqrt(tau2) * A @ loadings  # the covariance of what is read with the factors
        self.factor_means = read.T @ np.linalg.solve(self.sigma, self.y)
        left = np.eye(loadings.shape[1]) - read.T @ np.linalg.solve(self.sigma, read)
        self.factor_squares = left + np.outer(self.factor_means, self.factor_means)
        crossed = np.sqrt(tau2) * loadings - gain @ read
        self.with_factors = crossed + np.outer(self.mean, self.factor_means)  # E z a'
        self.log_likelihood = -(self.y @ np.linalg.solve(self.sigma, self.y) + np.linalg.slogdet(self.sigma)[1]) / 2


def block(made, steps, *, rank, exact=0, keys=60):
    found = made(4, keys, rank, steps=steps, exact=exact, seed=3)
    rng = np.random.default_rng(4)
    loadings = found.loadings + 0.1 * rng.normal(size=found.loadings.shape)
    shares = np.array([0.2, 0.15, 0.1][: 1 + len(steps)])
    return found.readings, loadings, shares, np.array([0.05, 0.1, 0.2, 0.02])


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_means_covariances_and_likelihood_are_those_of_dense_matrices(made, steps, levels, rank):
    readings, loadings, shares, tau2 = block(made, steps[:levels], rank=rank)
    found = FactorPosterior(readings, loadings, shares, tau2)
    directions = np.random.default_rng(5).normal(size=(2, 60))
    along = found.covariance_along(directions)
    for i in range(len(readings)):
        dense = Dense(readings, i, loadings, shares, tau2[i])
        np.testing.assert_allclose(found.deviations[i], dense.mean, atol=1e-9)
        np.testing.assert_allclose(found.variance[i], np.diag(dense.covariance), atol=1e-9)
        np.testing.assert_allclose(found.factor_means[i], dense.factor_means, atol=1e-9)
        np.testing.assert_allclose(found.log_likelihood[i], dense.log_likelihood, atol=1e-9 * abs(dense.log_likelihood))
        np.testing.assert_allclose(along[i], directions @ dense.covariance @ directions.T, atol=1e-9)


def test_the_covariance_of_the_whole_posterior_is_made_of_the_pieces_that_are_offered(made, steps):
    readings, loadings, shares, tau2 = block(made, steps, rank=2)
    found = FactorPosterior(readings, loadings, shares, tau2)
    whole = found.covariance_along(np.eye(60))
    np.testing.assert_allclose(np.einsum("bkk->bk", whole), found.variance, atol=1e-12)
    assert (np.linalg.eigvalsh(whole) > -1e-12).all()


def test_level_squares_are_the_expected_squares_of_each_level_s_deviations(made, steps):
    readings, loadings, shares, tau2 = block(made, steps[:1], rank=2)
    found, groups = FactorPosterior(readings, loadings, shares, tau2), np.eye(12)[:, steps[0]]
    for i in range(len(readings)):
        dense = Dense(readings, i, loadings, shares, tau2[i])
        for level, part in enumerate((np.eye(60), groups)):
            # u_l given z - M: a regression on it, with the prior's covariances
            cross = tau2[i] * shares[level] * part
            pull = cross @ np.linalg.inv(dense.prior)
            mean = pull @ dense.mean
            own = tau2[i] * shares[level] * len(part)
            left = own - np.trace(pull @ cross.T) + np.trace(pull @ dense.covariance @ pull.T)
            assert found.level_squares()[level, i] == pytest.approx(mean @ mean + left, rel=1e-9)


def test_an_exact_table_keeps_its_means_and_keys_without_rows_are_foretold_by_the_factors(made):
    found = made(3, 60, 2, shared=0.95, exact=3, seed=6)
    readings = found.readings
    weight, sums = readings.weight.copy(), readings.sums[0].copy()
    weight[:, :5] = sums[:, :5] = 0.0
    emptied = type(readings)(**{**readings.__dict__, "weight": weight, "sums": (sums,)})
    posterior = FactorPosterior(emptied, found.loadings, np.array([0.05]), np.full(3, 0.1))
    values = posterior.deviations + readings.mean[:, None]
    np.testing.assert_allclose(values[:, 5:], found.truth[:, 5:], atol=1e-6)
    assert (
        np.abs(values[:, :5] - found.truth[:, :5]).mean() < 0.1 < np.abs(found.truth[:, :5] - readings.mean[:, None]).mean()
    )
    dense = Dense(emptied, 0, found.loadings, np.array([0.05]), 0.1)
    np.testing.assert_allclose(posterior.deviations[0], dense.mean, atol=1e-6)


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("rank", [0, 2])
def test_open_tables_beside_noisy_ones_are_read_as_dense_matrices_with_the_noise_floor_say(made, steps, levels, rank):
    """The floor is relative to what is read, so the dense matrices are conditioned as 1e8 at worst."""
    readings, loadings, shares, tau2 = block(made, steps[:levels], rank=rank, exact=2)
    assert (readings.noise[0][:2] == 0).all() and (readings.noise[0][2:] > 0).all()
    found = FactorPosterior(readings, loadings, shares, tau2)
    for i in range(len(readings)):
        dense = Dense(readings, i, loadings, shares, tau2[i])
        np.testing.assert_allclose(found.deviations[i], dense.mean, atol=1e-6)
        np.testing.assert_allclose(found.variance[i], np.diag(dense.covariance), atol=1e-7)
        np.testing.assert_allclose(found.factor_means[i], dense.factor_means, atol=1e-5)
        np.testing.assert_allclose(found.log_likelihood[i], dense.log_likelihood, rtol=1e-5)
    assert found.variance[:2].max() < 1e-7 * tau2.max() < found.variance[2:].min()


def test_a_level_that_was_not_read_changes_nothing(made, steps):
    readings, loadings, shares, tau2 = block(made, steps[:1], rank=2)
    noise = (readings.noise[0], np.full_like(readings.noise[1], np.inf))
    unread = type(readings)(**{**readings.__dict__, "noise": noise})
    garbled = type(readings)(**{**unread.__dict__, "sums": (readings.sums[0], readings.sums[1] * 0 + 7.0)})
    one, other = (FactorPosterior(r, loadings, shares, tau2) for r in (unread, garbled))
    np.testing.assert_allclose(one.deviations, other.deviations)
    np.testing.assert_allclose(one.log_likelihood, other.log_likelihood)
    np.testing.assert_allclose(one.deviations[0], Dense(unread, 0, loadings, shares, tau2[0]).mean, atol=1e-9)


# ------------------------------------------------------------------------------------------------ requests


def request(rng, *, noise=0.0):
    n = rng.poisson(10, 60).astype(float)
    place = np.repeat(np.arange(60), n.astype(int))
    rows = np.column_stack([np.ones(len(place)), rng.normal(size=len(place)) + 0.2 * rng.normal(size=60)[place]])
    y = rows[:, 1] + rng.normal(size=60)[place] + rng.normal(size=len(place))
    gram = rows.T @ rows
    rest = y - rows @ np.linalg.solve(gram, rows.T @ y)
    sums = np.bincount(place, rest, 60) + noise * rng.normal(size=60)
    own = np.column_stack([np.bincount(place, column, 60) for column in rows.T])
    asked = RequestSums(
        n, sums, np.full(60, noise**2), own, np.linalg.inv(gram), float(((y - y.mean()) ** 2).sum()), within=1.0
    )
    return asked, rows, place


def test_expected_gains_are_those_of_dense_matrices_with_the_request_s_own_direction(made, steps):
    readings, loadings, shares, tau2 = block(made, steps, rank=2)
    asked, rows, place = request(np.random.default_rng(7), noise=2.0)
    factors = Factors(readings.tree, loadings, shares)
    chances = ((0.0, 0.5), (0.1, 0.3), (0.6, 0.2))
    readings = replace(readings, unit=readings.unit * 0.01)  # rows for some of the keys only
    gains = expected_gains(factors, readings, tau2, asked, own_shares=chances)
    seen = denoised_request(factors, asked)
    joined = np.eye(60)[place]  # rows of the request against keys
    left = joined - rows @ asked.inverse @ (rows.T @ joined)
    R = left.T @ left
    there = readings.chance_of_rows
    assert 0 < there.min() < 0.99
    for i in range(len(readings)):
        p, ratios, likelihood = there[i], [], []
        for share, chance in chances:
            told = share * seen.known
            widened = np.column_stack([loadings * (1 - told) ** 0.5, seen.direction * told**0.5])
            dense = Dense(readings, i, widened, (1 - told) * shares, tau2[i])
            second = np.outer(dense.mean, dense.mean) + dense.covariance
            # Two keys have rows with the chance of both, one with its own. What own features take is a sum over many keys,
            # which hardly depends on which of them have rows.
            over = seen.sums @ (second * (np.outer(p, p) + np.diag(p * (1 - p)))) @ seen.sums
            # What noise hides of the request adds to c.z as much as the table follows the request.
            hidden = (tau2[i] * share / seen.square) ** 0.5 * (p * asked.counts) @ seen.variance
            over += 2 * hidden * (p * seen.sums) @ dense.with_factors[:, -1] + hidden**2 * dense.factor_squares[-1, -1]
            under = asked.counts @ (p * np.diag(second)) - np.trace(
                asked.own.T @ (second * np.outer(p, p)) @ asked.own @ asked.inverse
            )
            ratios.append(over / (asked.tss * under))
            found = FactorPosterior(readings.take(slice(i, i + 1)), widened, (1 - told) * shares, tau2[i : i + 1])
            likelihood.append(np.log(chance) + found.log_likelihood[0])
        weights = np.exp(np.array(likelihood) - max(likelihood))
        assert gains.raw[i] == pytest.approx(weights @ ratios / weights.sum(), rel=1e-9)
        values = Dense(readings, i, loadings, shares, tau2[i]).mean
        assert gains.usable[i] == pytest.approx((seen.sums @ values) ** 2 / (asked.tss * (values @ R @ values)), rel=1e-9)


def about_the_first_table(readings, rng, *, noise=0.0):
    """A request whose residual is what the first table measures."""
    asked, _, _ = request(rng)
    truth = readings.sums[0][0] / np.maximum(readings.weight[0], 1e-9)
    return replace(asked, residuals=asked.counts * (truth - truth.mean()), noise=np.full(60, noise**2))


def test_a_table_that_has_few_of_the_keys_is_worth_less(made):
    readings, loadings, shares, tau2 = block(made, (), rank=2)
    asked = about_the_first_table(readings, np.random.default_rng(7))
    factors = Factors(readings.tree, loadings, shares)
    sparse = replace(readings, unit=readings.unit * 0.001)
    many, few = (expected_gains(factors, one, tau2, asked).raw[0] for one in (readings, sparse))
    assert few < 0.5 * many


def test_a_denoised_request_is_one_more_table(made, steps):
    readings, loadings, shares, _ = block(made, steps, rank=2)
    asked, _, _ = request(np.random.default_rng(8), noise=4.0)
    factors = Factors(readings.tree, loadings, shares)
    found = denoised_request(factors, asked)
    n, v = asked.counts, asked.noise + asked.counts * asked.within
    groups = [np.eye(60), np.eye(12)[:, steps[0]], np.eye(3)[:, steps[1][steps[0]]]]
    prior = loadings @ loadings.T + sum(t * g.T @ g for t, g in zip(shares, groups, strict=True))
    scale = (asked.residuals**2 - v).sum() / (n**2 @ np.diag(prior))
    mean = scale * prior * n @ np.linalg.solve(scale * prior * n * n[:, None] + np.diag(v), asked.residuals)
    np.testing.assert_allclose(found.means, mean - n @ mean / n.sum(), atol=1e-9)
    left = scale * prior - scale * prior * n @ np.linalg.solve(
        scale * prior * n * n[:, None] + np.diag(v), (scale * prior * n).T
    )
    np.testing.assert_allclose(found.variance, np.diag(left), atol=1e-9)
    assert found.scale == pytest.approx(scale) and abs(found.sums.sum()) < 1e-9
    assert 0.05 < found.known < 0.95
    assert np.mean(found.direction**2) == pytest.approx(1)


def test_a_request_that_is_all_noise_has_a_faint_direction_and_next_to_no_expected_gain(made):
    readings, loadings, shares, tau2 = block(made, (), rank=1)
    asked = about_the_first_table(readings, np.random.default_rng(9))
    drawn = 1e3 * np.random.default_rng(1).normal(size=60)
    silent = replace(asked, residuals=drawn, noise=np.full(60, 1e6))
    factors = Factors(readings.tree, loadings, shares)
    assert denoised_request(factors, silent).direction is not None
    not_heard = expected_gains(factors, readings, tau2, silent)
    assert (not_heard.raw < 0.02).all() and (not_heard.usable < 0.02).all()
    assert (not_heard.raw > 0).all()
    nothing = replace(asked, residuals=0 * asked.residuals, within=0.0)
    assert denoised_request(factors, nothing).direction is None
    assert not expected_gains(factors, readings, tau2, nothing).raw.any()


def test_the_variance_within_keys_is_told_from_that_between_them():
    rng = np.random.default_rng(10)
    place = np.repeat(np.arange(400), 5)
    rest = 0.7 * rng.normal(size=400)[place] + 1.5 * rng.normal(size=len(place))
    sums = np.bincount(place, rest) + 3.0 * rng.normal(size=400)
    found = variance_within(np.full(400, 5.0), sums, np.full(400, 9.0), float(rest @ rest))
    assert found == pytest.approx(1.5**2, rel=0.1)
    assert variance_within(np.ones(5), np.ones(5), np.zeros(5), 5.0) == 0.0


def test_what_noise_hides_of_a_request_takes_nothing_from_a_table_that_follows_it(made):
    """Half of the residual's square is hidden; the gain of a table that shares 0.6 of its variance with it is foretold."""
    rng, keys, rows = np.random.default_rng(12), 400, 10.0
    n, foretold, true = np.full(keys, rows), [], []
    for seed in range(12):
        found = made(1, keys, 0, exact=1, spread=0.2, seed=20 + seed)
        z = (found.truth[0] - found.truth[0].mean()) / found.truth[0].std()
        e = 0.6**0.5 * z + 0.4**0.5 * rng.normal(size=keys)
        e -= e.mean()
        tss = rows * float(e @ e) * 2
        noisy = RequestSums(
            n, rows * e + rows * rng.normal(size=keys), np.full(keys, rows**2), n[:, None], np.array([[1 / n.sum()]]), tss
        )
        factors, tau2 = Factors.none(found.readings.tree), np.array([found.truth[0].var()])
        assert 0.4 < denoised_request(factors, noisy).known < 0.6
        foretold.append(expected_gains(factors, found.readings, tau2, noisy, own_shares=((0.6, 1.0),)).raw[0])
        true.append(rows * (z @ e) ** 2 / (keys * tss))
    assert np.mean(foretold) == pytest.approx(np.mean(true), rel=0.1)
