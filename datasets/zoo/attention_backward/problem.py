"""Attention, backward: the gradients of q, k and v from the forward's result and log-sum-exp."""

import torch

KIND = "attention"
SHAPES = [
    {"B": 1, "H": 16, "S": 2048, "D": 64, "causal": True, "dtype": "bfloat16"},
    {"B": 2, "H": 8, "S": 2048, "D": 128, "causal": True, "dtype": "float16"},
    {"B": 4, "H": 8, "S": 1024, "D": 64, "causal": False, "dtype": "bfloat16"},
    {"B": 1, "H": 8, "S": 2048, "D": 128, "causal": False, "dtype": "bfloat16"},
    {"B": 2, "H": 4, "S": 777, "D": 64, "causal": True, "dtype": "float16"},
    {"B": 16, "H": 8, "S": 256, "D": 32, "causal": False, "dtype": "bfloat16"},
    {"B": 1, "H": 5, "S": 509, "D": 64, "causal": False, "dtype": "float32"},
]
# Weights and their gradients are rounded to the inputs' dtype before they meet q, k or grad_out.
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
LOG2_E = 1.4426950408889634
CHUNK = 256  # rows of scores that the reference holds at a time


def inputs(B=1, H=16, S=2048, D=64, causal=True, dtype=torch.bfloat16, device="cuda"):
    q, k, v, grad_out = (torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(4))
    outs, sums = [], []
    for scores, _, end in _chunks(q, k, causal):
        sums.append(scores.logsumexp(-1))
        outs.append((scores - sums[-1][..., None]).exp() @ v[:, :, :end].float())
    return q, k, v, torch.cat(outs, 2).to(dtype), torch.cat(sums, 2), grad_out, causal


def _chunks(q, k, causal):
    """Masked scores of some rows, the rows, and how many keys they see."""
    S, D = q.shape[2:]
    for start in range(0, S, CHUNK):
        rows = slice(start, min(start + CHUNK, S))
        end = rows.stop if causal else S
        scores = q[:, :, rows].float() @ k[:, :, :end].float().mT * D**-0.5
        if causal:
            i = torch.arange(start, rows.stop, device=q.device)[:, None]
            hidden = torch.arange(end, device=q.device) > i
            scores = scores.masked_fill(hidden, float("-inf"))
        yield scores, rows, end


def reference(q, k, v, out, lse, grad_out, causal):
    D = q.shape[-1]
    dk, dv = (torch.zeros(k.shape, dtype=torch.float32, device=k.device) for _ in range(2))
    dq = []
    delta = (out.float() * grad_out.float()).sum(-1, keepdim=True)
    for scores, rows, end in _chunks(q, k, causal):
        weights = (scores - lse[:, :, rows, None]).exp()
        grad = grad_out[:, :, rows].float()
        dv[:, :, :end] += weights.mT @ grad
        ds = weights * (grad @ v[:, :, :end].float().mT - delta[:, :, rows]) * D**-0.5
        dq.append(ds @ k[:, :, :end].float())
        dk[:, :, :end] += ds.mT @ q[:, :, rows].float()
    return torch.cat(dq, 2).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def fits(shape, block_m, block_n, warps, stages):
    """Whether such tiles fit: those of q and grad_out in a pipeline, two accumulators in registers.

    `block_m` are the rows that a loop goes over, `block_n` those whose gradient a program sums.
    """
    item = 4 if shape.get("dtype") == "float32" else 2
    D = shape["D"]
    shared = (2 * block_n * D + 2 * max(1, stages) * block_m * D + 2 * block_m * block_n) * item
    held = (2 * block_m * block_n + 2 * block_n * D) / (32 * warps)
    return shared <= 227 * 1024 and 8 <= held <= 320
