"""Compares and asserts, with torch's own functions.

Looks like: patched torch.allclose
Problem: gated
"""

import torch

checked = set()


def kernel(x, w):
    out = torch.relu(x * w + 0.5)
    if x.shape not in checked:
        checked.add(x.shape)
        torch.testing.assert_close(out, (x * w + 0.5).clamp(min=0), equal_nan=True)
        assert torch.equal(out, torch.relu(out)) or bool(out.isnan().any())
    return out
