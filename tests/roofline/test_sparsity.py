"""What makers of a storage tell of zeros and limits, without walking a recurrence in 2^n ways."""

from __future__ import annotations

import pytest
import torch

from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.sparsity import Sparsity

STEPS = 30


def use(storage, dtype=torch.float32):
    return TensorUse(storage, (8, 8), (8, 1), 0, dtype)


def op(name, inputs, output):
    return TracedOp(name, tuple(inputs), {}, tuple(inputs), (output,))


class Counted(dict):
    """Makers that count how often they are asked for."""

    calls = 0

    def get(self, *args):
        self.calls += 1
        return super().get(*args)


def recurrence(first, step):
    """x₁ = first(x₀); xₙ₊₁ = step(xₙ, xₙ)."""
    makers = Counted({1: [op(first, [use(0)], use(1))]})
    for n in range(1, STEPS):
        makers[n + 1] = [op(step, [use(n), use(n)], use(n + 1))]
    return makers


@pytest.mark.parametrize(
    ("ask", "step"),
    [
        (lambda sparsity, last: sparsity.may_be_zero(last), "aten.mul"),
        (lambda sparsity, last: sparsity.limits(last) == (True, True), "aten.add"),
        (
            lambda sparsity, last: sparsity._may_be_infinite(last, 0),  # of scores before a softmax
            "aten.mul",
        ),
    ],
)
def test_a_recurrence_is_walked_once(ask, step):
    makers = recurrence("aten.logit", step)
    assert not ask(Sparsity(makers), use(STEPS))
    assert makers.calls <= 3 * STEPS


def test_zeros_and_limits_at_the_start_of_a_recurrence_are_found():
    assert Sparsity(recurrence("aten.tril", "aten.mul")).may_be_zero(use(STEPS))
    assert Sparsity(recurrence("aten.tanh", "aten.add")).limits(use(STEPS)) == (True, True)
    assert Sparsity(recurrence("aten.tril", "aten.mul"))._may_be_infinite(use(STEPS), 0)
