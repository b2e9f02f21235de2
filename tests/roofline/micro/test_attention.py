"""Attention: dense, causal, windowed, grouped-query, with a bias; by call and by hand.

Of a pair of query and key: 4 D operations of products, one exponential, and on fp32 between 2 (a
maximum and a sum) and 8 (scale, mask, shift, and the normalisation of what is not fused). Of a
row: a reciprocal and a product for each of Dv.
"""

from __future__ import annotations

import pytest

H = 2  # bytes of a bfloat16
QKV = "; ".join(["R(2, 2, 16, 8, d=bf16)"] * 3)
Q = H * 2 * 2 * 16 * 8  # bytes of each
SEEN = 16 * 17 // 2  # pairs of a causal head
DENSE = 2 * 2 * 256
SMALL = "; ".join(["R(1, 1, 16, 8, d=bf16)"] * 3)
BY_HAND = "return s.softmax(-1) @ a2"
# A query that sees one key gives it the weight 1, whatever it is: it need not be read.
CAUSAL = (3 * Q - H * 4 * 8, 3 * Q)
DISTANCE = "d = arange(16) - arange(16)[:, None]\n"
BY_CALL = "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m.to(bf16))"
ADDED = "return (a0 @ a1.mT / 2.8 + m.to(bf16)).softmax(-1) @ a2"
KEYS = 2048 * 36  # of eight sequences: 2048, 4096, ... of 16384


def attention(pairs, rows, width=8, values=8):
    return {
        "contraction.bf16": 2 * pairs * (width + values),
        "fp32": (2 * pairs, 8 * pairs + rows * values),
        "sfu": (pairs, pairs + rows),
    }


PROBLEMS = {
    "of tensors that stand on the CPU, with a known mask": (
        "; ".join(["torch.randn(2, 2, 16, 8, dtype=bf16)"] * 3),
        "m = torch.ones(16, 16, dtype=torch.bool).tril()\n"
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m)",
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
        "brute force runs on fake CUDA",
    ),
    "dense": (
        QKV,
        "return F.scaled_dot_product_attention(a0, a1, a2)",
        attention(DENSE, 64),
        3 * Q,
        Q,
    ),
    "dense, by hand": (
        QKV,
        "return (a0 @ a1.mT / 2.8).softmax(-1) @ a2",
        attention(DENSE, 64),
        3 * Q,
        Q,
    ),
    "causal, its mask added by the product": (
        QKV,
        "m = torch.zeros(16, 16, dtype=bf16, device=DEV).masked_fill_(~causal(16), -torch.inf)\n"
        "q, k, v = (t.flatten(0, 1) for t in (a0, a1, a2))\n"
        "return torch.baddbmm(m, q / 2.8, k.mT).softmax(-1) @ v",
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
    ),
    "dense, its softmax in fp32": (
        QKV,
        "p = (a0 @ a1.mT).float().softmax(-1).to(bf16)\nreturn p @ a2",
        attention(DENSE, 64),
        3 * Q,
        Q,
    ),
    "causal": (
        QKV,
        "return F.scaled_dot_product_attention(a0, a1, a2, is_causal=True)",
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
    ),
    "causal, by masked_fill": (
        QKV,
        "s = a0 @ a1.mT / 2.8\ns = s.masked_fill(~causal(16), float('-inf'))\n" + BY_HAND,
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
    ),
    "causal, by adding minus infinity": (
        QKV,
        "m = torch.full((16, 16), float('-inf'), device='cuda', dtype=a0.dtype).triu(1)\n"
        "s = a0 @ a1.mT + m\n" + BY_HAND,
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
    ),
    "causal, by where": (
        QKV,
        "s = torch.where(causal(16), a0 @ a1.mT, -1e9)\n" + BY_HAND,
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
    ),
    "causal, by a mask that is an input": (
        f"{SMALL}; causal(16)",
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=a3)",
        attention(SEEN, 16),
        (3 * H * 128 - H * 8 + 240, 3 * H * 128 + 256),
        H * 128,
    ),
    "causal, by a buffer of ones": (
        f"{SMALL}; torch.tril(ones(16, 16))",
        "s = (a0 @ a1.mT).masked_fill(a3 == 0, float('-inf'))\n" + BY_HAND,
        {**attention(SEEN, 16), "fp32": (2 * SEEN, 8 * SEEN + 128 + 256)},
        (1200, 3 * H * 128 + 4 * 256),  # of the mask, what would change it
        H * 128,
    ),
    "causal by minus infinity in attn_mask": (
        QKV,
        "m = torch.full((16, 16), float('-inf'), device='cuda', dtype=a0.dtype).triu(1)\n"
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m)",
        attention(4 * SEEN, 64),
        CAUSAL,
        Q,
    ),
    **{
        f"slopes of distances, causal {way}": (
            f"{QKV}; torch.rand(2, device=DEV) + 1",
            DISTANCE + mask + call,
            {**attention(4 * SEEN, 64), "fp32": (2 * 4 * SEEN, 8 * 4 * SEEN + 512 + 3 * 256)},
            (CAUSAL[0] + 8, CAUSAL[1] + 8),
            Q,
        )
        for way, mask, call in (
            (
                "by masked_fill",
                "m = a3[:, None, None] * d\nm = m.masked_fill(d > 0, -torch.inf)\n",
                BY_CALL,
            ),
            ("by an index", "m = a3[:, None, None] * d\nm[:, d > 0] = -torch.inf\n", BY_CALL),
            ("by a difference", "m = a3[:, None, None] * d - 1e9 * (d > 0)\n", ADDED),
            (
                "before the slopes",
                "m = torch.where(d > 0, -torch.inf, d) * a3[:, None, None]\n",
                ADDED,
            ),
        )
    },
    "slopes of distances in packed sequences": (
        "; ".join(["R(20, 2, 8, d=bf16)"] * 3) + "; R(2); tensor([0, 4, 20])",
        "out = []\n"
        "for lo, hi in zip(a4.tolist()[:-1], a4.tolist()[1:]):\n"
        "    d = arange(hi - lo) - arange(hi - lo)[:, None]\n"
        "    m = (a3[:, None, None] * d).masked_fill(d > 0, -torch.inf).to(bf16)\n"
        "    q, k, v = (t[lo:hi].transpose(0, 1)[None] for t in (a0, a1, a2))\n"
        "    out += [F.scaled_dot_product_attention(q, k, v, attn_mask=m)[0].transpose(0, 1)]\n"
        "return torch.cat(out)",
        attention(2 * (SEEN + 10), 2 * 20),
        (3 * H * 320 + 8 - H * 4 * 8, 3 * H * 320 + 8),
        H * 320,
        "brute force has no lengths that a list is made of",
    ),
    "a causal mask and a mask that is data": (
        f"{SMALL}; R(16, 16) > 0",
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=causal(16) & a3)",
        {**attention(SEEN, 16), "int32": (SEEN // 4, SEEN)},
        3 * H * 128 + SEEN,
        H * 128,
        "hides other pairs than the program does",
    ),
    "what is hidden by a triangle or by data": (
        f"{SMALL}; R(16, 16) > 0",
        "s = (a0 @ a1.mT).masked_fill(~causal(16) | a3, float('-inf'))\n" + BY_HAND,
        {**attention(SEEN, 16), "int32": (SEEN // 4, SEEN)},
        3 * H * 128 + SEEN,
        H * 128,
        "hides other pairs than the program does",
    ),
    "capped scores of a large cache up to known lengths": (
        "R(8, 4, 2, 160, d=bf16); " + "; ".join(["R(8, 16384, 4, 160, d=bf16)"] * 2),
        "s = 30 * torch.tanh(torch.einsum('bhgd,bshd->bhgs', a0, a1) / 30)\n"
        "past = arange(16384) >= 2048 * (1 + arange(8)[:, None])\n"
        "p = s.masked_fill(past[:, None, None], float('-inf')).softmax(-1)\n"
        "return torch.einsum('bhgs,bshd->bhgd', p, a2)",
        {
            "contraction.bf16": 2 * 8 * KEYS * 320,
            "fp32": (4 * 8 * KEYS, 8 * 8 * KEYS + 64 * 160),
            "sfu": (2 * 8 * KEYS, 2 * 8 * KEYS + 64),
        },
        H * (8 * 8 * 160 + 2 * KEYS * 4 * 160),
        H * 8 * 8 * 160,
        "too large for brute force",
    ),
    "causal with fewer queries: later keys are not read": (
        "R(1, 1, 4, 8, d=bf16); R(1, 1, 16, 8, d=bf16); R(1, 1, 16, 8, d=bf16)",
        "return F.scaled_dot_product_attention(a0, a1, a2, is_causal=True)",
        attention(10, 4),
        (H * 8 * 4 * 3 - H * 8, H * 8 * 4 * 3),
        H * 8 * 4,
    ),
    "causal with more queries": (
        "R(1, 1, 16, 8, d=bf16); R(1, 1, 4, 8, d=bf16); R(1, 1, 4, 8, d=bf16)",
        "return F.scaled_dot_product_attention(a0, a1, a2, is_causal=True)",
        attention(10 + 12 * 4, 16),
        (H * 8 * 24 - H * 8, H * 8 * 24),
        H * 8 * 16,
    ),
    "a window of four": (
        QKV,
        "d = arange(16)[:, None] - arange(16)\n"
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=(d >= 0) & (d < 4))",
        attention(4 * (1 + 2 + 3 + 13 * 4), 64),
        CAUSAL,
        Q,
    ),
    "a window of four, by hand": (
        QKV,
        "d = arange(16)[:, None] - arange(16)\n"
        "s = (a0 @ a1.mT).masked_fill((d < 0) | (d >= 4), float('-inf'))\n" + BY_HAND,
        attention(4 * (1 + 2 + 3 + 13 * 4), 64),
        CAUSAL,
        Q,
    ),
    "only four keys are ever seen": (
        QKV,
        "m = (arange(16) < 4)[None]\n"
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=m)",
        attention(4 * 16 * 4, 64),
        Q + 2 * Q // 4,
        Q,
    ),
    "a padding mask for each sequence": (
        f"{QKV}; (arange(16) < tensor([4, 16])[:, None])[:, None, None]",
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=a3)",
        attention(2 * 16 * (4 + 16), 64),
        Q + 2 * (Q // 2 + Q // 8) + 32,
        Q,
    ),
    "the last query alone": (
        QKV,
        "return F.scaled_dot_product_attention(a0, a1, a2)[:, :, -1].clone()",
        attention(4 * 16, 4),
        2 * Q + Q // 16,
        Q // 16,
    ),
    "one head": (
        QKV,
        "return F.scaled_dot_product_attention(a0, a1, a2)[:, 1].clone()",
        attention(2 * 256, 32),
        3 * Q // 2,
        Q // 2,
    ),
    "values of another width": (
        "R(1, 2, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16); R(1, 2, 16, 4, d=bf16)",
        "return F.scaled_dot_product_attention(a0, a1, a2)",
        attention(512, 32, values=4),
        H * 2 * 16 * 20,
        H * 2 * 16 * 4,
    ),
    "a bias for each pair": (
        f"{SMALL}; R(1, 1, 16, 16, d=bf16)",
        "return F.scaled_dot_product_attention(a0, a1, a2, attn_mask=a3)",
        attention(256, 16),
        3 * H * 128 + H * 256,
        H * 128,
    ),
    "a bias for each pair, by hand": (
        f"{SMALL}; R(16, 16, d=bf16)",
        "s = a0 @ a1.mT / 2.8 + a3\n" + BY_HAND,
        attention(256, 16),
        3 * H * 128 + H * 256,
        H * 128,
    ),
    "a causal bias: what the mask hides is not read": (
        f"{SMALL}; R(16, 16, d=bf16)",
        "s = (a0 @ a1.mT + a3).masked_fill(~causal(16), float('-inf'))\n" + BY_HAND,
        attention(SEEN, 16),
        (3 * H * 128 + H * SEEN - H * 9, 3 * H * 128 + H * SEEN),
        H * 128,
    ),
    "grouped queries": (
        "R(1, 8, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16)",
        "return F.scaled_dot_product_attention(a0, a1, a2, enable_gqa=True)",
        attention(8 * 256, 8 * 16),
        H * 16 * 8 * 12,
        H * 16 * 8 * 8,
    ),
    "grouped queries, expanded": (
        "R(1, 8, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16)",
        "k, v = (t[:, :, None].expand(1, 2, 4, 16, 8).reshape(1, 8, 16, 8) for t in (a1, a2))\n"
        "return F.scaled_dot_product_attention(a0, k, v)",
        attention(8 * 256, 8 * 16),
        H * 16 * 8 * 12,
        H * 16 * 8 * 8,
    ),
    "grouped queries, by hand": (
        "R(1, 8, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16)",
        "k, v = a1.repeat_interleave(4, 1), a2.repeat_interleave(4, 1)\n"
        "return (a0 @ k.mT).softmax(-1) @ v",
        attention(8 * 256, 8 * 16),
        H * 16 * 8 * 12,
        H * 16 * 8 * 8,
    ),
    "one set of keys for all": (
        "R(4, 2, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16); R(1, 2, 16, 8, d=bf16)",
        "return F.scaled_dot_product_attention(a0, a1, a2)",
        attention(8 * 256, 8 * 16),
        H * (1024 + 512),
        H * 1024,
    ),
    "a step of decoding: the cache's prefix": (
        "R(1, 1, 64, 8, d=bf16); R(1, 1, 1, 8, d=bf16); R(1, 1, 1, 8, d=bf16)",
        "a0[:, :, 19:20] = a1\nk = a0[:, :, :20]\nreturn F.scaled_dot_product_attention(a2, k, k)",
        attention(20, 1),
        H * 8 * (19 + 2),
        H * 8,
    ),
    "MultiheadAttention": (
        "nn.MultiheadAttention(16, 4, batch_first=True).cuda().eval(); R(2, 8, 16)",
        "return a0(a1, a1, a1, need_weights=False)[0]",
        {
            # four projections of 16 rows; 2*4 heads of 8 x 8 pairs of width 4
            "contraction.fp32": 2 * 16 * 16 * 16 * 4 + 4 * 8 * 64 * 4,
            "fp32": (2 * 512, 8 * 512 + 256 + 4 * 256),
            "sfu": (512, 512 + 64),
        },
        4 * (256 + 4 * 16 * 16 + 4 * 16),
        4 * 256,
        "a bias of the keys shifts each row's scores alike: see below",
    ),
    "MultiheadAttention with weights": (
        "nn.MultiheadAttention(16, 4, batch_first=True).cuda(); R(2, 8, 16)",
        "return a0(a1, a1, a1)",
        {
            "contraction.fp32": 2 * 16 * 16 * 16 * 4 + 4 * 8 * 64 * 4,
            "fp32": (2 * 512, 10 * 512 + 256 + 4 * 256),
            "sfu": (512, 512 + 64),
        },
        4 * (256 + 4 * 16 * 16 + 4 * 16),
        4 * (256 + 128),
        "a bias of the keys shifts each row's scores alike: see below",
    ),
    "an encoder layer": (
        "nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).cuda().eval(); R(2, 8, 16)",
        "return a0(a1)",
        {
            "contraction.fp32": 2 * 16 * (16 * 16 * 4 + 2 * 16 * 32) + 4 * 8 * 64 * 4,
            "fp32": (2 * 512, 8 * 512 + 256 * (1 + 4 + 2 + 2 * 8) + 512 * 2),
            "sfu": (512, 512 + 64 + 32),
        },
        # in and out projections, two layers, two norms
        4 * (256 + (1024 + 64) + (512 + 32 + 512 + 16) + 2 * 32),
        4 * 256,
        "a bias of the keys shifts each row's scores alike",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
