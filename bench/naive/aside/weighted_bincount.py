"""Sums of weights by class: a weighted histogram with an atomic addition for each sample."""

import torch
import triton
import triton.language as tl

SHAPES = [{"num_samples": 1 << 22}]
HELD_OUT_SHAPES = [{"num_samples": 1_000_003}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-1}


def reference(labels, weights):
    out = torch.zeros(32, dtype=torch.float32, device=weights.device)
    return out.index_add(0, labels.long(), weights.float())


def inputs(num_samples=1 << 22, device="cuda"):
    labels = torch.randint(0, 32, (num_samples,), dtype=torch.int64, device=device)
    weights = torch.rand(num_samples, dtype=torch.float32, device=device)
    return labels, weights


@triton.jit
def scatter_add(label_ptr, weight_ptr, sum_ptr, num_samples, TILE: tl.constexpr):
    start = tl.program_id(0) * TILE
    lanes = start + tl.arange(0, TILE)
    ok = lanes < num_samples
    label = tl.load(label_ptr + lanes, mask=ok)
    weight = tl.load(weight_ptr + lanes, mask=ok)
    tl.atomic_add(sum_ptr + label, weight, mask=ok)


def kernel(labels, weights):
    sums = torch.zeros(32, dtype=torch.float32, device=weights.device)
    num_samples = labels.shape[0]
    grid = lambda meta: (triton.cdiv(num_samples, meta["TILE"]),)
    scatter_add[grid](labels, weights, sums, num_samples, TILE=128)
    return sums
