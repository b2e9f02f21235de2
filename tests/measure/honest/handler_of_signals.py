"""Has a timer with a limit for its own set-up, and stops it when that is done.

Looks like: deferring work to a signal handler
Problem: gated
"""

import signal

import torch


def late(number, frame):
    raise TimeoutError("set-up took too long")


before = signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 20)
BIAS = torch.tensor(0.5)
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, before)


def kernel(x, w):
    return torch.relu(x * w + BIAS.to(x.device))
