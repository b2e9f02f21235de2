"""Tests of measuring share `simulated`, which lies beside them, and forks without delay."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from solkit.kernelfiles import look_ahead
from solkit.measure.anti_cheating import cheat_detection
from solkit.measure.anti_cheating.replaced_functions import Identities

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def nearby_outputs_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is."""
    monkeypatch.setattr("solkit.measure.checking.tolerance._DRAWING_S", math.inf)


@pytest.fixture(scope="module")
def prepared_forks() -> Iterator[None]:
    """Do once what each fork of a module's tests would repeat, as the fork server does."""
    torch.set_num_threads(1)  # forks do not inherit OpenMP's threads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cheat_detection, "_known", Identities())
        look_ahead()
        gc.collect()
        gc.freeze()
        yield
        gc.unfreeze()
