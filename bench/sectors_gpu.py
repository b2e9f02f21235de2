"""The program that `sectors` runs under Nsight Compute: one call of each kernel, counted.

    python bench/sectors_gpu.py jobs.json report.json

A job is a kernel file with a shape. Before each counted call an empty kernel is launched whose grid
is the job's number and one: in Nsight Compute's table it says whose launches follow, whatever
became of the jobs before. The report says, job by job, how it failed; null where it did not. Jobs
that were not come to, since an earlier one ended the process, are not in it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import triton

from solkit.kernelfiles import load
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.counters.program import counting_launches

MARKER = "job_marker"
ENDED = "the run ended here"


@triton.jit
def job_marker(number):
    pass


def main(jobs: Path, report: Path) -> None:
    results: dict[str, str | None] = {}

    def tell(label: str, error: str | None) -> None:
        results[label] = error
        report.write_text(json.dumps(results))

    for job in json.loads(jobs.read_text()):
        tell(job["label"], ENDED)
        try:
            run(job)
        except Exception as error:  # the next one may do better
            tell(job["label"], f"{type(error).__name__}: {error}".splitlines()[0])
            if "CUDA error" in str(error):  # no more can be done in this process
                return
        else:
            tell(job["label"], None)


def run(job: dict[str, Any]) -> None:
    """Call a kernel uncounted, which compiles it, then counted."""
    loaded = load(job["path"], reference=job["reference"])
    seed_everything(0)
    workload = loaded.workload(job["shape"], job["params"]).with_destinations()
    with torch.no_grad():
        workload.run_kernel()
        with counting_launches():
            job_marker[(job["number"] + 1,)](0)
            workload.run_kernel()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
