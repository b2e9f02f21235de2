"""Real timing: a candidate is checked against its reference and timed on the GPU.

Drivers use a bench (`solkit.measure.benches`). Behind the guarded one a candidate runs in a process
of its own that is killed at its time limit. Another process, the referee's, makes the inputs, knows
the right outputs and decides; the caller needs no torch.

::

    GuardedBench ─► Session ─┬─► referee ─┬─ guarded.correctness, checking/ is it correct?
                             │     │      ├─ guarded.examination, timing/  how long does it take?
                             │     │      ├─ timing.comparison_statistics  which one is faster?
                             │     │      └─ anti_cheating/                is it what was asked?
                             │   remote   (channel, sharing)
                             │     ▼
                             └─► candidate ── guard, timers; one for each that is compared

Both processes are forked from a server that has torch loaded (`solkit.processes.forkserver`), if
asked for in a sandbox (`solkit.processes.sandbox`). docs/measuring.md says what is contained.
"""

from __future__ import annotations

from solkit.measure.guarded.messages import JudgedTurns, Judgement
from solkit.measure.guarded.session import Session, is_available, measure

__all__ = ["JudgedTurns", "Judgement", "Session", "is_available", "measure"]
