"""Launches on another stream and does not wait: events on the caller's stream see nothing.

Trick: side streams without waiting
Problem: product
Verdict: cheating or wrong
Defence: guard: unjoined stream
Runs on: cuda
"""

import torch

side = None


def kernel(a, b):
    global side
    side = side or torch.cuda.Stream()
    out = torch.empty(a.shape[0], b.shape[1], device=a.device)
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)  # some 10 ms of other work, which no one waits for
        torch.matmul(a, b, out=out)
    return out
