"""The trusted bench: it trusts the code that it runs, unlike the guarded one.

::

    bench       takes configurations, yields outcomes              the caller's process
      ├─ ahead      bounds, compiles into Triton's own cache       processes, no GPU: `survey`
      └─ process    starts and replaces the timing process         `timing`: has the GPU
"""

from __future__ import annotations

from solkit.measure.benches.trusted.bench import TrustedBench
from solkit.measure.benches.trusted.precompile import Ahead
from solkit.measure.benches.trusted.process import TimingProcess

__all__ = ["Ahead", "TimingProcess", "TrustedBench"]
