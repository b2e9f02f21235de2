"""Learning on the job, against a Gaussian process written out, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.surrogate.adaptation import Known, Memory
from solkit.surrogate.doubt import Scatter

SCATTER = Scatter(family=0.3, kernel=0.2, cell=0.2, rest=0.3)


def known(kernels, leaves, family="f", device="h100-sxm"):
    number = len(kernels)
    about = {
        "family": np.full(number, family),
        "kernel_id": np.array(kernels),
        "problem_id": np.full(number, "p"),
        "device": np.full(number, device),
        "triton_version": np.full(number, "3.6.0"),
    }
    return Known(about, np.array(leaves))


def test_a_point_moves_its_neighbours_most():
    points = known(["a", "a"], [[1, 1], [1, 2]])
    memory = Memory.of(SCATTER, points, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    twin, sibling, other = (known([name], [leaf]) for name, leaf in
                            (("a", [1, 1]), ("a", [7, 7]), ("b", [7, 7])))  # fmt: skip
    stranger = known(["c"], [[7, 7]], family="g", device="h200")
    shifts = [memory.recall(each)[0][0] for each in (twin, sibling, other, stranger)]
    assert shifts[0] > shifts[1] > shifts[2] > shifts[3] == 0
    assert shifts[0] == pytest.approx(1, abs=0.05)  # a residual of one size was measured there
    narrower = [memory.recall(each)[1][0] for each in (twin, sibling, other, stranger)]
    assert narrower[0] < narrower[1] < narrower[2] < narrower[3] == 1


def test_the_posterior_is_that_of_the_textbook():
    points, asked = known(["a", "b"], [[1], [2]]), known(["a"], [[2]])
    residual, size = np.array([0.4, -0.2]), np.array([0.5, 0.25])
    memory = Memory.of(SCATTER, points, residual, size)
    noise = np.diag(0.02**2 / size**2)
    prior = np.array([[1.05, 0.35], [0.35, 1.05]])  # 0.05 everywhere, 0.3 in the family
    across = np.array([0.75, 0.65])  # + kernel and cell; + the leaf of the other
    want = across @ np.linalg.solve(prior + noise, residual / size)
    shift, _ = memory.recall(asked)
    assert shift[0] == pytest.approx(want)


def test_a_stale_point_says_less():
    points, twin = known(["a"], [[1]]), known(["a"], [[1]])
    said = [
        Memory.of(SCATTER, points, np.array([1.0]), np.array([1.0]), stale).recall(twin)[0][0]
        for stale in (0.0, 0.5, 2.0)
    ]
    assert said[0] > said[1] > said[2] > 0


def test_another_gpu_shares_half():
    points = known(["a"], [[1]])
    memory = Memory.of(SCATTER, points, np.array([1.0]), np.array([1.0]))
    here, there = known(["a"], [[9]]), known(["a"], [[9]], device="h200")
    ratio = memory.recall(there)[0][0] / memory.recall(here)[0][0]
    assert ratio == pytest.approx(0.5 * 0.7 / 0.75)


def test_points_that_surprise_widen_intervals():
    leaves = [[n] for n in range(8)]
    calm, wild = (
        Memory.of(SCATTER, known(["a"] * 8, leaves), scale * np.array([1, -1] * 4), np.ones(8))
        for scale in (0.3, 5.0)
    )
    asked = known(["a"], [[99]])
    assert wild.recall(asked)[1][0] > 1.5
    assert calm.recall(asked)[1][0] < 1


def test_memories_add_up():
    points, size = known(["a", "b", "b"], [[1], [2], [3]]), np.array([0.5, 0.4, 0.3])
    residual = np.array([0.1, 0.2, -0.3])
    whole = Memory.of(SCATTER, points, residual, size)
    parts = [Memory.of(SCATTER, points[s], residual[s], size[s]) for s in (slice(1), slice(1, 3))]
    asked = known(["a", "b"], [[3], [1]])
    np.testing.assert_allclose(parts[0].and_(parts[1]).recall(asked), whole.recall(asked))
