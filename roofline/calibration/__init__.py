"""Calibrations: the highest rates that were measured on a GPU.

`solkit.calibrate` measures. This package has the record, its storage, and the choice of a record.

::

    solkit.calibrate ─► record.Calibration ─► store (JSON, one file each, never overwritten)
                                                │
                  Device.calibrated ◄─ choice ◄─┴─ shipped/*.json, for users without their own

A calibration affects only `Bound.at.calibrated_ms` and modelled times. Roofline and hard bound use
the analytic peaks, which no measurement may exceed.
"""

from __future__ import annotations

from solkit.roofline.calibration.choice import Chosen, calibrated, choose, doubts
from solkit.roofline.calibration.record import Calibration, Reading, Regime
from solkit.roofline.calibration.store import check_room, folder, own, read, save, shipped

__all__ = [
    "Calibration",
    "Chosen",
    "Reading",
    "Regime",
    "calibrated",
    "check_room",
    "choose",
    "doubts",
    "folder",
    "own",
    "read",
    "save",
    "shipped",
]
