"""Real timing: a candidate is checked against its reference and timed on the GPU.

A candidate runs in a process of its own that is killed at its time limit. Another process, the
referee's, makes the inputs, knows the right outputs and decides; the caller needs no torch.

::

    Session ─┬─► _referee ─┬─ trials, compare, exact      is it correct?
             │     │       ├─ protocols, sampling         how long does it take?
             │     │       ├─ comparison, ratios          which of several is faster?
             │     │       ├─ wallclock, conditions       can that be believed?
             │     │       └─ suspicion, delegation       is it what was asked for?
             │   remote    (channel, sharing)
             │     ▼
             └─► _candidate ── guard, timing, activities; one for each that is compared

Both processes are forked from a server that has torch loaded (`_forkserver`), if asked for in a
sandbox (`sandbox`). What is contained, and what is not: docs/measuring.md.
"""

from __future__ import annotations

from solkit.measure.messages import ComparisonOutcome, Outcome
from solkit.measure.session import Limits, Session, is_available, measure

__all__ = ["ComparisonOutcome", "Limits", "Outcome", "Session", "is_available", "measure"]
