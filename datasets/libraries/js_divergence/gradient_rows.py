"""Jensen-Shannon divergence of log-probabilities; the gradient overwrites the first of them."""

import torch
import triton
import triton.language as tl

__all__ = ["KIND", "OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "reduction"
OUTPUTS = ("student", "loss")
SHAPES = [
    {"rows": 4096, "n_vocab": 32000, "dtype": "bfloat16"},
    {"rows": 1024, "n_vocab": 128256, "dtype": "float32"},
    {"rows": 20000, "n_vocab": 2048, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}
SPACE = {"BLOCK_SIZE": [512, 1024, 2048, 4096, 8192, 16384], "num_warps": [4, 8, 16, 32]}


@triton.jit
def _jsd_kernel(
    X_ptr, X_stride, Y_ptr, Y_stride, loss_ptr, loss_stride, n_cols, beta: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    X_ptr += pid * X_stride
    Y_ptr += pid * Y_stride
    total = 0.0
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_cols
        X = tl.load(X_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        Y = tl.load(Y_ptr + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        Q, P = tl.exp(X), tl.exp(Y)
        M = beta * P + (1 - beta) * Q
        log_M = tl.log(tl.maximum(M, 1e-30))
        X_safe, Y_safe = tl.where(mask, X, 0.0), tl.where(mask, Y, 0.0)
        total += tl.sum(beta * P * (Y_safe - log_M) + (1 - beta) * Q * (X_safe - log_M), axis=0)
        dX = (1 - beta) * Q * (X_safe - log_M)
        tl.store(X_ptr + offsets, dX, mask=mask)
    tl.store(loss_ptr + pid * loss_stride, total)


def inputs(rows=4096, n_vocab=32000, dtype=torch.bfloat16, device="cuda"):
    student, teacher = (
        torch.randn(rows, n_vocab, device=device).log_softmax(dim=-1).to(dtype) for _ in range(2)
    )
    return student, teacher, torch.empty(rows, device=device)


def reference(student, teacher, loss):
    x, y = student.float(), teacher.float()
    q, p = x.exp(), y.exp()
    log_m = (0.5 * p + 0.5 * q).clamp(min=1e-30).log()
    loss.copy_((0.5 * p * (y - log_m) + 0.5 * q * (x - log_m)).sum(dim=-1))
    student.copy_(0.5 * q * (x - log_m))


def kernel(student, teacher, loss, *, BLOCK_SIZE=4096, num_warps=8):
    _jsd_kernel[(student.shape[0],)](
        X_ptr=student, X_stride=student.stride(-2), Y_ptr=teacher, Y_stride=teacher.stride(-2),
        loss_ptr=loss, loss_stride=loss.stride(-1), n_cols=student.shape[-1], beta=0.5,
        BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps,
    )  # fmt: skip
