"""Loss and gradient of a row a program; the gradient overwrites the logits, in two loops."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

__all__ = ["KIND", "OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "softmax"
OUTPUTS = ("logits", "losses")
SHAPES = [
    {"tokens": 4096, "vocab_size": 50304, "dtype": "bfloat16"},
    {"tokens": 1024, "vocab_size": 151936, "dtype": "bfloat16"},
    {"tokens": 16384, "vocab_size": 8192, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}
SPACE = {"BLOCK_V": [1024, 2048, 4096, 8192, 16384, 32768], "num_warps": [4, 8, 16, 32]}


@triton.jit
def _loss_and_gradient(
    logits_ptr, stride_row, labels_ptr, losses_ptr, vocab_size, grad_scale,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride_row
    label = tl.load(labels_ptr + row)
    m, d = float("-inf"), 0.0
    chosen = tl.load(logits_ptr + label).to(tl.float32)
    for i in range(0, vocab_size, BLOCK_V):
        offs = i + tl.arange(0, BLOCK_V)
        x = tl.load(logits_ptr + offs, mask=offs < vocab_size, other=float("-inf")).to(tl.float32)
        block_max = tl.max(x, axis=0)
        m_new = tl.maximum(m, block_max)
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    lse = m + tl.log(d)
    tl.store(losses_ptr + row, lse - chosen)
    for i in range(0, vocab_size, BLOCK_V):
        offs = i + tl.arange(0, BLOCK_V)
        x = tl.load(logits_ptr + offs, mask=offs < vocab_size, other=float("-inf")).to(tl.float32)
        grad = tl.exp(x - lse) - tl.where(offs == label, 1.0, 0.0)
        tl.store(logits_ptr + offs, grad * grad_scale, mask=offs < vocab_size)


def inputs(tokens=4096, vocab_size=50304, dtype=torch.bfloat16, device="cuda"):
    logits = torch.randn(tokens, vocab_size, dtype=dtype, device=device)
    labels = torch.randint(0, vocab_size, (tokens,), device=device)
    return logits, labels, torch.empty(tokens, device=device)


def reference(logits, labels, losses):
    wide = logits.float()
    losses.copy_(F.cross_entropy(wide, labels, reduction="none"))
    logits.copy_(torch.softmax(wide, dim=-1) - F.one_hot(labels, logits.shape[1]))


def kernel(logits, labels, losses, *, BLOCK_V=8192, num_warps=16):
    tokens, vocab_size = logits.shape
    _loss_and_gradient[(tokens,)](
        logits, logits.stride(0), labels, losses, vocab_size, 1.0, BLOCK_V=BLOCK_V,
        num_warps=num_warps,
    )  # fmt: skip
