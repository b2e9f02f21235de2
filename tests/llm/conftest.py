"""What these tests share lies beside them, `model_fakes`, and with the proposers' tests."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent  # conftest.py is all that pytest can import here
sys.path[:0] = [str(HERE), str(HERE.parent / "tuner" / "proposers")]
