"""The program that Nsight Compute runs: counts one call of a candidate.

Called with a JSON object: ``path``, ``reference`` (or null), ``shape``, ``params`` and ``seed``.
"""

# mypy: disable-error-code="no-untyped-call"
# (torch.cuda.profiler is untyped)

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from solkit.kernelfiles import load
from solkit.kernelfiles.rounding import round_to_tf32
from solkit.kernelfiles.seeding import seed_everything


@contextmanager
def counting_launches() -> Iterator[None]:
    """Make Nsight Compute count the launches within."""
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()


def main(job: str) -> None:
    """Call the candidate twice on the same inputs; the first call compiles and tunes."""
    settings = json.loads(job)
    loaded = load(settings["path"], reference=settings["reference"])
    round_to_tf32(loaded.description.problem.allows_tf32)
    seed_everything(settings["seed"])
    workload = loaded.workload(settings["shape"], settings["params"]).with_destinations()
    with torch.no_grad():
        workload.run_kernel()
        with counting_launches():
            workload.run_kernel()


if __name__ == "__main__":
    main(sys.argv[1])
