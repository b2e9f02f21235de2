"""`simulated`, of the tests of measuring, gives a Lab a GPU that is not there."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))
