"""What these tests share lies beside them: `model_fakes`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here
