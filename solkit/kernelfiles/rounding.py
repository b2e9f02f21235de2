"""Roundings that libraries may apply to a problem's operands."""

from __future__ import annotations

import torch


def round_to_tf32(allowed: bool) -> None:
    """Let this process's convolutions and recurrent layers round fp32 operands to tf32, or not.

    PyTorch lets them, unlike its products ("CUDA semantics", TensorFloat-32). Where a problem does
    not allow it (`solkit.core.Problem.allows_tf32`), a plain convolution would be wrong, and faster
    than its bound. A candidate that sets the flag itself is judged by its results.
    """
    torch.backends.cudnn.allow_tf32 = allowed
