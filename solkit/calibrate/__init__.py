"""Measuring what a GPU can do at most: ``solkit calibrate``.

::

    calibrate ─► _parent ─► session ─┬─ probes, kernels       what keeps a resource busy
                    ▲                ├─ stopwatch             bursts, sustained, one by one
                    │                └─ conditions            clock, power, heat, by NVML
                    └── roofline.calibration.Calibration

The record, where it is kept and what it is used for: `solkit.roofline.calibration`.
"""

from __future__ import annotations

from solkit.calibrate._parent import calibrate

__all__ = ["calibrate"]
