"""An RMS norm into scratch, a product by block pointers, then SiLU in place on the product."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 4096, "K": 2048}]
HELD_OUT_SHAPES = [{"M": 100, "N": 136, "K": 104}]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-1}


def reference(x, g, w):
    h = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6) * g.float()
    return torch.nn.functional.silu(h @ w.float()).to(x.dtype)


def inputs(M=4096, N=4096, K=2048, device="cuda"):
    def t(*s):
        return torch.randn(*s, dtype=torch.float16, device=device)

    return t(M, K), t(K), t(K, N) * 0.05


@triton.jit
def rms(x, g, h, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * K + c, mask=c < K, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(v * v, 0) / K + 1e-6)
    gg = tl.load(g + c, mask=c < K, other=0.0).to(tl.float32)
    tl.store(h + row * K + c, (v * r * gg).to(h.dtype.element_ty), mask=c < K)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    nn = tl.cdiv(N, BN)
    i, j = pid // nn, pid % nn
    pa = tl.make_block_ptr(a, (M, K), (K, 1), (i * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (N, 1), (0, j * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        at = tl.load(pa, boundary_check=(0, 1), padding_option="zero")
        bt = tl.load(pb, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(at, bt)
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (M, N), (N, 1), (i * BM, j * BN), (BM, BN), (1, 0))
    tl.store(pc, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def silu_(y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(y + at, mask=at < n).to(tl.float32)
    tl.store(y + at, (v * tl.sigmoid(v)).to(tl.float16), mask=at < n)


def kernel(x, g, w):
    (M, K), N = x.shape, w.shape[1]
    h = torch.empty_like(x)
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    rms[(M,)](x, g, h, K, BLOCK=triton.next_power_of_2(K))
    product[(triton.cdiv(M, 32) * triton.cdiv(N, 32),)](h, w, y, M, N, K, BM=32, BN=32, BK=32)
    silu_[(triton.cdiv(M * N, 256),)](y, M * N, BLOCK=256)
    return y
