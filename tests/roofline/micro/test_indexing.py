"""Gather, index_select, advanced indexing, embedding, scatter."""

from __future__ import annotations

import pytest

F, I64 = 4, 8  # bytes of a float32 and of an int64 index
UNKNOWN = "what is read depends on the data"

ANY = {"fp32": (0, 1e3), "int32": (0, 1e3)}  # of a comparison and a choice

PROBLEMS = {
    "experts weighed by what is scattered into zeros: the two that are chosen": (
        "R(8, 4); R(4, 4); R(4, 4, 4)",
        "v, i = (a0 @ a1).topk(2)\n"
        "g = torch.zeros(8, 4, device=DEV).scatter(-1, i, v)\n"
        "return torch.stack([g[:, e, None] * (a0 @ a2[e]) for e in range(4)]).sum(0)",
        # each pair of a token and an expert is multiplied and weighed; of 4 terms 2 are not zero
        {"contraction.fp32": 2 * 8 * 16 + 2 * 16 * 16, "fp32": (16 * 4 + 8 * 4, 1e3)},
        4 * (32 + 16 + 64),
        4 * 32,
    ),
    "tokens sent to experts by one-hot rows": (
        "R(8, 4); R(4, 4); R(4, 4, 4)",
        "hot = F.one_hot((a0 @ a1).argmax(-1), 4).to(a0.dtype)\n"
        "return torch.einsum('te,td,edf->tf', hot, a0, a2)",
        {"contraction.fp32": (2 * 8 * 16 + 2 * 8 * 16, 2 * 8 * 16 + 2 * 8 * 16 + 64), **ANY},
        4 * (32 + 16 + 64),
        4 * 32,
        "no small change of a router's weight changes a choice",
    ),
    "pages of a cache, the last one in part": (
        "R(10, 4, 2, 8)",
        "return a0[tensor([7, 2, 5])].reshape(-1, 2, 8)[:9] * 2",
        {"fp32": 9 * 16},
        4 * 9 * 16,
        4 * 9 * 16,
    ),
    "rows named twice, a triangle of them": (
        "R(5, 4)",
        "return a0[tensor([0, 0, 3, 1])].tril()",
        {},
        4 * (2 + 3 + 4),  # of row 0 the first two, of row 3 three, of row 1 four
        4 * 16,
    ),
    "a known mask written in each of a batch of large matrices": (
        "R(3, 1200, 1200)",
        "b = a0.clone()\nb[:, causal(1200)] = 0\nreturn b",
        {},
        4 * 3 * (1200 * 1199 // 2),
        4 * 3 * 1200 * 1200,
        "too large for brute force",
    ),
    "embedding: each row that is named once": (
        "R(1000, 32); arange(50) % 10",
        "return F.embedding(a1, a0)",
        {},
        I64 * 50 + F * 10 * 32,
        F * 50 * 32,
    ),
    "some columns of it": (
        "R(100, 32); arange(50) % 10",
        "return F.embedding(a1, a0)[:, :8].clone()",
        {},
        I64 * 50 + F * 10 * 8,
        F * 50 * 8,
    ),
    "an expanded index": (
        "R(100, 32); arange(10)",
        "return F.embedding(a1[:, None].expand(10, 5), a0)",
        {},
        I64 * 10 + F * 10 * 32,
        F * 50 * 32,
    ),
    "an index of 32 bits": (
        "R(100, 32); arange(10, d=i32)",
        "return F.embedding(a1, a0)",
        {},
        4 * 10 + F * 320,
        F * 320,
    ),
    "a bag of embeddings, summed": (
        "R(1000, 32); arange(50); arange(0, 50, 5)",
        "return F.embedding_bag(a1, a0, a2, mode='sum')",
        {"fp32": (40 * 32, 50 * 32)},
        I64 * 50 + I64 * 10 + F * 50 * 32,
        F * 10 * 32,
        "perturbing offsets breaks the operator",
    ),
    "an embedding of half width": (
        "R(1000, 32, d=bf16); arange(5)",
        "return F.embedding(a1, a0)",
        {},
        I64 * 5 + 2 * 160,
        2 * 160,
    ),
    "a cast table is cast where it is read": (
        "R(1000, 32); arange(4)",
        "return F.embedding(a1, a0.bfloat16())",
        {},
        I64 * 4 + F * 128,
        2 * 128,
    ),
    "a table that is computed, where it is read": (
        "R(1000, 32); arange(10)",
        "return (a0 * 2)[a1]",
        {"fp32": 320},
        I64 * 10 + F * 320,
        F * 320,
    ),
    "a lookup times weights": (
        "R(1000, 32); arange(4); R(32, 8)",
        "return F.embedding(a1, a0) @ a2",
        {"contraction.fp32": 2 * 4 * 32 * 8},
        I64 * 4 + F * (4 * 32 + 32 * 8),
        F * 4 * 8,
    ),
    "tied weights: looked up and multiplied with": (
        "R(100, 32); arange(4)",
        "return F.embedding(a1, a0) @ a0.t()",
        {"contraction.fp32": 2 * 4 * 32 * 100},
        I64 * 4 + F * 3200,
        F * 400,
    ),
    "a table both looked up and sliced": (
        "R(100, 8); arange(90)",
        "return a0[a1].sum() + a0[99].sum()",
        {"fp32": 90 * 8 + 8 - 1},
        I64 * 90 + F * 91 * 8,
        F,
    ),
    "a table looked up and read whole": (
        "R(100, 8); arange(10)",
        "return a0[a1].sum() + a0.sum()",
        {"fp32": 80 + 800 - 1},
        I64 * 10 + F * 800,
        F,
    ),
    "rows and columns of one table: their union": (
        "R(100, 50); arange(10); arange(5)",
        "return a0[a1].sum() + a0[:, a2].sum()",
        {"fp32": 10 * 50 + 100 * 5 - 1},
        I64 * 15 + F * (10 * 50 + 90 * 5),
        F,
    ),
    "two lookups overlap": (
        "R(100, 8); arange(10); arange(5, 25)",
        "return a0[a1].sum() + a0[a2].sum()",
        {"fp32": 30 * 8 - 1},
        I64 * 30 + F * 25 * 8,
        F,
    ),
    "a lookup where half was overwritten before": (
        "R(100, 8); arange(45, 55)",
        "a0[:50] = 0.5\nreturn a0[a1] * 2",
        {"fp32": (40, 80)},
        I64 * 10 + F * 5 * 8,
        F * 80,
    ),
    "index_select along columns": (
        "R(64, 100); tensor([3, 3, 7])",
        "return a0.index_select(1, a1)",
        {},
        I64 * 3 + F * 64 * 2,
        F * 64 * 3,
    ),
    "index_select of an expanded table": (
        "R(1000, 1); arange(10)",
        "return a0.expand(1000, 64).index_select(0, a1)",
        {},
        I64 * 10 + F * 10,
        F * 640,
    ),
    "an index into a transposed view": (
        "R(1000, 32); arange(10)",
        "return a0.t()[:, a1]",
        {},
        I64 * 10 + F * 320,
        F * 320,
    ),
    "an index into a transposing copy": (
        "R(32, 1000); arange(4)",
        "return a0.t().contiguous()[a1]",
        {},
        I64 * 4 + F * 128,
        F * 128,
    ),
    "an index in the middle": (
        "R(100, 8, 32); arange(4)",
        "return a0[:, a1]",
        {},
        I64 * 4 + F * 100 * 4 * 32,
        F * 100 * 4 * 32,
    ),
    "two indices at once: 8 elements": (
        "R(100, 8); zeros(30, d=i64); arange(30) % 8",
        "return a0[a1, a2]",
        {},
        2 * I64 * 30 + F * 8,
        F * 30,
    ),
    "two indices and a rest": (
        "R(10, 10, 8); arange(5); arange(5)",
        "return a0[a1, a2]",
        {},
        2 * I64 * 5 + F * 5 * 8,
        F * 5 * 8,
    ),
    "a crossing of two indices: rows times columns": (
        "R(100, 50); arange(10); arange(5)",
        "return a0[a1[:, None], a2]",
        {},
        I64 * 15 + F * 50,
        F * 50,
    ),
    "an index that the program holds": (
        "R(100, 8)",
        "return a0[tensor([1, 2])]",
        {},
        F * 16,
        F * 16,
    ),
    "a list as the index": ("R(100, 8)", "return a0[[1, 2, 2]]", {}, F * 16, F * 24),
    "reversed by an index": (
        "R(64, 32)",
        "return a0[:, arange(31, -1, -1)]",
        {},
        F * 2048,
        F * 2048,
    ),
    "gather along rows": (
        "R(4, 100); zeros(4, 7, d=i64)",
        "return a0.gather(1, a1)",
        {},
        I64 * 28 + F * 4,
        F * 28,
    ),
    "gather along columns": (
        "R(100, 4); arange(28).reshape(7, 4)",
        "return a0.gather(0, a1)",
        {},
        I64 * 28 + F * 28,
        F * 28,
    ),
    "gather by an expanded index": (
        "R(100, 16); arange(7)",
        "return a0.gather(0, a1[:, None].expand(7, 16))",
        {},
        I64 * 7 + F * 7 * 16,
        F * 7 * 16,
    ),
    "take_along_dim": (
        "R(10, 10)",
        "return torch.take_along_dim(a0, zeros(10, 1, d=i64), 1)",
        {},
        F * 10,
        F * 10,
    ),
    "take": ("R(100); arange(10)", "return torch.take(a0, a1)", {}, I64 * 10 + F * 10, F * 10),
    "indices nobody knows are taken to be distinct": (
        "R(1000, 32); R(50)",
        "return a0[(a1 * 10).long().abs()]",
        {"fp32": 50, "int32": (0, 50)},
        F * 50 + F * 50 * 32,
        F * 50 * 32,
        UNKNOWN,
    ),
    "nor can they name more rows than there are": (
        "R(10, 32); R(50)",
        "return a0[(a1 * 10).long().abs()]",
        {"fp32": 50, "int32": (0, 50)},
        F * 50 + F * 10 * 32,
        F * 50 * 32,
        UNKNOWN,
    ),
    "one_hot times a table is a lookup": (
        "arange(10); R(100, 32)",
        "return F.one_hot(a0, 100).float() @ a1",
        {"contraction.fp32": (0, 2 * 10 * 32), "int32": (0, 1000), "fp32": (0, 1000)},
        I64 * 10 + F * 320,
        F * 320,
    ),
    "a page table": (
        "R(50, 4, 8, d=bf16); tensor([[3, 5], [7, 9]]); R(2, 1, 1, 8, d=bf16)",
        "k = a0[a1].reshape(2, 1, 8, 8)\nreturn F.scaled_dot_product_attention(a2, k, k)",
        {
            "contraction.bf16": 4 * 2 * 8 * 8,  # 2 sequences, a query each, 8 keys of 8
            "fp32": (2 * 8, 4 * 16 + 16),
            "sfu": 16 + 2,
        },
        I64 * 4 + 2 * (4 * 4 * 8 + 2 * 8),
        2 * 2 * 8,
    ),
    "scatter into zeros": (
        "R(64); arange(64)",
        "return torch.zeros(64, device='cuda').index_put((a1,), a0)",
        {},
        I64 * 64 + F * 64,
        F * 64,
    ),
    "scatter_add": (
        "R(20, 8); zeros(20, 8, d=i64)",
        "return torch.zeros(10, 8, device='cuda').scatter_add(0, a1, a0)",
        {"fp32": (160 - 80, 160)},
        I64 * 160 + F * 160,
        F * 80,
    ),
    "scatter_add of as much as the index names": (
        "R(100, 8); zeros(10, 8, d=i64)",
        "return torch.zeros(10, 8, device='cuda').scatter_add(0, a1, a0)",
        {"fp32": (0, 80)},
        I64 * 80 + F * 80,
        F * 80,
    ),
    "scatter replaces: those rows of the base are not read": (
        "R(10, 8); zeros(1, 8, d=i64); R(20, 8)",
        "return a2.scatter(0, a1, a0)",
        {},
        I64 * 8 + F * 8 + F * 19 * 8,
        F * 160,
    ),
    "scatter_add of rows, by an index that is expanded": (
        "R(40, 8); I(10, 40)",
        "i = a1[:, None].expand(-1, 8)\n"
        "return torch.zeros(10, 8, device='cuda').scatter_add_(0, i, a0 * 2)",
        {"fp32": (320 + 320 - 80, 640)},
        F * 320 + I64 * 40,
        F * 80,
    ),
    "images among a text's tokens: what they replace is not read": (
        "R(2, 16, 8); arange(32).view(2, 16) % 4; R(8, 8)",
        "return a0.masked_scatter((a1 == 1)[..., None].expand(-1, -1, 8), a2)",
        {"int32": (0, 32)},
        F * (256 - 64) + I64 * 32 + F * 64,
        F * 256,
        "small changes of a token make no image of it",
    ),
    "images at places that nobody knows": (
        "R(2, 16, 8); R(2, 16); R(8, 8)",
        "return a0.masked_scatter((a1 > 0)[..., None].expand(-1, -1, 8), a2)",
        {"fp32": (0, 32)},
        F * (256 - 64) + F * 32 + F * 64,
        F * 256,
        "the mask needs as many places as there are images",
    ),
    "scatter_reduce": (
        "R(100); arange(100) % 10",
        "return torch.zeros(10, device='cuda').scatter_reduce(0, a1, a0, 'sum')",
        {"fp32": (90, 100)},
        I64 * 100 + F * 100,
        F * 10,
    ),
    "sums by segment": (
        "R(64, 32); arange(64) % 4",
        "return torch.zeros(4, 32, device='cuda').index_add_(0, a1, a0)",
        {"fp32": (2048 - 128, 2048)},
        I64 * 64 + F * 2048,
        F * 128,
    ),
    "positions: a slice of a table, added": (
        "R(1, 100, 32); R(2, 16, 32)",
        "return a1 + a0[:, :16]",
        {"fp32": 1024},
        F * (512 + 1024),
        F * 1024,
    ),
    # ----------------------------------------------------------------- products behind lookups
    "rows of a table times a matrix: a product for each row of the table": (
        "R(4, 16); I(4, 64); R(16, 8)",
        "return a0[a1] @ a2",
        {"contraction.fp32": 2 * 4 * 16 * 8},
        F * (64 + 128) + I64 * 64,
        F * 64 * 8,
    ),
    "differences of rows next to rows: products of the table with both parts": (
        "R(4, 16); I(4, 64); I(4, 64); R(32, 8)",
        "return torch.cat([a0[a1] - a0[a2], a0[a2]], 1) @ a3",
        {"contraction.fp32": 2 * 2 * 4 * 16 * 8, "fp32": (64 * 8, 64 * 16)},
        F * (64 + 256) + 2 * I64 * 64,
        F * 64 * 8,
    ),
    "two layers behind a lookup": (
        "R(4, 16); I(4, 64); R(16, 8); R(8, 8)",
        "return torch.relu(a0[a1] @ a2) @ a3",
        {"contraction.fp32": 2 * 4 * (16 + 8) * 8, "fp32": (4 * 8, 64 * 8)},
        F * (64 + 128 + 64) + I64 * 64,
        F * 64 * 8,
        "rectified numbers are not needed",
    ),
    "sums of rows and columns times a matrix": (
        "R(8, 1, 16); R(8, 16); R(16, 4)",
        "return (a0 + a1) @ a2",
        {"contraction.fp32": 2 * 2 * 8 * 16 * 4, "fp32": (64 * 4, 64 * 16)},
        F * (2 * 128 + 64),
        F * 64 * 4,
    ),
    "rows that meet a matrix of their own": (
        "R(4, 16); I(4, 64); R(64, 16, 8)",
        "return torch.bmm(a0[a1][:, None], a2)",
        {"contraction.fp32": 2 * 64 * 16 * 8},
        F * (64 + 64 * 128) + I64 * 64,
        F * 64 * 8,
    ),
    "inner products of the pairs that an index names": (
        "R(16384, 16); R(8192, 16); I(8192, 1000); I(8192, 1000)",
        "return (0.25 * (a0 @ a1.T))[a2, a3]",
        {"contraction.fp32": 2 * 1000 * 16, "fp32": 1000},
        (2 * F * 1000 * 16, F * 16 * (16384 + 8192) + 2 * I64 * 1000),
        F * 1000,
        "too large for brute force",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
