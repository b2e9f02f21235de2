"""Rows as tuning runs write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from solkit.core import Outcome, Verdict
from solkit.datasets.identifiers import problem_id

START = datetime(2024, 5, 1, tzinfo=timezone.utc)
SHAPE = {"M": 4096, "N": 1024}


def row(params, time_ms, place=0, *, shape=SHAPE, run="run", kernel="k", verdict=None, **fields):
    """A row of a softmax; it failed if it has no time."""
    held = {
        "device": "h100-sxm", "chosen_by": "search", "bound_ms": 0.25, "protocol": "cold",
        "triton_version": "3.6.0", "torch_version": "2.11.0", "cuda_version": "13.0",
        "solkit_version": "0.9", "driver_version": "580.95", "clock_mhz": 1980.0, "gpu_s": 0.5,
        "device_name": "NVIDIA H100 80GB HBM3", "created": START + timedelta(seconds=place),
        "implementation": "softmax/whole_row", "entry_point": "kernel", **fields,
    }  # fmt: skip
    if time_ms is None:
        held |= {"protocol": None, "clock_mhz": None}
    return Outcome(
        kernel, "softmax", "norm", "zoo", problem_id("softmax", shape), held.pop("device"), params,
        verdict or (Verdict.CRASHED if time_ms is None else Verdict.CORRECT), held.pop("created"),
        held.pop("chosen_by"), time_ms, run_id=run, sequence=place, shape=shape, **held,
    )  # fmt: skip
