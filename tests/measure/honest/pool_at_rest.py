"""Keeps a pool of threads for the host's part of the work; they rest when a call returns.

Looks like: background threads
Problem: gated
"""

from concurrent.futures import ThreadPoolExecutor

import torch

pool = ThreadPoolExecutor(2)


def kernel(x, w):
    sizes = list(pool.map(len, (x, w)))
    return torch.relu(x * w + 0.5)[: sizes[0]]
