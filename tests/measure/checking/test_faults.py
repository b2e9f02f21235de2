from __future__ import annotations

import pytest
import torch
import triton
from triton.runtime.errors import OutOfResources, PTXASError

from solkit.core import Verdict
from solkit.measure.checking.faults import explain_error, verdict_of


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (triton.CompilationError("src", None, "bad"), Verdict.DOES_NOT_COMPILE),
        (triton.compiler.errors.UnsupportedLanguageConstruct("s", None, "b"), "does_not_compile"),
        (OutOfResources(300000, 232448, "shared memory"), Verdict.DOES_NOT_COMPILE),
        (PTXASError("`ptxas` failed with error code 255"), Verdict.DOES_NOT_COMPILE),
        (RuntimeError("PassManager::run failed"), Verdict.DOES_NOT_COMPILE),
        (RuntimeError("Error building extension 'mine'"), Verdict.DOES_NOT_COMPILE),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to ..."), Verdict.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: out of memory"), Verdict.OUT_OF_MEMORY),
        (RuntimeError("Triton Error [CUDA]: out of memory"), Verdict.OUT_OF_MEMORY),
        (MemoryError(), Verdict.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), Verdict.CRASHED),
        (torch.AcceleratorError("CUDA error: unspecified launch failure"), Verdict.CRASHED),
        (ValueError("nothing to do with it"), Verdict.CRASHED),
        (SystemExit(3), Verdict.CRASHED),
    ],
)
def test_verdicts(error, verdict):
    assert verdict_of(error) == verdict


def raised(path, code):
    try:
        exec(compile(code, path, "exec"), {})
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_explanations_name_the_line_of_the_users_file(tmp_path):
    path = str(tmp_path / "mine.py")
    error = raised(path, "import json\n\ndef f():\n    json.loads('{')\n\nf()\n")
    summary, place = explain_error(error, "running the candidate", path)
    assert summary.startswith("running the candidate: JSONDecodeError: Expecting property name")
    assert place == f"at {path}:4 in f"


def test_explanations_without_a_line_or_a_text():
    assert explain_error(MemoryError(), "timing", "x.py") == ("timing: MemoryError",)


def test_long_texts_are_cut():
    (summary,) = explain_error(RuntimeError("p" * 10_000), "timing", "x.py")
    assert len(summary) < 2100
    assert summary.endswith("(10000 characters)")
