"""Calibrations: the most that a GPU was measured to do, beside its data sheet.

Measuring is `solkit.calibrate`'s; here is the record, where records lie, and which one applies.

::

    solkit.calibrate ─► record.Calibration ─► store (JSON, one file each, never overwritten)
                                                │
                  Device.calibrated ◄─ choice ◄─┴─ shipped/*.json, for users who have measured none

A calibration feeds `Bound.at.calibrated_ms` alone: roofline and hard bound keep to the analytic
peaks, which no measurement may exceed.
"""

from __future__ import annotations

from solkit.roofline.calibration.choice import Chosen, calibrated, choose, doubts
from solkit.roofline.calibration.record import Calibration, Reading, Regime
from solkit.roofline.calibration.store import folder, own, read, save, shipped

__all__ = [
    "Calibration",
    "Chosen",
    "Reading",
    "Regime",
    "calibrated",
    "choose",
    "doubts",
    "folder",
    "own",
    "read",
    "save",
    "shipped",
]
