"""The coefficients dealt out to CHAINS Horner chains in a power of x, which are joined at last."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.polynomial_evaluation.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [128, 256, 512, 1024],
    "CHAINS": [2, 4, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def chains_kernel(x_ptr, c_ptr, out_ptr, N, TERMS, BLOCK: tl.constexpr, CHAINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    power = x
    for _ in tl.static_range(CHAINS // 2 if CHAINS < 8 else 3):  # 2, 4, 8: doubled 1, 2, 3 times
        power = power * power
    chain = tl.arange(0, CHAINS)[None, :]
    total = tl.zeros((BLOCK, CHAINS), dtype=tl.float32)
    rounds = tl.cdiv(TERMS, CHAINS)
    for turn in range(rounds):
        place = (rounds - 1 - turn) * CHAINS + chain
        total = total * power[:, None] + tl.load(c_ptr + place, mask=place < TERMS, other=0.0)
    # x ** chain, by the bits of the chain's number
    weight = tl.where(chain % 2 == 1, x[:, None], 1.0)
    square = x * x
    weight = tl.where(chain // 2 % 2 == 1, weight * square[:, None], weight)
    weight = tl.where(chain // 4 == 1, weight * (square * square)[:, None], weight)
    result = tl.sum(total * weight, axis=1)
    tl.store(out_ptr + at, result.to(out_ptr.dtype.element_ty), mask=at < N)


def valid(params, shape):
    """Two to 32 sums a thread."""
    return 2 <= params["BLOCK"] * params["CHAINS"] / (32 * params["num_warps"]) <= 32


def kernel(x, coefficients, *, BLOCK=512, CHAINS=4, num_warps=4):
    out = torch.empty_like(x)
    N = x.numel()
    chains_kernel[(triton.cdiv(N, BLOCK),)](
        x, coefficients, out, N, len(coefficients), BLOCK, CHAINS, num_warps=num_warps
    )
    return out
