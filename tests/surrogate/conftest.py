"""What tests of the surrogate share lies beside them: `synthetic`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here
