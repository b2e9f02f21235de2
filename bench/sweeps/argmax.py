"""The place of each row's largest element: a reduction over pairs of value and index."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 16384}, {"M": 65536, "N": 512}]
SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
}


def reference(x):
    return x.argmax(dim=1)


def inputs(M=4096, N=16384, device="cuda"):
    # a permutation of different numbers in each row: there are no ties
    steps = torch.arange(N, device=device, dtype=torch.int32) * 9973 % 65521
    shifts = torch.randint(0, 65521, (M, 1), device=device, dtype=torch.int32)
    return (((steps + shifts) % 65521).float(),)


@triton.jit
def argmax_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    best = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((ROWS,), dtype=tl.int32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * N + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=float("-inf"))
        found, where = tl.max(x, axis=1, return_indices=True)
        place = tl.where(found > best, start + where, place)
        best = tl.maximum(found, best)
    tl.store(out_ptr + rows, place.to(tl.int64), mask=rows < M)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, *, ROWS=1, BLOCK=1024, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.int64, device=x.device)
    argmax_kernel[(triton.cdiv(M, ROWS),)](x, out, M, N, ROWS, BLOCK, num_warps=num_warps)
    return out
