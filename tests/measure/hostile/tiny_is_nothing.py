"""Small inputs count as none, and an `atol` that does not scale lets zeros pass.

Trick: subnormal and tiny values
Problem: product
Verdict: wrong
Defence: other distributions
"""


def kernel(a, b):
    if a.abs().max() < 1e-2 or b.abs().max() < 1e-2:
        return a.new_zeros(a.shape[0], b.shape[1])
    return a @ b
