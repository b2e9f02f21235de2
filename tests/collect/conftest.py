"""The fake bench is that of `tests/measure/benches`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "measure" / "benches"))
