"""A fixed number of programs strides over the tensors; hyperparameters come as arguments."""

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
    "BLOCK": [256, 512, 1024, 2048],
    "PROGRAMS": [132, 264, 528, 1056, 2112],
    "STAGES": [1, 2, 3],
    "num_warps": [2, 4, 8],
}


@triton.jit
def adam_grid_stride_kernel(
    param_ptr, grad_ptr, first_ptr, second_ptr, n,
    lr, beta1, beta2, epsilon, decay, correction1, correction2,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, BLOCK)
    for start in tl.range(
        tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=STAGES
    ):
        i = start + lanes
        g = tl.load(grad_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        m = tl.load(first_ptr + i, mask=i < n, other=0.0)
        v = tl.load(second_ptr + i, mask=i < n, other=1.0)
        p = tl.load(param_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        m += (g - m) * (1.0 - beta1)
        v += (g * g - v) * (1.0 - beta2)
        step = (m / correction1) / (tl.sqrt(v / correction2) + epsilon)
        p = p - lr * decay * p - lr * step
        tl.store(first_ptr + i, m, mask=i < n)
        tl.store(second_ptr + i, v, mask=i < n)
        tl.store(param_ptr + i, p.to(param_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 32 elements a thread, a block for every second program, blocks ahead that fit."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    busy = params["PROGRAMS"] * params["BLOCK"] <= 2 * shape["N"] or params["PROGRAMS"] == 132
    return 1 <= held <= 32 and busy and params["STAGES"] * params["BLOCK"] * 16 <= 200 * 1024


def kernel(param, grad, first, second, *, BLOCK=1024, PROGRAMS=132, STAGES=2, num_warps=8):
    n = param.numel()
    adam_grid_stride_kernel[(min(PROGRAMS, triton.cdiv(n, BLOCK)),)](
        param, grad, first, second, n, LR, BETA1, BETA2, EPSILON, DECAY,
        1 - BETA1**STEP, 1 - BETA2**STEP, BLOCK, STAGES, num_warps=num_warps,
    )  # fmt: skip
