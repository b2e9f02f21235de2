"""Measure the ceilings of a GPU: ``solkit calibrate``.

::

    calibrate ─► _parent ─► session ─┬─ probes, kernels       what keeps a resource busy
                    ▲                ├─ stopwatch             bursts, sustained, one by one
                    │                └─ conditions            clock, power, heat, by NVML
                    └── roofline.calibration.Calibration

The record, its place and its use: `solkit.roofline.calibration`.
"""

from __future__ import annotations

from solkit.calibrate._parent import calibrate

__all__ = ["calibrate"]
