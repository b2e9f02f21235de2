"""Real timing: a candidate is checked against its reference and timed on the GPU.

Each candidate runs in a process of its own that is killed at its time limit, so that nothing it
does (a crash, an endless kernel, a poisoned CUDA context) reaches the caller, who needs no torch.

::

    measure ─► _process.supervise ─► _child ─┬─ inputs, compare     is it correct?
       ▲                                     ├─ sampling, timing    how long does it take?
       └──────── Outcome (messages) ◄────────┴─ statistics, clocks
"""

from __future__ import annotations

from solkit.measure._parent import is_available, measure
from solkit.measure.messages import Outcome

__all__ = ["Outcome", "is_available", "measure"]
