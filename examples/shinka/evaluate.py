"""What ShinkaEvolve runs for each candidate, in a process of its own: SolKit's grade, as two files.

It needs SolKit, not ShinkaEvolve, which pins packages: let `job.python_executable` name the Python
of SolKit's environment. With a `solkit serve` the process only asks; without one it opens a
recorded H100 each time, which takes seconds and forgets the best.
"""

import os
import sys

from solkit.datasets.kernels import ZOO
from solkit.integrations.shinka import main

URL = os.environ.get("SOLKIT_URL")  # such as http://127.0.0.1:8000

sys.exit(
    main(
        [
            *("--problem", str(ZOO / "softmax/problem.py")),
            *("--shape", '{"M": 8192, "N": 4096, "dtype": "bfloat16"}'),
            *(("--url", URL, "--search", "shinka") if URL else ("--recorded", "h100")),
            *sys.argv[1:],
        ]
    )
)
