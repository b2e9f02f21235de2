"""Matrix products in all their forms, and triangular, diagonal and banded structure."""

from __future__ import annotations

import pytest

F, H = 4, 2  # bytes of a float32 and of a bfloat16
N = 64 * 32
TRI = 64 * 65 // 2  # elements on and below the diagonal of 64 x 64
X, Y = "R(64, 32)", "R(32, 16)"
XY = 2 * 64 * 32 * 16

PROBLEMS = {
    "a linear layer of zeros: its bias": (
        "R(6, 4); R(6)",
        "return F.linear(zeros(3, 4), a0, a1)",
        {},
        4 * 6,
        4 * 18,
    ),
    "mm": (f"{X}; {Y}", "return a0 @ a1", {"contraction.fp32": XY}, F * (N + 512), F * 1024),
    "in half precision": (
        "R(64, 32, d=f16); R(32, 16, d=f16)",
        "return a0 @ a1",
        {"contraction.fp16": XY},
        H * (N + 512),
        H * 1024,
    ),
    "in double precision": (
        "R(64, 32, d=f64); R(32, 16, d=f64)",
        "return a0 @ a1",
        {"contraction.fp64": XY},
        8 * (N + 512),
        8 * 1024,
    ),
    "under autocast": (
        f"{X}; {Y}",
        "with torch.autocast('cuda', torch.bfloat16): return a0 @ a1",
        {"contraction.bf16": XY},
        F * (N + 512),
        H * 1024,
        "autocast keeps no doubles",
    ),
    "integers: 32-bit multiply-adds": (
        "ones(8, 16, d=i32); ones(16, 4, d=i32)",
        "return a0 @ a1",
        {"int32": (8 * 16 * 4, 2 * 8 * 16 * 4)},  # one instruction, two operations
        4 * (128 + 64),
        4 * 32,
    ),
    "complex: 4 real products, or 3": (
        "R(16, 8, d=torch.complex64); R(8, 4, d=torch.complex64)",
        "return a0 @ a1",
        {"contraction.fp32": (6 * 16 * 8 * 4, 8 * 16 * 8 * 4)},
        8 * (128 + 32),
        8 * 64,
    ),
    "bmm": (
        "R(5, 16, 32); R(5, 32, 8)",
        "return torch.bmm(a0, a1)",
        {"contraction.fp32": 2 * 5 * 16 * 32 * 8},
        F * 5 * (512 + 256),
        F * 5 * 128,
    ),
    "bmm with a weight that is expanded": (
        "R(5, 16, 32); R(1, 32, 8)",
        "return torch.bmm(a0, a1.expand(5, 32, 8))",
        {"contraction.fp32": 2 * 5 * 16 * 32 * 8},
        F * (5 * 512 + 256),
        F * 5 * 128,
    ),
    "bmm of the same five times": (
        "R(1, 16, 32); R(1, 32, 8)",
        "return torch.bmm(a0.expand(5, 16, 32), a1.expand(5, 32, 8))",
        {"contraction.fp32": 2 * 16 * 32 * 8},
        F * (512 + 256),
        F * 5 * 128,
    ),
    "eigenvalues of symmetric matrices: one triangle is read": (
        "R(3, 8, 8)",
        "return torch.linalg.eigvalsh(a0)",
        {"contraction.fp32": 3 * 4 * 8**3 / 3},
        F * 3 * 36,
        F * 3 * 8,
        "a gradient is spread over both triangles",
    ),
    "eigenvectors by the upper triangle": (
        "R(3, 8, 8)",
        "return torch.linalg.eigh(a0, 'U')[1]",
        {"contraction.fp32": 3 * 4 * 8**3 / 3},
        F * 3 * 36,
        F * 3 * 64,
        "a gradient is spread over both triangles",
    ),
    "bmm of copies for three heads": (
        "R(5, 16, 32); R(5, 32, 8)",
        "a, b = (a.repeat_interleave(3, dim=0) for a in (a0, a1))\n"
        "return torch.bmm(a.mT.contiguous().mT, b)",
        {"contraction.fp32": 2 * 5 * 16 * 32 * 8},
        F * 5 * (512 + 256),
        F * 15 * 128,
    ),
    "an einsum of heads that share two groups": (
        "R(3, 7, 2, 4); R(3, 7, 2, 4)",
        "a, b = (a.repeat_interleave(5, dim=2) for a in (a0, a1))\n"
        "return torch.einsum('blhn,bshn->blsh', a, b)",
        {"contraction.fp32": 2 * 3 * 2 * 7 * 7 * 4},
        F * 2 * 3 * 7 * 2 * 4,
        F * 3 * 7 * 7 * 10,
    ),
    "bmm of one factor's copies": (
        "R(5, 16, 32); R(15, 32, 8)",
        "return torch.bmm(a0.repeat_interleave(3, dim=0), a1)",
        {"contraction.fp32": 2 * 15 * 16 * 32 * 8},
        F * (5 * 512 + 15 * 256),
        F * 15 * 128,
    ),
    "mv of rows that are copied in pairs": (
        "R(16, 32); R(32)",
        "return torch.mv(a0.repeat_interleave(2, dim=0), a1)",
        {"contraction.fp32": 2 * 16 * 32},
        F * (512 + 32),
        F * 32,
    ),
    "mm of rows that are copied in pairs": (
        "R(16, 32); R(32, 8)",
        "return a0.repeat_interleave(2, dim=0) @ a1",
        {"contraction.fp32": 2 * 16 * 32 * 8},
        F * (512 + 256),
        F * 256,
    ),
    "bmm of heads that are copied in pairs and in threes: four products": (
        "R(2, 16, 32); R(3, 32, 8)",
        "return torch.bmm(a0.repeat_interleave(3, dim=0), a1.repeat_interleave(2, dim=0))",
        {"contraction.fp32": 2 * 4 * 16 * 32 * 8},
        F * (2 * 512 + 3 * 256),
        F * 6 * 128,
    ),
    "copied rows by their own transpose": (
        "R(16, 32)",
        "a = a0.repeat_interleave(3, dim=0)\nreturn a @ a.T",
        {"contraction.fp32": 16 * 17 * 32},
        F * 512,
        F * 48 * 48,
    ),
    "copied rows that are chosen from, and written in place": (
        "R(16, 32); R(32, 8)",
        "a = a0.repeat_interleave(3, dim=0)\na = torch.where(a > a0[0], a, 0.5 * a)\n"
        "return a.mul_(2) @ a1",
        {"contraction.fp32": 2 * 16 * 32 * 8, "fp32": (3 * 512, 7 * 512)},  # once, or for each copy
        F * (512 + 256),
        F * 48 * 8,
    ),
    "copied columns of which one is written": (
        "R(6, 4, 1); R(6, 1, 1)",
        "b = a1.repeat_interleave(4, dim=0).repeat_interleave(3, dim=2)\n"
        "b[:, :, :1] *= 1.5\nreturn torch.bmm(a0[:4], b[:4])",
        {"contraction.fp32": 2 * 4 * 4 * 3, "fp32": 4},
        F * (16 + 1),
        F * 48,
    ),
    "rows of another length than those that were copied": (
        "R(2, 6); R(8, 4)",
        "return a0.repeat_interleave(32, dim=0).view(48, 8) @ a1",
        {"contraction.fp32": 2 * 48 * 8 * 4},
        F * (12 + 32),
        F * 48 * 4,
    ),
    "copied rows read as another dtype": (
        "R(8, 16); R(32, 8, d=bf16)",
        "return a0.repeat_interleave(4, dim=0).view(bf16) @ a1",
        {"contraction.bf16": 2 * 8 * 32 * 8},
        F * 128 + H * 256,
        H * 32 * 8,
        "perturbs elements, not bytes of other widths",
    ),
    "a weight used ten times is read once": (
        "R(16, 16); R(16, 16)",
        "for _ in range(10): a0 = a0 @ a1\nreturn a0",
        {"contraction.fp32": 10 * 2 * 16**3},
        F * 2 * 256,
        F * 256,
    ),
    "x times its transpose: half of it is the other half": (
        X,
        "return a0 @ a0.T",
        {"contraction.fp32": 64 * 65 * 32},
        F * N,
        F * 4096,
    ),
    "a batch of Gram matrices: one triangle of each": (
        "R(3, 8, 4, 4)",
        "f = a0.flatten(2)\nreturn torch.einsum('bcn,bdn->bcd', f, f) / 16",
        {"contraction.fp32": 3 * 8 * 9 * 16, "fp32": 3 * 64},
        F * 3 * 128,
        F * 3 * 64,
    ),
    "a square of a matrix is no Gram matrix": (
        "R(8, 8)",
        "return a0 @ a0",
        {"contraction.fp32": 2 * 8**3},
        F * 64,
        F * 64,
    ),
    "two parts of one storage": (
        "R(64, 64)",
        "return a0[:32] @ a0[32:].T",
        {"contraction.fp32": 2 * 32 * 32 * 64},
        F * 4096,
        F * 1024,
    ),
    "the same product twice": (
        f"{X}; {Y}",
        "return (a0 @ a1).relu() + (a0 @ a1).exp()",
        {"contraction.fp32": XY, "fp32": 2 * 1024, "sfu": 1024},
        F * (N + 512),
        F * 1024,
    ),
    "addmm": (
        f"R(64, 16); {X}; {Y}",
        "return torch.addmm(a0, a1, a2)",
        {"contraction.fp32": XY, "fp32": (0, 1024)},
        F * (1024 + N + 512),
        F * 1024,
    ),
    "addmm with a row": (
        f"R(16); {X}; {Y}",
        "return torch.addmm(a0, a1, a2)",
        {"contraction.fp32": XY, "fp32": (0, 1024)},
        F * (16 + N + 512),
        F * 1024,
    ),
    "addmm with beta 0": (
        f"R(64, 16); {X}; {Y}",
        "return torch.addmm(a0, a1, a2, beta=0)",
        {"contraction.fp32": XY},
        F * (N + 512),
        F * 1024,
    ),
    "addmm with alpha 0": (
        f"R(64, 16); {X}; {Y}",
        "return torch.addmm(a0, a1, a2, alpha=0)",
        {"fp32": (0, 1024)},
        F * 1024,
        F * 1024,
    ),
    "baddbmm": (
        "R(3, 16, 8); R(3, 16, 32); R(3, 32, 8)",
        "return torch.baddbmm(a0, a1, a2)",
        {"contraction.fp32": 2 * 3 * 16 * 32 * 8, "fp32": (0, 384)},
        F * 3 * (128 + 512 + 256),
        F * 3 * 128,
    ),
    "addbmm sums over the batch": (
        "R(16, 8); R(3, 16, 32); R(3, 32, 8)",
        "return torch.addbmm(a0, a1, a2)",
        {"contraction.fp32": 2 * 3 * 16 * 32 * 8, "fp32": (0, 128)},
        F * (128 + 3 * (512 + 256)),
        F * 128,
    ),
    "mv": (
        f"{X}; R(32)",
        "return torch.mv(a0, a1)",
        {"contraction.fp32": 2 * N},
        F * (N + 32),
        F * 64,
    ),
    "mv with equal rows: one dot product": (
        "R(1, 32); R(32)",
        "return a0.expand(64, 32) @ a1",
        {"contraction.fp32": 2 * 32},
        F * 64,
        F * 64,
    ),
    "addmv": (
        f"R(64); {X}; R(32)",
        "return torch.addmv(a0, a1, a2)",
        {"contraction.fp32": 2 * N, "fp32": (0, 64)},
        F * (64 + N + 32),
        F * 64,
    ),
    "dot": ("R(64); R(64)", "return a0 @ a1", {"contraction.fp32": 128}, F * 128, F),
    "outer": (
        "R(64); R(32)",
        "return torch.outer(a0, a1)",
        {"fp32": N},
        F * 96,
        F * N,
    ),
    "addr": (
        f"{X}; R(64); R(32)",
        "return torch.addr(a0, a1, a2)",
        {"fp32": 2 * N},
        F * (N + 96),
        F * N,
    ),
    "inner": (
        "R(8, 32); R(16, 32)",
        "return torch.inner(a0, a1)",
        {"contraction.fp32": 2 * 8 * 16 * 32},
        F * 24 * 32,
        F * 128,
    ),
    "tensordot": (
        "R(8, 4, 32); R(4, 32, 16)",
        "return torch.tensordot(a0, a1, dims=2)",
        {"contraction.fp32": 2 * 8 * 128 * 16},
        F * (1024 + 2048),
        F * 128,
    ),
    "einsum of batches": (
        "R(4, 8, 32); R(4, 16, 32)",
        "return torch.einsum('bik,bjk->bij', a0, a1)",
        {"contraction.fp32": 2 * 4 * 8 * 16 * 32},
        F * 4 * (256 + 512),
        F * 4 * 128,
    ),
    "einsum of a diagonal": (
        "R(64, 64)",
        "return torch.einsum('ii->i', a0).clone()",
        {},
        F * 64,
        F * 64,
    ),
    "einsum as a row sum": (
        X,
        "return torch.einsum('ij->i', a0)",
        {"fp32": N - 64},
        F * N,
        F * 64,
    ),
    "einsum elementwise: products, on any pipe": (
        f"{X}; {X}",
        "return torch.einsum('ij,ij->ij', a0, a1)",
        {"contraction.fp32": (0, 2 * N), "fp32": (0, N)},
        2 * F * N,
        F * N,
    ),
    "einsum over both: a dot product": (
        f"{X}; {X}",
        "return torch.einsum('ij,ij->', a0, a1)",
        {"contraction.fp32": 2 * N},
        2 * F * N,
        F,
    ),
    "a bilinear form, contracted from the left": (
        "R(8, 16); R(8, 16); R(4, 16, 16)",
        "return F.bilinear(a0, a1, a2)",
        # x W: 8*4 rows of 16 x 16; then with y: 8*4 dot products of 16
        {"contraction.fp32": (2 * 8 * 4 * 256, 2 * 8 * 4 * (256 + 16)), "fp32": (0, 2 * 512)},
        F * (256 + 1024),
        F * 32,
    ),
    "a power of three": (
        "R(16, 16)",
        "return torch.matrix_power(a0, 3)",
        {"contraction.fp32": 2 * 2 * 16**3},
        F * 256,
        F * 256,
    ),
    "a chain, as it was written": (
        "R(50, 4); R(4, 50); R(50, 4)",
        "return (a0 @ a1) @ a2",
        {"contraction.fp32": 2 * 2 * 50 * 4 * 50},
        F * 600,
        F * 200,
    ),
    "multi_dot chooses the better order": (
        "R(50, 4); R(4, 50); R(50, 4)",
        "return torch.linalg.multi_dot([a0, a1, a2])",
        {"contraction.fp32": 2 * 2 * 4 * 4 * 50},
        F * 600,
        F * 200,
    ),
    "batched over a vmap": (
        "R(8, 16, 32); R(32, 8)",
        "return torch.vmap(lambda x: x @ a1)(a0)",
        {"contraction.fp32": 2 * 8 * 16 * 32 * 8},
        F * (8 * 512 + 256),
        F * 8 * 128,
    ),
    "checkpointed, without a backward pass": (
        "R(8, 4); R(4, 6)",
        "from torch.utils.checkpoint import checkpoint\n"
        "return checkpoint(lambda x, y: (x @ y).relu(), a0, a1, use_reentrant=False)",
        {"contraction.fp32": 2 * 8 * 4 * 6, "fp32": 48},
        F * (32 + 24),
        F * 48,
    ),
    "cosine similarities": (
        f"{X}; {X}",
        "return F.cosine_similarity(a0, a1)",
        # x.y, x.x and y.y: three dot products a row
        {"fp32": (0, 8 * N + 64 * 8), "contraction.fp32": (0, 6 * N), "sfu": (64, 64 * 4)},
        2 * F * N,
        F * 64,
    ),
    "cross products: 9 operations each": (
        "R(64, 3); R(64, 3)",
        "return torch.cross(a0, a1, dim=1)",
        {"fp32": 9 * 64},
        F * 384,
        F * 192,
    ),
    # ------------------------------------------------------------------------------ structure
    "triangle times triangle: j <= k <= i": (
        "R(64, 64); R(64, 64)",
        "return a0.tril() @ a1.tril()",
        {"contraction.fp32": 2 * (64 * 65 * 66 // 6)},
        F * 2 * TRI,
        F * 4096,
    ),
    "triangle times matrix": (
        "R(64, 64); R(64, 32)",
        "return a0.tril() @ a1",
        {"contraction.fp32": 2 * TRI * 32},
        F * (TRI + N),
        F * N,
    ),
    "upper times upper, and the upper part of it": (
        "R(64, 64); R(64, 64)",
        "return torch.triu(a0.triu() @ a1.triu())",
        {"contraction.fp32": 2 * (64 * 65 * 66 // 6)},
        F * 2 * TRI,
        F * 4096,
    ),
    "the triangle of a product": (
        "R(64, 32); R(32, 64)",
        "return torch.tril(a0 @ a1)",
        {"contraction.fp32": 2 * TRI * 32},
        F * 2 * N,
        F * 4096,
    ),
    "the triangle of its relu": (
        "R(64, 32); R(32, 64)",
        "return (a0 @ a1).relu().tril()",
        {"contraction.fp32": 2 * TRI * 32, "fp32": TRI},
        F * 2 * N,
        F * 4096,
    ),
    "a product times a mask of ones and zeros": (
        "R(64, 32); R(32, 64)",
        "return (a0 @ a1) * causal(64).float()",
        {"contraction.fp32": 2 * TRI * 32, "fp32": (0, TRI)},
        F * 2 * N,
        F * 4096,
    ),
    "three diagonals: 3*64 - 2 elements": (
        "R(64, 64); R(64, 32)",
        "return a0.tril(1).triu(-1) @ a1",
        {"contraction.fp32": 2 * 190 * 32},
        F * (190 + N),
        F * N,
    ),
    "a diagonal scales rows": (
        "R(64); R(64, 32)",
        "return torch.diag(a0) @ a1",
        {"contraction.fp32": (0, 2 * N), "fp32": (0, N)},
        F * (64 + N),
        F * N,
    ),
    "a batch of diagonals": (
        "R(4, 16); R(4, 16, 8)",
        "return torch.diag_embed(a0) @ a1",
        {"contraction.fp32": (0, 2 * 512), "fp32": (0, 512)},
        F * (64 + 512),
        F * 512,
    ),
    "two blocks on the diagonal": (
        "R(16, 16); R(16, 16); R(32, 8)",
        "return torch.block_diag(a0, a1) @ a2",
        {"contraction.fp32": 2 * 2 * 256 * 8},
        F * (512 + 256),
        F * 256,
    ),
    "kron": (
        "R(8, 8); R(8, 8)",
        "return torch.kron(a0, a1)",
        {"fp32": 4096},
        F * 128,
        F * 4096,
    ),
    "a triangular solve reads a triangle": (
        "R(8, 8); R(8, 4)",
        "return torch.linalg.solve_triangular(a0, a1, upper=False)",
        # per column: 8*7/2 multiply-adds and 8 divisions
        {"contraction.fp32": (0, 2 * 4 * 28), "fp32": (0, 2 * 4 * 36), "sfu": (0, 32)},
        F * (36 + 32),
        F * 32,
    ),
    "cholesky reads a triangle": (
        "R(8, 8)",
        "return torch.linalg.cholesky(a0)",
        {"contraction.fp32": (0, 8**3), "fp32": (0, 8**3), "sfu": (0, 64)},
        F * 36,
        F * 64,
        "a random matrix is not positive definite",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
