"""Products of fp8 whose results decide where to read next."""

import torch
import triton
import triton.language as tl

PLANTED = "pipeline"


def inputs(M=4096, N=4096, K=4096, device="cuda"):
    a = torch.randn(M, K, device=device).to(torch.float8_e4m3fn)
    b = torch.randn(N, K, device=device).to(torch.float8_e4m3fn)
    return a, b


def reference(a, b):
    return (a.float() @ b.float().T).half()


@triton.jit
def bytes_kernel(a, b, c, K, N, PLANT: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, 128)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    at = 0
    for k in range(0, K // 128):
        start = at if PLANT else k
        left = tl.load(a + rows[:, None] * K + start * 128 + inner[None, :])
        right = tl.load(b + columns[None, :] * K + start * 128 + inner[:, None])
        total = tl.dot(left, right, total)
        if PLANT:
            at = (at + 1 + (tl.max(total.to(tl.int32)) >> 30)) % (K // 128)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def kernel(a, b, *, PLANT=False, num_warps=8, num_stages=3):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty(M, N, device=a.device, dtype=torch.float16)
    bytes_kernel[(M // 128, N // 128)](
        a, b, c, K, N, PLANT, 128, num_warps=num_warps, num_stages=num_stages
    )
    return c
