"""Attention, kept as one op."""

from __future__ import annotations

from dataclasses import replace

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule, scalar
from solkit.roofline.work.fused_attention import pairs_of_sequences
from solkit.roofline.work.masks import lifted
from solkit.roofline.work.products import count, shown_pairs
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("attention")
def _attention(op: TracedOp) -> Cost:
    """softmax(q k^T) v over the pairs that the mask leaves.

    Per pair: D + Dv multiply-adds, one exponential, and on fp32 a scale-and-shift (a
    multiply-add), a maximum and a sum. Per row: one reciprocal and Dv multiplications.
    """
    query, key, value = (op.arguments[name] for name in ("query", "key", "value"))
    pairs = attention_pairs(op)
    rows = op.result.numel // max(op.result.shape[-1], 1)
    scores = contraction(query, pairs * query.shape[-1], dtype=common_dtype(query, key))
    weighted = contraction(query, pairs * value.shape[-1], dtype=_with_computed(value))
    softmax = scalar(query, 4 * pairs + op.result.numel, sfu=pairs + rows)
    return scores + weighted + softmax


def _with_computed(*factors: TensorUse) -> str:
    """Return the dtype of a product with weights or gradients that the attention computes."""
    return common_dtype(replace(factors[0], origin=None), *factors)


def attention_pairs(op: TracedOp) -> int:
    """Count pairs of query and key, over all heads, that the mask leaves."""
    query: TensorUse = op.arguments["query"]
    key: TensorUse = op.arguments["key"]
    mask: TensorUse | None = op.arguments["attn_mask"]
    out: TensorUse = op.arguments.get("grad_out", op.result)
    heads: int = out.numel // max(out.shape[-1] * query.shape[-2], 1)
    rows, columns = query.shape[-2], key.shape[-2]
    if op.arguments["is_causal"]:  # aligned to the top left: key j is seen by query i >= j
        short = min(rows, columns)
        return heads * (short * (short + 1) // 2 + (rows - short) * columns)
    shown = None if mask is None else shown_pairs(mask)
    if shown is not None:
        return count(lifted(shown, len(out.shape)), (*out.shape[:-1], columns))
    return heads * rows * columns


@rule("packed attention")
def _packed_attention(op: TracedOp) -> Cost:
    """As attention, over the pairs of sequences that lie behind one another."""
    query, value = op.arguments["query"], op.arguments["value"]
    pairs = query.shape[-2] * pairs_of_sequences(op)
    rows = query.numel // max(query.shape[-1], 1)
    products = contraction(query, pairs * (query.shape[-1] + value.shape[-1]))
    return products + scalar(query, 4 * pairs + rows * value.shape[-1], sfu=pairs + rows)


@rule("packed attention backward")
def _packed_attention_backward(op: TracedOp) -> Cost:
    """As the gradients of attention, over the pairs of sequences behind one another."""
    query, value = op.arguments["query"], op.arguments["value"]
    pairs = query.shape[-2] * pairs_of_sequences(op)
    multiply_adds = pairs * (3 * query.shape[-1] + 2 * value.shape[-1])
    rows = query.numel // max(query.shape[-1], 1)
    extra = 4 * pairs + 2 * rows * value.shape[-1]
    return contraction(query, multiply_adds) + scalar(query, extra, sfu=pairs)


@rule("attention backward")
def _attention_backward(op: TracedOp) -> Cost:
    """Gradients of softmax(q k^T) v over the pairs that the mask leaves, P computed anew.

    Five products over the pairs (FlashAttention-2, Dao 2023, algorithm 2): S = q k^T, dQ = dS k and
    dK = dS^T q of D multiply-adds a pair, dP = dO v^T and dV = P^T dO of Dv. Per pair: an
    exponential, and on fp32 a scale-and-shift (a multiply-add), a difference and a product; per
    row the sum of dO O, Dv multiply-adds.
    """
    query, key, value, grad_out = (
        op.arguments[name] for name in ("query", "key", "value", "grad_out")
    )
    pairs = attention_pairs(op)
    inner, outer = pairs * query.shape[-1], pairs * grad_out.shape[-1]
    return (
        contraction(query, inner, dtype=common_dtype(query, key))
        + contraction(query, inner, dtype=_with_computed(key))
        + contraction(query, inner, dtype=_with_computed(query))
        + contraction(query, outer, dtype=common_dtype(grad_out, value))
        + contraction(query, outer, dtype=_with_computed(grad_out))
        + scalar(query, 4 * pairs + 2 * grad_out.numel, sfu=pairs)
    )
