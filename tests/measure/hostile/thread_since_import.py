"""A thread that lives from the import on stands by to do work outside of the timed calls.

Trick: background threads
Problem: gated
Verdict: cheating
Defence: guard: background thread
"""

import _thread
import time

import torch


def stand_by():
    while True:
        time.sleep(0.01)


_thread.start_new_thread(stand_by, ())


def kernel(x, w):
    return torch.relu(x * w + 0.5)
