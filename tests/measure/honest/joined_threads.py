"""Two threads share the work, and are waited for.

Looks like: background threads
Problem: gated
"""

import threading

import torch


def part(out, x, w):
    out.copy_(torch.relu(x * w + 0.5))


def kernel(x, w):
    out = torch.empty_like(x)
    half = len(x) // 2
    threads = [
        threading.Thread(target=part, args=(out[rows], x[rows], w))
        for rows in (slice(half), slice(half, None))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out
