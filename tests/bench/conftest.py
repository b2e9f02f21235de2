"""The benches are scripts beside each other: they import each other by name, as helpers here do."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "bench"), str(HERE), str(HERE.parent / "surrogate")]
