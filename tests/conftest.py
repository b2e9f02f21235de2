"""Fixtures that several rooms share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from solkit import worker
from solkit.core import Work
from solkit.roofline import devices

HEADER = "import torch\nimport torch.nn.functional as F\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write a kernel file with the usual imports; gives its path."""

    def writer(body: str, name: str = "problem.py") -> str:
        path = tmp_path / name
        path.write_text(HEADER + body, encoding="utf-8")
        return str(path)

    return writer


@pytest.fixture
def work(write: Callable[..., str]) -> Callable[[str, str], Work]:
    """The work of ``reference`` (its body) on ``inputs`` (what it returns), traced for real."""

    def tracer(inputs: str, body: str) -> Work:
        arguments = ", ".join(f"a{i}" for i in range(inputs.count(";") + 1))
        path = write(
            f"def inputs(device='cuda'):\n    return ({inputs.replace(';', ',')},)\n"
            f"def reference({arguments}):\n    {body}\n"
        )
        device = devices.find("h100")
        study = worker.call("solkit.study:study", path, None, device, None, {}, False, 1)
        return study.cases[0].work

    return tracer
