"""Chains of dependent steps: their length and the work of an independent part, counted by hand."""

from __future__ import annotations

import pytest

T, B, U = 12, 4, 32
STATES = f"torch.randn({T}, {B}, {U}, device=device); torch.randn({U}, {U}, device=device)"
PRODUCT = 2 * U * U  # of one row

# name: inputs, body, (steps, columns, operations of an independent part)
PROBLEMS = {
    "a loop that feeds its state back": (
        STATES + f"; torch.zeros({B}, {U}, device=device)",
        "\n".join(
            (
                "out = torch.empty_like(a0)",
                "for t in range(a0.shape[0]):",
                "    a2 = torch.tanh(a0[t] + a2 @ a1)",
                "    out[t] = a2",
                "return out",
            )
        ),
        # the first state is the caller's, zeros or not
        (T, 0, T * PRODUCT),
    ),
    "states in one tensor": (
        STATES,
        "\n".join(
            (
                "out = torch.empty_like(a0)",
                "out[0] = a0[0]",
                "for t in range(1, a0.shape[0]):",
                "    out[t] = torch.tanh(out[t - 1] @ a1 + a0[t])",
                "return out",
            )
        ),
        (T - 1, 0, (T - 1) * PRODUCT),
    ),
    "a loop over steps that need nothing of each other": (
        STATES,
        "\n".join(
            (
                "out = torch.empty_like(a0)",
                "for t in range(a0.shape[0]):",
                "    out[t] = torch.tanh(a0[t] @ a1)",
                "return out",
            )
        ),
        None,
    ),
    "the state on the right": (
        f"torch.randn({U}, {U}, device=device); torch.randn({U}, {B}, device=device)",
        f"for _ in range({T}):\n    a1 = torch.relu(a0 @ a1)\nreturn a1",
        # each of the B columns alone; at first nothing is awaited, so a row might be alone too
        (T, 0, (T - 1) * PRODUCT + 2 * U * B),
    ),
    "few layers": (
        f"torch.randn({B}, {U}, device=device); torch.randn({U}, {U}, device=device)",
        "return torch.relu(torch.relu(a0 @ a1) @ a1)",
        None,
    ),
    "an LSTM of two layers, which can follow each other": (
        f"nn.LSTM({U}, {U}, 2).cuda(); torch.randn({T}, {B}, {U}, device=device)",
        "return a0(a1)[0]",
        (T, 0, T * 4 * PRODUCT),
    ),
    "a batch of Cholesky factorisations": (
        f"torch.randn({B}, {U}, {U}, device=device)",
        "return torch.linalg.cholesky(a0)",
        (0, U, U**3 // 3),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_steps_that_wait_for_one_another(traced, name):
    expected, chain = PROBLEMS[name][2], traced(PROBLEMS, name).chain
    if expected is None:
        assert chain is None
        return
    steps, columns, alone = expected
    assert (chain.steps, chain.columns) == (steps, columns)
    assert sum(chain.alone.values()) == pytest.approx(alone, rel=0.01)
