"""Computes in bf16 what was asked for in fp32; a lenient `atol` hides it.

Trick: less precision than the problem has
Problem: product
Verdict: wrong
Defence: error against an exact reference
"""


def kernel(a, b):
    return (a.bfloat16() @ b.bfloat16()).float()
