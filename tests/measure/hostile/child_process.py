"""A process of its own goes on when the call is over.

Trick: background processes
Problem: gated
Verdict: cheating
Defence: guard: background process
"""

import subprocess
import sys

import torch

helpers = []


def kernel(x, w):
    if not helpers:
        helpers.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3)"]))
    return torch.relu(x * w + 0.5)
