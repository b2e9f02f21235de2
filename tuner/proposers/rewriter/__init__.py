"""The rewriter: a proposer without an LLM, which changes the syntax tree of Triton kernels."""

from __future__ import annotations

from solkit.tuner.proposers.rewriter._proposer import Rewriter

__all__ = ["Rewriter"]
