"""Returns a view of its input, where the reference does.

Looks like: returning views of inputs
Problem: window
"""


def kernel(x):
    return x[:, 0 : x.shape[1] : 2]
