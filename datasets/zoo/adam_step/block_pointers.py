"""One-dimensional block pointers, one a tensor, that advance along a program's own stretch."""

import triton
import triton.language as tl

from solkit.datasets.zoo.adam_step.problem import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    LR,
    OUTPUTS,
    SHAPES,
    STEP,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "STEPS": [1, 2, 4, 8],
    "STAGES": [1, 2],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def adam_block_ptr_kernel(
    param_ptr, grad_ptr, first_ptr, second_ptr, n,
    lr, beta1, beta2, epsilon, decay, correction1, correction2,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * (BLOCK * STEPS)
    p_tile = tl.make_block_ptr(param_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    g_tile = tl.make_block_ptr(grad_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    m_tile = tl.make_block_ptr(first_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    v_tile = tl.make_block_ptr(second_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    for _ in tl.range(0, STEPS, num_stages=STAGES):
        p = tl.load(p_tile, boundary_check=(0,), padding_option="zero").to(tl.float32)
        g = tl.load(g_tile, boundary_check=(0,), padding_option="zero").to(tl.float32)
        m = tl.load(m_tile, boundary_check=(0,), padding_option="zero")
        v = tl.load(v_tile, boundary_check=(0,), padding_option="zero")
        m = beta1 * m + (1.0 - beta1) * g
        v = beta2 * v + (1.0 - beta2) * g * g
        step = m / correction1 / (tl.sqrt(v / correction2) + epsilon)
        p = p - lr * (step + decay * p)
        tl.store(p_tile, p.to(param_ptr.dtype.element_ty), boundary_check=(0,))
        tl.store(m_tile, m, boundary_check=(0,))
        tl.store(v_tile, v, boundary_check=(0,))
        p_tile = tl.advance(p_tile, (BLOCK,))
        g_tile = tl.advance(g_tile, (BLOCK,))
        m_tile = tl.advance(m_tile, (BLOCK,))
        v_tile = tl.advance(v_tile, (BLOCK,))


def valid(params, shape):
    """One to 32 elements a thread; nothing to load ahead in a single step."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["STAGES"] <= params["STEPS"]


def kernel(param, grad, first, second, *, BLOCK=512, STEPS=2, STAGES=1, num_warps=4):
    n = param.numel()
    adam_block_ptr_kernel[(triton.cdiv(n, BLOCK * STEPS),)](
        param, grad, first, second, n, LR, BETA1, BETA2, EPSILON, DECAY,
        1 - BETA1**STEP, 1 - BETA2**STEP, BLOCK, STEPS, STAGES, num_warps=num_warps,
    )  # fmt: skip
