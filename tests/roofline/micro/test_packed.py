"""Quantised data at its true width; sparse matrices, by element and by block."""

from __future__ import annotations

import pytest

F, H, I64 = 4, 2, 8  # bytes of a float32, a bfloat16 and an int64 index
MM = 2 * 16 * 32 * 8
FP4 = "0., .5, 1., 1.5, 2., 3., 4., 6., -0., -.5, -1., -1.5, -2., -3., -4., -6."
BLOCKS = "tensor([0, 1, 3, 4, 4]); tensor([2, 0, 3, 1]); R(4, 4, 4)"  # 4 of 16 blocks of 4 x 4

PROBLEMS = {
    "fp8 with scales": (
        "R(16, 32).to(fp8); R(16, 32).to(fp8); R(1).abs(); R(1).abs()",
        "return torch._scaled_mm(a0, a1.t(), a2, a3, out_dtype=bf16)",
        {"contraction.fp8": 2 * MM, "fp32": (0, 2 * 256)},
        512 + 512 + 8,
        H * 256,
        "not for doubles",
    ),
    "fp8 converted, then multiplied": (
        "R(16, 32).to(fp8); R(32, 8, d=bf16)",
        "return a0.to(bf16) @ a1",
        {"contraction.bf16": MM},
        512 + H * 256,
        H * 128,
    ),
    "an fp8 result": (
        "R(64, 32, d=bf16)",
        "return (a0 * 2).to(fp8)",
        {"fp32": 2048},
        H * 2048,
        2048,
    ),
    "int8 times int8": (
        "ones(17, 8, d=i8); ones(8, 8, d=i8)",
        "return torch._int_mm(a0, a1)",
        {"contraction.int8": 2 * 17 * 8 * 8},
        136 + 64,
        4 * 136,
    ),
    "int8 weights with a scale a row": (
        "R(16, 32, d=bf16); ones(8, 32, d=i8); R(8, 1, d=bf16)",
        "return a0 @ (a1.to(bf16) * a2).t()",
        {"contraction.bf16": MM, "fp32": (0, 256)},  # or on the 128 results
        H * 512 + 256 + H * 8,
        H * 128,
    ),
    "a tensor quantised to int8": (
        "R(64)",
        "s = a0.abs().amax() / 127\nreturn (a0 / s).round().to(i8), s",
        {"fp32": (3 * 64 - 1, 4 * 64), "sfu": (1, 2)},
        F * 64,
        64 + F,
    ),
    "int4, two to a byte": (
        "R(16, 32, d=bf16); I(256, 8, 16, d=u8)",
        "lo, hi = (a1 & 15).to(bf16) - 8, (a1 >> 4).to(bf16) - 8\n"
        "return a0 @ torch.stack([lo, hi], -1).reshape(8, 32).t()",
        {"contraction.bf16": MM, "fp32": (0, 256), "int32": (0, 256)},
        H * 512 + 128,
        H * 128,
    ),
    "int4 with a scale for each group of 16": (
        "R(16, 32, d=bf16); I(256, 8, 16, d=u8); R(8, 2, d=bf16)",
        "q = torch.stack([a1 & 15, a1 >> 4], -1).reshape(8, 2, 16)\n"
        "w = (q.to(bf16) - 8) * a2[..., None]\nreturn a0 @ w.reshape(8, 32).t()",
        {"contraction.bf16": MM, "fp32": (0, 512), "int32": (0, 256)},
        H * 512 + 128 + H * 16,
        H * 128,
    ),
    "half of the int4 rows": (
        "I(256, 8, 16, d=u8)",
        "return torch.stack([a0 & 15, a0 >> 4], -1)[:4].to(bf16)",
        {"int32": (0, 128)},
        4 * 16,
        H * 128,
    ),
    "fp4 with a scale of eight bits for each block of 16": (
        "R(16, 32, d=bf16); I(256, 8, 16, d=u8); R(8, 2).to(fp8)",
        f"table = torch.tensor([{FP4}], dtype=bf16, device='cuda')\n"
        "q = torch.stack([a1 & 15, a1 >> 4], -1).reshape(8, 2, 16)\n"
        "w = table[q.int()] * a2.to(bf16)[..., None]\nreturn a0 @ w.reshape(8, 32).t()",
        {"contraction.bf16": MM, "fp32": (0, 256), "int32": (0, 256)},
        H * 512 + 128 + 16,
        H * 128,
    ),
    "ternary codes, four to a byte: a table has all four": (
        "R(16, 32, d=bf16); I(256, 8, 8, d=u8)",
        "s = torch.arange(0, 8, 2, device='cuda', dtype=i32)\n"
        "q = ((a1.to(i32)[:, :, None] >> s) & 3) - 1\n"
        "return a0 @ q.reshape(8, 32).to(bf16).t()",
        {"contraction.bf16": MM, "int32": (0, 64)},  # one lookup a byte
        H * 512 + 64,
        H * 128,
    ),
    "nibbles, eight to a word: three instructions make eight bytes of them": (
        "R(16, 32, d=bf16); I(2**31, 8, 4, d=i32)",
        "s = torch.arange(0, 32, 4, device='cuda', dtype=i32)\n"
        "q = (a1[:, :, None] >> s) & 15\n"
        "return a0 @ (q.reshape(8, 32) - 8).to(bf16).t()",
        {"contraction.bf16": MM, "int32": (0, 3 * 32)},
        H * 512 + 4 * 32,
        H * 128,
    ),
    "signs, eight to a byte, of which each byte has a table": (
        "R(32); I(256, 4, d=u8)",
        "s = torch.arange(8, device='cuda', dtype=u8)\n"
        "b = (a1[:, None] >> s) & 1\n"
        "return a0 * (b.reshape(32).float() * 2 - 1)",
        {"fp32": (32, 3 * 32), "int32": (0, 1)},
        F * 32 + 4,
        F * 32,
    ),
    "signs before a product: a byte has a table": (
        "R(16, 32, d=bf16); I(256, 8, 4, d=u8)",
        "s = torch.arange(8, device='cuda', dtype=u8)\n"
        "b = (a1[:, :, None] >> s) & 1\n"
        "return a0 @ (b.reshape(8, 32).to(bf16) * 2 - 1).t()",
        {"contraction.bf16": MM, "int32": (0, 8)},
        H * 512 + 32,
        H * 128,
    ),
    "wide numbers of a word are made one by one": (
        "I(1000, 64, d=i32)",
        "return a0[:, None] * 1000 + arange(4, d=i32)",
        {"int32": (64 + 256, 2 * 256)},
        4 * 64,
        4 * 256,
    ),
    "codes of two words are no function of one": (
        "I(256, 64, d=u8); I(256, 64, d=u8)",
        "return (a0 & 15) * 16 + (a1 & 15)",
        {"int32": (64 // 4 + 64, 4 * 64)},
        128,
        64,
    ),
    # --------------------------------------------------------------------------------- sparse
    "CSR times a matrix: 8 elements": (
        "tensor([0, 2, 2, 5, 8]); tensor([0, 3, 1, 2, 5, 0, 4, 5]); R(8); R(6, 3)",
        "return torch.sparse_csr_tensor(a0, a1, a2, (4, 6)) @ a3",
        {"contraction.fp32": (0, 2 * 8 * 3), "fp32": (0, 2 * 8 * 3)},
        I64 * (5 + 8) + F * (8 + 18),
        F * 12,
        "indices must stay in order",
    ),
    "COO times a matrix": (
        "arange(8); arange(8) % 6; R(8); R(6, 3)",
        "s = torch.sparse_coo_tensor(torch.stack([a0, a1]), a2, (8, 6))\n"
        "return torch.sparse.mm(s, a3)",
        {"contraction.fp32": (0, 2 * 8 * 3), "fp32": (0, 2 * 8 * 3)},
        I64 * 16 + F * (8 + 18),
        F * 24,
        "indices must stay in order",
    ),
    "CSR by hand": (
        "tensor([0, 2, 2, 5, 8]); tensor([0, 3, 1, 2, 5, 0, 4, 5]); R(8); R(6)",
        "rows = torch.repeat_interleave(arange(4), a0.diff())\n"
        "return torch.zeros(4, device='cuda').index_add(0, rows, a2 * a3[a1])",
        {"fp32": (8, 16), "int32": (0, 16)},
        I64 * (5 + 8) + F * (8 + 6),
        F * 4,
        "indices must stay in order",
    ),
    "by blocks: 4 of 16": (
        f"{BLOCKS}; R(16, 3)",
        "return torch.sparse_bsr_tensor(a0, a1, a2, (16, 16)) @ a3",
        {"contraction.fp32": 2 * 4 * 16 * 3},
        I64 * (5 + 4) + F * (64 + 48),
        F * 48,
        "indices must stay in order",
    ),
    "by blocks, by hand": (
        "arange(4); tensor([2, 0, 3, 1]); R(4, 4, 4); R(16, 3)",
        "y = torch.bmm(a2, a3.reshape(4, 4, 3)[a1])\n"
        "return torch.zeros(4, 4, 3, device='cuda').index_add(0, a0, y)",
        {"contraction.fp32": 2 * 4 * 16 * 3, "fp32": (0, 48)},
        I64 * 8 + F * (64 + 48),
        F * 48,
    ),
    "blocks that are not named are not read": (
        "tensor([1, 1]); R(2, 4, 4); R(16, 3)",
        "return torch.bmm(a1, a2.reshape(4, 4, 3)[a0])",
        {"contraction.fp32": 2 * 2 * 16 * 3},
        I64 * 2 + F * (32 + 12),
        F * 24,
    ),
    "a block mask that the program knows": (
        "R(16, 16); R(16, 3)",
        "m = torch.eye(4, device='cuda').repeat_interleave(4, 0).repeat_interleave(4, 1)\n"
        "return torch.where(m > 0, a0, 0.0) @ a1",
        {"contraction.fp32": 2 * 4 * 16 * 3},
        F * (64 + 48),
        F * 48,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
