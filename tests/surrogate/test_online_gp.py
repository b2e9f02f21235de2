"""Learning on the job, against a Gaussian process written out, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.surrogate.online_gp import ObservedResiduals, ResidualGP
from solkit.surrogate.out_of_distribution import VarianceComponents

SCATTER = VarianceComponents(family=0.3, kernel=0.2, cell=0.2, rest=1.2)


def keys_of(kernels, leaves, family="f", device="h100-sxm"):
    number = len(kernels)
    about = {
        "family": np.full(number, family),
        "kernel_id": np.array(kernels),
        "problem_id": np.full(number, "p"),
        "device": np.full(number, device),
        "triton_version": np.full(number, "3.6.0"),
    }
    return ObservedResiduals(about, np.array(leaves))


def predicted(memory, requests, size=0.5):
    shift, narrower = memory.predict_residuals(requests, np.full(len(requests), size))
    return float(shift[0]), float(narrower[0])


def test_a_point_moves_its_neighbours_most():
    points = keys_of(["a", "a"], [[1, 1], [1, 2]])
    memory = ResidualGP.from_residuals(SCATTER, points, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    twin, sibling, other = (
        keys_of([name], [leaf]) for name, leaf in (("a", [1, 1]), ("a", [7, 7]), ("b", [7, 7]))
    )
    stranger = keys_of(["c"], [[7, 7]], family="g", device="h200")
    shifts = [predicted(memory, item)[0] for item in (twin, sibling, other, stranger)]
    assert shifts[0] > shifts[1] > shifts[2] > shifts[3] == 0
    assert shifts[0] == pytest.approx(0.5, abs=0.02)  # as it was measured there


def test_the_posterior_is_that_of_the_textbook():
    points, request = keys_of(["a", "b"], [[1], [2]]), keys_of(["a"], [[2]])
    residual, size = np.array([0.4, -0.2]), np.array([0.5, 0.25])
    memory = ResidualGP.from_residuals(SCATTER, points, residual, size)
    shared = np.array([[1.9, 0.3], [0.3, 1.9]])  # a family; and a kernel, a cell, a leaf
    prior = 0.001 + np.outer(size, size) * shared + 0.02**2 * np.eye(2)
    across = 0.001 + 0.5 * size * np.array([0.7, 0.3 + 1.2])  # same cell; same leaf
    assert predicted(memory, request)[0] == pytest.approx(across @ np.linalg.solve(prior, residual))


def test_a_stale_point_says_less():
    points, twin = keys_of(["a"], [[1]]), keys_of(["a"], [[1]])
    said = [
        predicted(
            ResidualGP.from_residuals(SCATTER, points, np.array([1.0]), np.array([0.5]), stale),
            twin,
        )[0]
        for stale in (0.0, 0.5, 2.0)
    ]
    assert said[0] > said[1] > said[2] > 0


def test_another_gpu_shares_half():
    points = keys_of(["a"], [[1]])
    memory = ResidualGP.from_residuals(SCATTER, points, np.array([1.0]), np.array([1.0]))
    here, there = keys_of(["a"], [[9]]), keys_of(["a"], [[9]], device="h200")
    assert predicted(memory, there)[0] / predicted(memory, here)[0] == pytest.approx(
        0.5 * (0.0005 + 0.35) / (0.001 + 0.35)
    )


def test_points_that_surprise_widen_intervals():
    leaves = [[n] for n in range(8)]
    calm, wild = (
        ResidualGP.from_residuals(
            SCATTER, keys_of(["a"] * 8, leaves), scale * np.array([1, -1] * 4), np.full(8, 0.5)
        )
        for scale in (0.2, 3.0)
    )
    request = keys_of(["a"], [[99]])
    assert predicted(wild, request)[1] > 1.5
    assert predicted(calm, request)[1] < 1


def test_memories_add_up():
    points, size = keys_of(["a", "b", "b"], [[1], [2], [3]]), np.array([0.5, 0.4, 0.3])
    residual = np.array([0.1, 0.2, -0.3])
    whole = ResidualGP.from_residuals(SCATTER, points, residual, size)
    parts = [
        ResidualGP.from_residuals(SCATTER, points[s], residual[s], size[s])
        for s in (slice(1), slice(1, 3))
    ]
    request = keys_of(["a", "b"], [[3], [1]])
    both = parts[0].and_(parts[1]).predict_residuals(request, np.array([0.3, 0.2]))
    np.testing.assert_allclose(both, whole.predict_residuals(request, np.array([0.3, 0.2])))
