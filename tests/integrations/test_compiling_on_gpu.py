"""`solkit.compile` on a real GPU: two models in one folder, tuned once each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

PROGRAM = """
import sys
import torch, solkit

def first(x):
    return torch.softmax(x.float() * 2, -1)

def second(x):
    return torch.nn.functional.layer_norm(x.float().exp() + 1, x.shape[-1:])

x = torch.randn(2048, 3000, device="cuda", dtype=torch.bfloat16)
for model in (first, second)[: int(sys.argv[2])]:
    run = solkit.compile(model, folder=sys.argv[1], gpu_seconds=5)
    for _ in range(3):
        torch.testing.assert_close(run(x), model(x), rtol=1e-2, atol=1e-2)
"""


def run(folder, models):
    """Return the lines of a process that say that the folder was tuned."""
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder.with_name("inductor"))}
    command = [sys.executable, "-c", PROGRAM, str(folder), str(models)]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "is not" not in ended.stderr, ended.stderr
    return [line for line in ended.stderr.splitlines() if "is tuned:" in line]


def test_a_second_model_is_tuned_in_a_folder_that_is_tuned_already(tmp_path):
    folder = tmp_path / "tuned"
    assert len(run(folder, 1)) == 1
    assert len(run(folder, 1)) == 0
    assert len(run(folder, 2)) == 1
    assert len(run(folder, 2)) == 0


def test_a_second_model_of_a_process_is_tuned_too(tmp_path):
    folder = tmp_path / "tuned"
    assert len(run(folder, 2)) == 2
    assert len(run(folder, 2)) == 0
