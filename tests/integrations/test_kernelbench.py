"""KernelBench's names and fields, on a small problem of its form."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timezone

import pytest

from solkit.core import Configuration, Outcome, Verdict
from solkit.errors import InputError, KernelFileError
from solkit.integrations.kernelbench import (
    KernelExecResult,
    generations,
    main,
    problem_of,
    result_of,
)
from solkit.pipeline.evaluation import Evaluation
from solkit.roofline.devices import find

PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


batch_size = 64
dim = 4096


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
"""
KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""
FIELDS = (
    *("compiled", "correctness", "metadata", "runtime", "runtime_stats"),
    *("ref_runtime", "ref_runtime_stats"),
)
"""Of KernelBench's own KernelExecResult, src/kernelbench/eval.py of 423217d."""


def evaluation(verdict, **known_fields):
    fields = {"kernel_id": "k", "family": "f", "kind": "f", "origin": "score", "problem_id": "p"}
    outcome = Outcome(
        **fields,
        device="h100-sxm",
        params={},
        verdict=verdict,
        created=datetime(2026, 1, 1, tzinfo=timezone.utc),
        chosen_by="default",
        evidence=("because",),
        **known_fields,
    )
    return Evaluation("c.py", Configuration("c.py", "ModelNew"), outcome=outcome)


def test_the_record_has_kernelbenchs_fields():
    assert tuple(field.name for field in fields(KernelExecResult)) == FIELDS
    assert KernelExecResult().runtime == KernelExecResult().ref_runtime == -1


def test_a_measured_candidate_has_kernelbenchs_times():
    samples = {"samples_ms": (1.0, 2.0, 3.0), "reference_samples_ms": (4.0, 4.0)}
    results = evaluation(Verdict.CORRECT, time_ms=2.0, reference_ms=4.0, **samples)
    result = result_of(results, find("h100"))
    assert (result.compiled, result.correctness) == (True, True)
    assert (result.runtime, result.ref_runtime) == (2.0, 4.0)
    stats = result.runtime_stats
    assert stats.keys() == {"mean", "std", "min", "max", "num_trials", "hardware", "device"}
    assert (stats["mean"], stats["min"], stats["max"], stats["num_trials"]) == (2, 1, 3, 3)
    assert stats["std"] == pytest.approx((2 / 3) ** 0.5)  # numpy's default, of the population
    assert result.metadata["solkit"]["measured"] is True


@pytest.mark.parametrize(
    ("verdict", "compiled", "correct", "key"),
    [
        (Verdict.DOES_NOT_COMPILE, False, False, "compilation_error"),
        (Verdict.CRASHED, True, False, "runtime_error"),
        (Verdict.TIMED_OUT, True, False, "runtime_error"),
        (Verdict.WRONG, True, False, "correctness_issue"),
        (Verdict.CHEATING, True, False, "correctness_issue"),
        (Verdict.IMPOSSIBLE, True, False, "correctness_issue"),
        (Verdict.UNSTABLE, True, True, None),
        (Verdict.DEGENERATE_PROBLEM, True, True, None),
    ],
)
def test_what_has_no_time_that_counts_has_none(verdict, compiled, correct, key):
    results = evaluation(verdict, time_ms=1.0, reference_ms=2.0, samples_ms=(1.0,))
    result = result_of(results, find("h100"))
    assert (result.compiled, result.correctness) == (compiled, correct)
    assert (result.runtime, result.runtime_stats, result.ref_runtime) == (-1, {}, -1)
    assert result.metadata["solkit"]["time_ms"] is None
    assert result.metadata["solkit"]["verdict"] == verdict.value
    if key is not None:
        assert result.metadata[key] == "because"
        assert result.metadata[f"{key}_name"] == verdict.value


def test_a_file_that_cannot_be_used_does_not_compile():
    evaluation = Evaluation("c.py", error=KernelFileError("has no ModelNew", "c.py"))
    result = result_of(evaluation, find("h100"))
    assert (result.compiled, result.runtime) == (False, -1)
    assert result.metadata["solkit"]["verdict"] == "does_not_compile"
    assert "has no ModelNew" in result.metadata["compilation_error"]


@pytest.fixture
def checkout(tmp_path):
    level = tmp_path / "checkout" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "19_ReLU.py").write_text(PROBLEM)
    return tmp_path / "checkout"


@pytest.fixture
def folder(tmp_path):
    result = tmp_path / "runs"
    result.mkdir()
    for name, text in {
        "level_1_problem_19_sample_10": KERNEL,
        "level_1_problem_19_sample_2": "class ModelNew(:\n",
        "level_2_problem_1_sample_0": KERNEL,
        "prompt": "",
    }.items():
        (result / f"{name}_kernel.py").write_text(text)
    return result


def test_generations_are_found_by_kernelbenchs_names(folder, checkout):
    pairs = [(generation.problem_id, generation.sample_id) for generation in generations(folder, 1)]
    assert pairs == [(19, 2), (19, 10)]
    with pytest.raises(InputError, match="level_3_problem_1_sample_0_kernel"):
        generations(folder, 3)
    assert problem_of(checkout, 1, 19).name == "19_ReLU.py"
    assert problem_of(checkout / "KernelBench", 1, 19).name == "19_ReLU.py"
    with pytest.raises(InputError, match="no problem 9 of level 1"):
        problem_of(checkout, 1, 9)


def test_a_folder_without_a_gpu_is_analysed_and_nothing_is_timed(folder, checkout, capsys):
    arguments = [str(checkout), str(folder), "--level", "1", "--device", "a100"]
    assert main(arguments) == 0
    assert "not measured" in capsys.readouterr().out
    path = folder / "eval_results.json"
    data = json.loads(path.read_text())
    assert [*data] == ["19"]
    by_sample = {items["sample_id"]: items for items in data["19"]}
    for item in by_sample.values():
        assert item.keys() == {"sample_id", *FIELDS[:5]}
        assert (item["correctness"], item["runtime"], item["runtime_stats"]) == (False, -1, {})
        assert item["metadata"]["solkit"]["time_ms"] is None
    good, bad = by_sample[10], by_sample[2]
    assert (good["compiled"], bad["compiled"]) == (True, False)
    assert good["metadata"]["solkit"]["verdict"] == "not_measured"
    assert good["metadata"]["solkit"]["sol_ms"] > 0
    assert "not in this machine" in good["metadata"]["not_measured"]
    before = path.read_bytes()
    assert main(arguments) == 0  # nothing is left to do
    assert path.read_bytes() == before
    assert main([str(checkout), str(folder), "--level", "2"]) == 1
    path.write_text("[1]")
    assert main(arguments) == 1
    assert "is no eval_results.json" in capsys.readouterr().err
