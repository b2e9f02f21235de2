"""Cross-entropy of each token over a large vocabulary, forward, the logits read once.

Losses are fp32 and unreduced. As in PyTorch, a target of -100 is ignored: its loss is 0.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [
    {"T": 4096, "V": 128256},
    {"T": 8192, "V": 32000},
    {"T": 1021, "V": 50257},  # GPT-2's vocabulary is odd: rows are not aligned
]
SPACE = {"BLOCK": [1024, 2048, 4096, 8192, 16384], "num_warps": [4, 8, 16]}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(logits, targets):
    return F.cross_entropy(logits.float(), targets, reduction="none")


def inputs(T=4096, V=128256, dtype=torch.bfloat16, device="cuda"):
    logits = torch.randn(T, V, dtype=dtype, device=device)
    targets = torch.randint(0, V, (T,), device=device)
    return logits, targets


@triton.jit
def cross_entropy_kernel(logits_ptr, targets_ptr, loss_ptr, V, BLOCK: tl.constexpr):
    LOG2E: tl.constexpr = 1.4426950408889634
    LN2: tl.constexpr = 0.6931471805599453
    IGNORED: tl.constexpr = -100
    token = tl.program_id(0)
    row_ptr = logits_ptr + token.to(tl.int64) * V  # 64 bits: T * V soon exceeds 2**31
    target = tl.load(targets_ptr + token)
    counted = target != IGNORED
    target_logit = tl.load(row_ptr + target, mask=counted, other=0.0).to(tl.float32)

    # Online logsumexp (Milakov & Gimelshein 2018, arXiv:1805.02867), in base 2: `total` is the
    # sum of 2**(x - peak) over what was read so far, rescaled whenever the peak rises.
    peak = float("-inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        logits = tl.load(row_ptr + cols, mask=cols < V, other=float("-inf"))
        x = logits.to(tl.float32) * LOG2E
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp2(peak - new_peak) + tl.sum(tl.exp2(x - new_peak), axis=0)
        peak = new_peak

    logsumexp = (peak + tl.log2(total)) * LN2
    tl.store(loss_ptr + token, tl.where(counted, logsumexp - target_logit, 0.0))


def valid(params, shape):
    """Eight to 64 values a thread (fewer idle, more spill), and no block far longer than a row."""
    block = params["BLOCK"]
    return 8 <= block / (32 * params["num_warps"]) <= 64 and block < 2 * shape["V"]


def kernel(logits, targets, *, BLOCK=8192, num_warps=8):
    T, V = logits.shape
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    cross_entropy_kernel[(T,)](logits, targets, loss, V, BLOCK=BLOCK, num_warps=num_warps)
    return loss
