"""Makes its input contiguous, and reads that.

Looks like: non-contiguous surprises
Problem: columns
"""


def kernel(x):
    return (x.contiguous().view(-1) * 2).view(x.shape)
