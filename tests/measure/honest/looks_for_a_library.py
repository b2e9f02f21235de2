"""Looks at what is installed, to take a faster path where it can.

Looks like: replaced module
Problem: gated
"""

import importlib.util
import sys

import torch

HAS_TRITON = importlib.util.find_spec("triton") is not None or "triton" in sys.modules


def kernel(x, w):
    return (
        torch.relu(torch.addcmul(x.new_tensor(0.5), x, w)) if HAS_TRITON else (x * w + 0.5).relu()
    )
