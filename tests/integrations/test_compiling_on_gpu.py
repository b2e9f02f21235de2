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
    wall = {"wall_seconds": float(sys.argv[3])} if len(sys.argv) > 3 else {}
    run = solkit.compile(model, folder=sys.argv[1], gpu_seconds=5, **wall)
    for _ in range(3):
        torch.testing.assert_close(run(x), model(x), rtol=1e-2, atol=1e-2)
"""


def run(folder, *arguments):
    """Return what a script, whose main part has no guard, says of the folder."""
    script = folder.with_name("program.py")
    script.write_text(PROGRAM)
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder.with_name("inductor"))}
    command = [sys.executable, str(script), str(folder), *map(str, arguments)]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [line for line in ended.stderr.splitlines() if line.startswith(f"solkit: {folder} is ")]


def times_tuned(folder, models):
    """Return how many searches a process made."""
    lines = run(folder, models)
    assert all("is tuned:" in line for line in lines), lines
    return len(lines)


def test_a_second_model_is_tuned_in_a_folder_that_is_tuned_already(tmp_path):
    folder = tmp_path / "tuned"
    assert times_tuned(folder, 1) == 1
    assert times_tuned(folder, 1) == 0
    assert times_tuned(folder, 2) == 1
    assert times_tuned(folder, 2) == 0


def test_a_second_model_of_a_process_is_tuned_too(tmp_path):
    folder = tmp_path / "tuned"
    assert times_tuned(folder, 2) == 2
    assert times_tuned(folder, 2) == 0


def test_a_search_ends_at_its_wall_and_the_next_process_searches(tmp_path):
    folder = tmp_path / "tuned"
    (line,) = run(folder, 1, 1.0)
    assert "is not tuned: the search did not end within 1 s (wall_seconds)" in line
    assert times_tuned(folder, 1) == 1
