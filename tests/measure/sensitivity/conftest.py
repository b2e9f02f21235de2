"""Measuring what a reference needs, on small inputs on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from solkit.core import Needed
from solkit.measure.sensitivity.needed import measure_needed


def measured(make: Callable[[], list[torch.Tensor]], reference: Any, **options: Any) -> Needed:
    """What `reference` needs of inputs that `make` draws."""
    torch.manual_seed(0)
    inputs = make()

    def draw(number: int) -> list[torch.Tensor]:
        torch.manual_seed(number)
        return make()

    def run() -> list[torch.Tensor]:
        returned = reference(*inputs)
        return list(returned) if isinstance(returned, (list, tuple)) else [returned]

    needed = measure_needed(run, inputs, draw, **{"limit_s": 30.0, "samples": 64, **options})
    assert needed is not None
    return needed


@pytest.fixture
def measure() -> Callable[..., Needed]:
    return measured
