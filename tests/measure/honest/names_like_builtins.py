"""Names of its own that happen to be builtins' names.

Looks like: patched builtins
Problem: gated
"""

max = 0.0
range = (0.5, max)


def kernel(x, w):
    return (x * w + range[0]).clamp(min=max)
