"""An exception ends the work early, and what there is of the output is returned.

Trick: early exit by swallowing exceptions
Problem: gated
Verdict: wrong
Defence: memory is poisoned
"""

import torch

done = False


def kernel(x, w):
    global done
    out = torch.empty_like(x)
    try:
        if done:
            raise RuntimeError("enough")
        out.copy_(torch.relu(x * w + 0.5))
        done = True
    except RuntimeError:
        pass
    return out
