"""Masks that a program makes, of 64 Mi pairs and of more."""

from __future__ import annotations

import pytest

HEADS, D = 4, 64
ATTENTION = "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m)"
THREE = "; ".join([f"R(1, {HEADS}, {{n}}, {D}, d=bf16)"] * 3)
WINDOW = 512

# name: (inputs, body, pairs that are computed, what is told)
TABLE = {
    "a triangle": (
        THREE.format(n=8192),
        f"m = torch.ones(8192, 8192, dtype=torch.bool, device='cuda').tril()\n{ATTENTION}",
        *(8192 * 8193 // 2, ""),
    ),
    "a window": (
        THREE.format(n=8192),
        "i = torch.arange(8192, device='cuda')\n"
        "d = i[:, None] - i[None, :]\n"
        f"m = (d >= 0) & (d < {WINDOW})\n{ATTENTION}",
        *(WINDOW * 8192 - WINDOW * (WINDOW - 1) // 2, ""),
    ),
    "a larger triangle": (
        THREE.format(n=8200),
        f"m = torch.ones(8200, 8200, dtype=torch.bool, device='cuda').tril()\n{ATTENTION}",
        *(8200 * 8200, "too large to compute"),
    ),
    "a mask that is given": (
        f"{THREE.format(n=64)}; R(64, 64) > 0",
        ATTENTION.replace("=m", "=a3"),
        *(64 * 64, "The contents of an attention mask are data"),
    ),
}


@pytest.fixture(scope="module")
def work_of(traced):
    return lambda name: traced(TABLE, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_pairs_that_a_mask_leaves_out_cost_nothing(work_of, name):
    pairs, result = TABLE[name][2:]
    work = work_of(name)
    assert work.operations["contraction.bf16"] == 4 * HEADS * D * pairs
    assert len(work.assumptions) == bool(result)
    assert result in "".join(work.assumptions)
