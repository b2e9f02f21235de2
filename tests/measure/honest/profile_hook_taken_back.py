"""Traces its first call to learn the names of what it calls, and takes the hook out again.

Looks like: sys.setprofile
Problem: gated
"""

import sys

import torch

names = set()


def note(frame, event, argument):
    names.add(frame.f_code.co_name)


def kernel(x, w):
    before = sys.getprofile()
    if not names:
        sys.setprofile(note)
    out = torch.relu(x * w + 0.5)
    sys.setprofile(before)
    return out
