"""Sums over an axis that is not the last; a heuristic says whether one tile holds the axis."""

import torch
import triton
import triton.language as tl

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "reduction"
SHAPES = [{"case": 0}, {"case": 1}, {"case": 2}, {"case": 3}]
SIZES = [
    ((1, 4096, 8192), 1, torch.bfloat16),
    ((64, 512, 1024), 1, torch.float32),
    ((2000, 64, 300), 1, torch.float16),
    ((16, 16384, 64), 1, torch.float32),
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-1}
SPACE = {
    "TILE_N": [1, 8, 32, 64, 128, 256],
    "TILE_K": [32, 64, 128, 256, 512],
    "num_warps": [2, 4, 8],
}


@triton.heuristics({"ONE_TILE_PER_CTA": lambda args: args["TILE_N"] >= args["N"]})
@triton.jit
def sum_dim_kernel_non_inner(
    output_ptr, input_ptr, M, N, K, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
    ONE_TILE_PER_CTA: tl.constexpr,
):  # fmt: skip
    pid_m, pid_k = tl.program_id(0), tl.program_id(1)
    k_offsets = pid_k * TILE_K + tl.arange(0, TILE_K)[None, :]
    if ONE_TILE_PER_CTA:
        n_offsets = tl.arange(0, TILE_N)[:, None]
        inp_offset = pid_m * N * K + n_offsets * K + k_offsets
        mask = (n_offsets < N) & (k_offsets < K)
        inp = tl.load(input_ptr + inp_offset, mask=mask, other=0).to(tl.float32)
        out = tl.sum(inp, axis=0, keep_dims=True)
    else:
        total = tl.zeros((TILE_N, TILE_K), dtype=tl.float32)
        for start_n in range(0, N, TILE_N):
            n_offsets = start_n + tl.arange(0, TILE_N)[:, None]
            inp_offset = pid_m * N * K + n_offsets * K + k_offsets
            mask = (n_offsets < N) & (k_offsets < K)
            total += tl.load(input_ptr + inp_offset, mask=mask, other=0).to(tl.float32)
        out = tl.sum(total, axis=0, keep_dims=True)
    tl.store(output_ptr + pid_m * K + k_offsets, out, mask=k_offsets < K)


def valid(params, shape):
    return 1 <= params["TILE_N"] * params["TILE_K"] / (32 * params["num_warps"]) <= 128


def inputs(case=0, device="cuda"):
    size, dim, dtype = SIZES[case]
    return torch.randn(size, dtype=dtype, device=device), [dim]


def reference(inp, dims):
    return inp.sum(dim=dims, dtype=torch.float32)


def kernel(inp, dims, *, TILE_N=32, TILE_K=64, num_warps=4):
    dim = dims[0]
    M = inp.shape[:dim].numel()
    N, K = inp.shape[dim], inp.shape[dim + 1 :].numel()
    out = torch.empty([*inp.shape[:dim], *inp.shape[dim + 1 :]], device=inp.device)

    def grid(meta):
        return (M, triton.cdiv(K, meta["TILE_K"]), 1)

    sum_dim_kernel_non_inner[grid](
        out, inp, M, N, K, TILE_N=TILE_N, TILE_K=TILE_K, num_warps=num_warps
    )
    return out
