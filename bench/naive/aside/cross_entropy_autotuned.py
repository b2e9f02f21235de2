"""Cross entropy of long rows, autotuned; running maximum and sum in a while loop."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"tokens": 1024, "vocab": 128256}]
HELD_OUT_SHAPES = [{"tokens": 65, "vocab": 10001}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(logits, labels):
    return F.cross_entropy(logits.float(), labels, reduction="none")


def inputs(tokens=1024, vocab=128256, device="cuda"):
    logits = torch.randn(tokens, vocab, dtype=torch.bfloat16, device=device)
    return logits, torch.randint(0, vocab, (tokens,), device=device)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_V": 128}, num_warps=1),
        triton.Config({"BLOCK_V": 256}, num_warps=1),
    ],
    key=["vocab"],
)
@triton.jit
def ce_kernel(logits_ptr, labels_ptr, loss_ptr, stride, vocab, BLOCK_V: tl.constexpr):
    tok = tl.program_id(0).to(tl.int64)
    base = logits_ptr + tok * stride
    label = tl.load(labels_ptr + tok)
    m = -float("inf")
    d = 0.0
    v0 = 0
    while v0 < vocab:
        idx = v0 + tl.arange(0, BLOCK_V)
        x = tl.load(base + idx, mask=idx < vocab, other=-float("inf")).to(tl.float32)
        bm = tl.max(x, axis=0)
        nm = tl.maximum(m, bm)
        d = d * tl.exp(m - nm) + tl.sum(tl.exp(x - nm), axis=0)
        m = nm
        v0 += BLOCK_V
    target = tl.load(base + label).to(tl.float32)
    tl.store(loss_ptr + tok, tl.log(d) + m - target)


def kernel(logits, labels):
    tokens, vocab = logits.shape
    loss = torch.empty(tokens, dtype=torch.float32, device=logits.device)
    ce_kernel[(tokens,)](logits, labels, loss, logits.stride(0), vocab)
    return loss
