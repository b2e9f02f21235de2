"""What these tests share lies beside them, `hostile_answers`, and in tests/llm: `model_fakes`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "llm")]
