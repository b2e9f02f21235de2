"""Half of the work runs on another stream, which waits and is waited for.

Looks like: side streams without waiting
Problem: product
Runs on: cuda
"""

import torch

side = None


def kernel(a, b):
    global side
    side = side or torch.cuda.Stream()
    out = torch.empty(a.shape[0], b.shape[1], device=a.device)
    half = len(a) // 2
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.matmul(a[:half], b, out=out[:half])
    torch.matmul(a[half:], b, out=out[half:])
    torch.cuda.current_stream().wait_stream(side)
    return out
