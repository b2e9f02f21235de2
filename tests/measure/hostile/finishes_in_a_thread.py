"""Returns at once; a thread fills the output in while the result is on its way.

Trick: background threads
Problem: gated
Fools: who waits
Verdict: cheating
Defence: guard: background thread
"""

import threading
import time

import torch


def fill(out, x, w):
    time.sleep(0.05)
    out.copy_(torch.relu(x * w + 0.5))


def kernel(x, w):
    out = torch.empty_like(x)
    threading.Thread(target=fill, args=(out, x.clone(), w.clone()), daemon=True).start()
    return out
