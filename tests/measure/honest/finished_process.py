"""Asks a tool for something while it is imported, and waits for the answer.

Looks like: background processes
Problem: gated
"""

import subprocess
import sys

import torch

BIAS = float(subprocess.run([sys.executable, "-S", "-c", "print(0.5)"], capture_output=True).stdout)


def kernel(x, w):
    return torch.relu(x * w + BIAS)
