"""An op of its own in the older way, for two devices.

Looks like: overriding an op of torch's
Problem: gated
"""

import torch

library = torch.library.Library("solkit_fragment", "DEF")
library.define("gate(Tensor x, Tensor w) -> Tensor")
for device in ("CPU", "CUDA"):
    library.impl("gate", lambda x, w: torch.relu(x * w + 0.5), device)


def kernel(x, w):
    return torch.ops.solkit_fragment.gate(x, w)
