"""What tests of the emitters share lies beside them: `tuned_moe`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # conftest.py is all that pytest can import here


@pytest.fixture
def moe():
    """A fused MoE at three batch sizes with configurations of their own."""
    from tuned_moe import three_sizes

    return three_sizes()
