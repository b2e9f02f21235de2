"""Expected: "The same holds for lanes_down_rows.py:19, lanes_down_rows.py:20".

Lanes are a row apart in both loads and in the store.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def centred(x, out, N, ROWS: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)) * N
    sums = tl.zeros((ROWS,), tl.float32)
    for n in range(0, N):
        sums += tl.load(x + rows + n)
    mean = sums / N
    for n in range(0, N):
        part = tl.load(x + rows + n)
        tl.store(out + rows + n, part - mean)


def reference(x):
    return x - x.mean(-1, keepdim=True)


def inputs(M=2**17, N=512, dtype=torch.float32, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device)


def kernel(x, *, num_warps=2):
    out = torch.empty_like(x)
    centred[(x.shape[0] // 64,)](x, out, x.shape[1], ROWS=64, num_warps=num_warps)
    return out
