"""Names of ops as people write them."""

from __future__ import annotations


def short_name(op: str) -> str:
    """``"softmax"`` for ``"aten._softmax"``, ``"layer_norm"`` for ``"aten.native_layer_norm"``."""
    return op.rpartition(".")[2].strip("_").removeprefix("native_")
