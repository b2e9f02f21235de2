"""What OpenEvolve runs for each candidate: SolKit's grades, from a recorded H100.

On a machine with a GPU leave out `recorded`, and any correct kernel counts. With a `solkit serve`
name its `url` instead: all worker processes then share one queue, and one best time.
"""

import os

from solkit.datasets.kernels import ZOO
from solkit.integrations.openevolve import evaluator

URL = os.environ.get("SOLKIT_URL")  # such as http://127.0.0.1:8000

evaluate, evaluate_stage1, evaluate_stage2 = evaluator(
    ZOO / "softmax/problem.py",
    shape={"M": 8192, "N": 4096, "dtype": "bfloat16"},
    recorded=None if URL else "h100",
    url=URL,
    search="openevolve",
)
