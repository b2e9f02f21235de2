"""Small inputs are scaled up before the product, and the result down again.

Looks like: subnormal and tiny values
Problem: product
"""


def kernel(a, b):
    largest = a.abs().amax()
    if 0 < largest < 2.0**-60:  # a power of two: nothing is rounded
        return (a * 2.0**60 @ b) * 2.0**-60
    return a @ b
