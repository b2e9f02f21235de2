"""What was compiled ahead is found by a program on a real GPU, which then compiles nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from solkit.integrations import precompiling

pytestmark = pytest.mark.gpu

PROGRAM = Path(__file__).with_name("launching_program.py")


def run_program(place: Path, **variables: str) -> str:
    caches = {"TRITON_CACHE_DIR": str(place), "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor")}
    settings = {"ON_GPU": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", **caches, **variables}
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_program_on_a_gpu_compiles_nothing_of_what_was_compiled_ahead(tmp_path):
    run_program(tmp_path / "own", RECORD=str(tmp_path / "recorded"))
    result = precompiling.precompile(tmp_path / "recorded")
    assert torch.cuda.is_available()
    assert [kernel for kernel in result.kernels if kernel.why] == []
    assert result.notes == ()
    moved = (tmp_path / "recorded").rename(tmp_path / "moved")
    said = run_program(tmp_path / "empty", FOLDER=str(moved))
    assert said.startswith("all ")
    assert said.endswith(" compiled kernels came from a cache\n")
    assert int(said.split()[1]) >= 11  # ten of Triton's, and Inductor's
