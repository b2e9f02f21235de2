"""The kernel of bare.py with what SolKit asks for: a reference, inputs and a space."""

import torch
from bare import log_softmax


def reference(x):  # what must be computed
    return torch.log_softmax(x, dim=-1)


def inputs(M=1024, N=32000, dtype=torch.bfloat16, device="cuda"):  # the arguments for a shape
    return (torch.randn(M, N, dtype=dtype, device=device),)


def kernel(x, *, BLOCK=256, num_warps=4):  # calls the launcher; what may be tuned is keyword-only
    return log_softmax(x, BLOCK, num_warps)


SPACE = {"BLOCK": [256, 512, 1024, 2048, 4096, 8192], "num_warps": [4, 8, 16]}
