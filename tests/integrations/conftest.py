"""What tests share lies beside them: `call_kernels`; recordings are those of the tuner's tests."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "tuner"):
    sys.path.insert(0, str(folder))
