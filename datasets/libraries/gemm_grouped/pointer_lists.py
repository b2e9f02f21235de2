"""Lists of products whose addresses and sizes are tensors; a fixed grid walks over all tiles."""

import torch
import triton
import triton.language as tl

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "matmul"
SHAPES = [{"case": 0}, {"case": 1}, {"case": 2}]
SIZES = [
    [(1024, 1024, 1024), (512, 512, 512), (256, 2048, 512), (128, 128, 128)],
    [(2048, 512, 512)] * 8,
    [(64 * (g + 1), 768, 1024) for g in range(16)],
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {
    "BLOCK_SIZE_M": [32, 64, 128],
    "BLOCK_SIZE_N": [32, 64, 128],
    "BLOCK_SIZE_K": [32, 64],
    "NUM_SM": [66, 132, 264],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def grouped_matmul_kernel(
    group_a_ptrs, group_b_ptrs, group_c_ptrs, group_gemm_sizes, g_lds, group_size,
    NUM_SM: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):  # fmt: skip
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_gemm_sizes + g * 3)
        gn = tl.load(group_gemm_sizes + g * 3 + 1)
        gk = tl.load(group_gemm_sizes + g * 3 + 2)
        num_n_tiles = tl.cdiv(gn, BLOCK_SIZE_N)
        num_tiles = tl.cdiv(gm, BLOCK_SIZE_M) * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda = tl.load(g_lds + g * 3)
            ldb = tl.load(g_lds + g * 3 + 1)
            ldc = tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float16))
            tile = tile_idx - last_problem_end
            offs_m = tile // num_n_tiles * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
            offs_n = tile % num_n_tiles * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
            offs_k = tl.arange(0, BLOCK_SIZE_K)
            a_ptrs = a_ptr + offs_m[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_n[None, :]
            accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
            for _ in range(0, tl.cdiv(gk, BLOCK_SIZE_K)):
                a = tl.load(a_ptrs, mask=offs_m[:, None] < gm, other=0.0)
                b = tl.load(b_ptrs, mask=offs_n[None, :] < gn, other=0.0)
                accumulator += tl.dot(a, b)
                a_ptrs += BLOCK_SIZE_K
                b_ptrs += BLOCK_SIZE_K * ldb
            c_ptrs = c_ptr + ldc * offs_m[:, None] + offs_n[None, :]
            inside = (offs_m[:, None] < gm) & (offs_n[None, :] < gn)
            tl.store(c_ptrs, accumulator.to(tl.float16), mask=inside)
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


def valid(params, shape):
    tile = params["BLOCK_SIZE_M"] * params["BLOCK_SIZE_N"] / (32 * params["num_warps"])
    return 8 <= tile <= 128


def inputs(case=0, device="cuda"):
    group_a, group_b = [], []
    for m, n, k in SIZES[case]:
        group_a.append(torch.randn(m, k, dtype=torch.float16, device=device))
        group_b.append(torch.randn(k, n, dtype=torch.float16, device=device) * k**-0.5)
    return group_a, group_b


def reference(group_a, group_b):
    return [a @ b for a, b in zip(group_a, group_b)]


def kernel(group_a, group_b, *, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=32, NUM_SM=132,
           num_warps=4, num_stages=2):  # fmt: skip
    device = group_a[0].device
    group_c = [a.new_empty(a.shape[0], b.shape[1]) for a, b in zip(group_a, group_b)]
    triples = list(zip(group_a, group_b, group_c))
    sizes = [side for a, b, _ in triples for side in (a.shape[0], b.shape[1], a.shape[1])]
    strides = [x.stride(0) for triple in triples for x in triple]
    pointers = [
        torch.tensor([x.data_ptr() for x in group], device=device)
        for group in (group_a, group_b, group_c)
    ]
    grouped_matmul_kernel[(NUM_SM,)](
        *pointers, torch.tensor(sizes, dtype=torch.int32, device=device),
        torch.tensor(strides, dtype=torch.int32, device=device), len(triples), NUM_SM=NUM_SM,
        BLOCK_SIZE_M=BLOCK_SIZE_M, BLOCK_SIZE_N=BLOCK_SIZE_N, BLOCK_SIZE_K=BLOCK_SIZE_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return group_c
