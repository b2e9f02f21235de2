"""What these tests share lies beside them, `few_kernels`, and in tests/surrogate and tests/llm."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "llm")]
