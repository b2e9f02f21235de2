"""The public functions: from a kernel file to a report.

Nothing here imports torch. Code that needs it runs in child processes (`solkit.processes.jobs`,
`solkit.measure`).

::

    target ─► studying ─► bounding ─► scoring, comparing, lab
                  └─────► ranking
"""

from __future__ import annotations

from solkit.pipeline.bounding import bound, bounds, fusion, symbolic_bound
from solkit.pipeline.comparing import compare
from solkit.pipeline.evaluation import Evaluation
from solkit.pipeline.lab import Lab, close
from solkit.pipeline.ranking import ask_tell, rank
from solkit.pipeline.scoring import score
from solkit.pipeline.studying import analyse, load
from solkit.pipeline.target import DEFAULT_DEVICE, devices

__all__ = [
    "DEFAULT_DEVICE",
    "Evaluation",
    "Lab",
    "analyse",
    "ask_tell",
    "bound",
    "bounds",
    "close",
    "compare",
    "devices",
    "fusion",
    "load",
    "rank",
    "score",
    "symbolic_bound",
]
