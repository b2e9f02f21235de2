"""Attention, kept as one op."""

from __future__ import annotations

import math

import torch

from solkit.roofline.work.costs._base import Cost, contraction, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("attention", namespace="solkit")
def _attention(op: TracedOp) -> Cost:
    """softmax(q k^T) v over the pairs that the mask leaves.

    Per pair: D + Dv multiply-adds, one exponential, and on fp32 a scale-and-shift (a
    multiply-add), a maximum and a sum. Per row: one reciprocal and Dv multiplications.
    """
    query, value = op.arguments["query"], op.arguments["value"]
    pairs = attention_pairs(op)
    rows = op.result.numel // max(op.result.shape[-1], 1)
    found = contraction(query, pairs * (query.shape[-1] + value.shape[-1]))
    softmax = scalar(query, 4 * pairs + op.result.numel, sfu=pairs + rows)
    return found + softmax


def attention_pairs(op: TracedOp) -> int:
    """Pairs of query and key, over all heads, that the mask leaves."""
    query: TensorUse = op.arguments["query"]
    key: TensorUse = op.arguments["key"]
    mask: TensorUse | None = op.arguments["attn_mask"]
    heads = op.result.numel // max(op.result.shape[-1] * query.shape[-2], 1)
    rows, columns = query.shape[-2], key.shape[-2]
    if op.arguments["is_causal"]:  # aligned to the top left: key j is seen by query i >= j
        short = min(rows, columns)
        return heads * (short * (short + 1) // 2 + (rows - short) * columns)
    if mask is not None and mask.dtype == torch.bool and mask.value is not None:
        full = (*op.result.shape[:-1], columns)
        return int(mask.value.sum()) * (math.prod(full) // max(mask.numel, 1))
    return heads * rows * columns
