"""Gaussian processes, against the equations written out with an inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solkit.surrogate.gaussian_process import (
    GaussianProcess,
    Hyperparameters,
    Inputs,
    Matern,
    PoolProcess,
    fit_hyperparameters,
)

NOISE = 0.1


def squared_exponential(a, b):
    return np.exp(-0.5 * (a[:, None] - b[None]) ** 2)


@pytest.fixture
def observed():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, 6)
    return x, np.sin(x), squared_exponential(x, x)


def inverted(covariance):
    return np.linalg.inv(covariance + NOISE * np.eye(len(covariance)))


def test_mean_and_variance_are_those_of_the_textbook(observed):
    x, y, covariance = observed
    cross = squared_exponential(x, there := np.array([0.5, 7.0]))
    mean, variance = GaussianProcess(covariance, NOISE).posterior(y, cross, np.ones(len(there)))
    inverse = inverted(covariance)
    np.testing.assert_allclose(mean, cross.T @ inverse @ y)
    np.testing.assert_allclose(variance, 1 - np.diag(cross.T @ inverse @ cross))
    assert variance[1] == pytest.approx(1, abs=1e-3)  # nothing is known so far away


def test_observing_one_by_one_is_observing_all(observed):
    x, y, covariance = observed
    grown = GaussianProcess(covariance[:3, :3], NOISE)
    for at in range(3, 6):
        grown.observe(covariance[:at, at], 1 + NOISE)
    cross, prior = squared_exponential(x, np.array([1.0, 2.0])), np.ones(2)
    whole = GaussianProcess(covariance, NOISE).posterior(y, cross, prior)
    np.testing.assert_allclose(grown.posterior(y, cross, prior), whole)


def test_surprises_are_errors_of_predictions_from_all_other_points(observed):
    _, y, covariance = observed
    surprises = GaussianProcess(covariance, NOISE).leave_one_out_errors(y)
    for at in range(len(y)):
        others = np.delete(np.arange(len(y)), at)
        cross, inner = covariance[others, at], inverted(covariance[np.ix_(others, others)])
        variance = 1 + NOISE - cross @ inner @ cross
        assert surprises[at] == pytest.approx((y[at] - cross @ inner @ y[others]) ** 2 / variance)


def test_missing_targets_are_imputed_from_the_others(observed):
    _, y, covariance = observed
    process = GaussianProcess(covariance, NOISE)
    missing = np.where(np.arange(6) == 2, math.nan, y)
    others = np.delete(np.arange(6), 2)
    expected = covariance[2, others] @ inverted(covariance[np.ix_(others, others)]) @ y[others]
    assert process.impute_missing(missing)[2] == pytest.approx(expected)
    assert (process.impute_missing(missing)[others] == y[others]).all()
    assert (process.impute_missing(np.full(6, math.nan)) == 0).all()


def test_the_likelihood_is_that_of_a_normal_distribution(observed):
    _, y, covariance = observed
    value, gradient = GaussianProcess(covariance, NOISE).log_likelihood(y)
    inside = covariance + NOISE * np.eye(6)
    by_hand = -0.5 * (y @ np.linalg.solve(inside, y) + np.linalg.slogdet(inside)[1])
    assert value == pytest.approx(by_hand)
    step = np.zeros((6, 6))
    step[1, 3] = step[3, 1] = 1e-6
    further = GaussianProcess(covariance + step, NOISE).log_likelihood(y)[0]
    assert (further - value) / 1e-6 == pytest.approx(gradient[1, 3] + gradient[3, 1], rel=1e-3)


def test_a_covariance_that_is_none_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        GaussianProcess(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.0)


def points(number, seed):
    rng = np.random.default_rng(seed)
    return Inputs(rng.uniform(size=(number, 2)), rng.normal(size=(number, 1)))


def test_matern_with_a_linear_term_by_hand():
    hyper = Hyperparameters(np.log([0.5, 2.0, 0.25, 4.0, 0.01]), scales=2)  # ℓ, ℓ, τ², s², σ²
    kernel = Matern(hyper, np.array([0, 1]))
    a = kernel.scale(Inputs(np.array([[0.0, 0.0]]), np.array([[2.0]])))
    b = kernel.scale(Inputs(np.array([[0.5, 2.0]]), np.array([[3.0]])))
    r = math.sqrt(1 + 1)
    near = (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)
    assert kernel(a, b)[0] == pytest.approx(near)
    assert kernel(a, b)[1] == pytest.approx(4 * near + 0.25 * 2 * 3)
    assert kernel.variance(a) == pytest.approx(4 + 0.25 * 4)


def test_a_pool_that_grows_is_a_pool_made_at_once():
    kernel = Matern(Hyperparameters.default(2, 1), np.array([0, 1]))
    seen, pool, y = points(9, 1), points(7, 2), np.random.default_rng(3).normal(size=9)
    first = np.arange(5)
    grown = PoolProcess(kernel, seen[first], pool[np.arange(4)])
    for at in range(5, 9):
        grown.add(seen[np.array([at])])
        if at == 6:
            grown.widen(pool[np.arange(4, 7)])
    whole = PoolProcess(kernel, seen, pool)
    np.testing.assert_allclose(grown.mean(y), whole.mean(y))
    np.testing.assert_allclose(grown.variance, whole.variance)
    np.testing.assert_allclose(grown.nearness, whole.nearness)
    np.testing.assert_allclose(whole.at(pool, y), (whole.mean(y), whole.variance))


def test_the_fit_finds_which_parameter_matters():
    seen = Inputs(np.random.default_rng(4).uniform(size=(40, 2)), np.zeros((40, 0)))
    y = np.sin(6 * seen.x[:, 0])
    y = (y - y.mean()) / y.std()
    hyper = fit_hyperparameters(seen, y, np.array([0, 1]), Hyperparameters.default(2, 0), steps=50)
    assert hyper.lengths[0] < 0.7 < 1.2 < hyper.lengths[1]
    assert hyper.noise < 1e-2
