"""Sets the default device, which torch implements as a mode that stays.

Looks like: a torch function mode for everybody
Problem: gated
"""

import torch

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")


def kernel(x, w):
    return torch.relu(x * w + torch.tensor(0.5))
