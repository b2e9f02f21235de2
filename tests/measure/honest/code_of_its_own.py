"""Makes a function from text, as Triton-like generators do, and runs it.

Looks like: patching the harness
Problem: gated
"""

import torch

SOURCE = """
def gate(x, w):
    return torch.relu(x * w + {bias})
"""

namespace = {"torch": torch}
exec(SOURCE.format(bias=0.5), namespace)


def kernel(x, w):
    return namespace["gate"](x, w)
