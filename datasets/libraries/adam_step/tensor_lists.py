"""AdamW over a list of parameters, a launch each, in place."""

import torch
import triton
import triton.language as tl

__all__ = ["KIND", "OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "update"
OUTPUTS = ("params", "exp_avgs", "exp_avg_sqs")
SHAPES = [{"case": 0}, {"case": 1}]
SIZES = [
    [(4096, 4096), (4096, 1024), (4096,)],
    [(11008, 2048), (2048, 2048)],
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-4}
SPACE = {"BLOCK_SIZE": [256, 512, 1024, 2048, 4096], "num_warps": [1, 2, 4, 8]}
LR, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.99, 1e-8, 0.01


@triton.jit
def _adamw(
    p_ptr, g_ptr, exp_avg_ptr, exp_avg_sq_ptr, lr, beta1, beta2, eps, weight_decay, n_elements,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offs < n_elements
    p = tl.load(p_ptr + offs, mask=mask).to(tl.float32)
    g = tl.load(g_ptr + offs, mask=mask).to(tl.float32)
    m = beta1 * tl.load(exp_avg_ptr + offs, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(exp_avg_sq_ptr + offs, mask=mask) + (1 - beta2) * g * g
    p = p * (1 - lr * weight_decay) - lr * m / (tl.sqrt(v) + eps)
    tl.store(p_ptr + offs, p.to(p_ptr.dtype.element_ty), mask=mask)
    tl.store(exp_avg_ptr + offs, m, mask=mask)
    tl.store(exp_avg_sq_ptr + offs, v, mask=mask)


def inputs(case=0, device="cuda"):
    make = [torch.randn(size, device=device, dtype=torch.bfloat16) for size in SIZES[case] * 2]
    params, grads = make[: len(SIZES[case])], make[len(SIZES[case]) :]
    exp_avgs = [torch.randn(p.shape, device=device) for p in params]
    return params, grads, exp_avgs, [torch.rand(p.shape, device=device) + 0.1 for p in params]


def reference(params, grads, exp_avgs, exp_avg_sqs):
    for p, grad, m, v in zip(params, grads, exp_avgs, exp_avg_sqs):
        g = grad.float()
        m.mul_(BETA1).add_(g, alpha=1 - BETA1)
        v.mul_(BETA2).add_(g * g, alpha=1 - BETA2)
        p.copy_(p.float() * (1 - LR * DECAY) - LR * m / (v.sqrt() + EPS))


def kernel(params, grads, exp_avgs, exp_avg_sqs, *, BLOCK_SIZE=1024, num_warps=4):
    for p, g, m, v in zip(params, grads, exp_avgs, exp_avg_sqs):
        n = p.numel()
        _adamw[(triton.cdiv(n, BLOCK_SIZE),)](
            p, g, m, v, LR, BETA1, BETA2, EPS, DECAY, n, BLOCK_SIZE=BLOCK_SIZE,
            num_warps=num_warps,
        )  # fmt: skip
