"""Masks that a program makes, of 256 Mi pairs and of more."""

from __future__ import annotations

import pytest

HEADS, D = 4, 64
ATTENTION = "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m)"
THREE = "; ".join([f"R(1, {HEADS}, {{n}}, {D}, d=bf16)"] * 3)
WINDOW = 512

# name: (inputs, body, pairs that are computed, what is told)
TABLE = {
    "a triangle": (
        THREE.format(n=16384),
        f"m = torch.ones(16384, 16384, dtype=torch.bool, device='cuda').tril()\n{ATTENTION}",
        *(16384 * 16385 // 2, ""),
    ),
    "a window": (
        THREE.format(n=16384),
        "i = torch.arange(16384, device='cuda')\n"
        "d = i[:, None] - i[None, :]\n"
        f"m = (d >= 0) & (d < {WINDOW})\n{ATTENTION}",
        *(WINDOW * 16384 - WINDOW * (WINDOW - 1) // 2, ""),
    ),
    "a triangle of minus infinities, of which there is no room for the numbers": (
        THREE.format(n=16384),
        "m = torch.full((16384, 16384), float('-inf'), device='cuda').triu(1)\n"
        "return (a0 @ a1.mT + m.to(bf16)).softmax(-1) @ a2",
        *(16384 * 16385 // 2, ""),
    ),
    "places below -10,000 are no minus infinities: i - j is any number again": (
        f"{THREE.format(n=16384)}; R(16384)",
        f"i = torch.arange(16384, device='cuda')\n"
        f"m = (i[:, None] - i[None, :] + a3) >= 0\n{ATTENTION}",
        *(16384 * 16384, "The contents of an attention mask are data"),
    ),
    "the bits of distances are other numbers than the distances": (
        THREE.format(n=16384),
        "i = torch.arange(16384, device='cuda', dtype=f32) - 8192\n"
        f"m = (i[:, None] - i[None, :]).view(i32) > 1 << 30\n{ATTENTION}",
        *(16384 * 16384, "too large to compute"),
    ),
    "a larger triangle": (
        THREE.format(n=16400),
        f"m = torch.ones(16400, 16400, dtype=torch.bool, device='cuda').tril()\n{ATTENTION}",
        *(16400 * 16400, "too large to compute"),
    ),
    "a window in chunks: the mask is another one in each": (
        "; ".join([f"R({HEADS}, 8, 4096, {D}, d=bf16)"] * 3),
        "k, v = (F.pad(x, (0, 0, 256, 256)).unfold(2, 768, 256) for x in (a1, a2))\n"
        f"s = torch.einsum('bhcqd,bhcdk->bhcqk', a0.view({HEADS}, 8, 16, 256, {D}), k)\n"
        "i, j, c = (torch.arange(n, device='cuda') for n in (256, 768, 16))\n"
        "d, at = i[:, None] + 256 - j, c[:, None, None] * 256 + j - 256\n"
        "s = s.masked_fill((d.abs() > 256) | (at < 0) | (at >= 4096), float('-inf'))\n"
        "return torch.einsum('bhcqk,bhcdk->bhcqd', s.softmax(-1), v)",
        *(8 * (513 * 4096 - 256 * 257), ""),
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
