"""KernelBench's references as candidates, and what their outcomes make in the table."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import kernelbench_times as times
import pytest
import torch
from kernelbench_suite import VARIANTS, Problem, find_problems, has_matrix_product

sys.path.insert(0, str(Path(__file__).parents[1] / "measure" / "benches"))

from recordings import outcome

from solkit.core import Verdict
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.outcomelog import OutcomeLog
from solkit.measure.benches import RecordedBench

LINEAR = """
import torch

class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)

    def forward(self, x):
        seen.append(torch.backends.cuda.matmul.allow_tf32)
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.rand(3, 4)]

def get_init_inputs():
    return [4]

seen = []
"""


@pytest.fixture
def problem(tmp_path):
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "7_linear.py").write_text(LINEAR)
    (problem,) = find_problems(tmp_path, [1])
    return problem


@pytest.fixture
def wanted_candidates(problem, tmp_path):
    return times.candidates([problem], tmp_path)


def test_problems_are_found_in_order_and_known_by_their_bytes(tmp_path):
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name in ("10_b.py", "2_a.py", "notes.py"):
        (level / name).write_text("same")
    problems = find_problems(tmp_path, [1])
    assert [p.label for p in problems] == ["1/2_a", "1/10_b"]
    # sha256sum of the four bytes
    assert problems[0].sha256.startswith("0967115f2813a3541eaef77de9d9d577")
    assert find_problems(tmp_path / "KernelBench", [1]) == [
        Problem(p.level, p.number, p.name, p.path, p.sha256) for p in problems
    ]
    with pytest.raises(FileNotFoundError, match="level 2"):
        find_problems(tmp_path, [2])


@pytest.mark.parametrize("variant", ["eager", "eager_tf32"])
def test_a_variant_computes_what_the_reference_does_and_leaves_the_setting(
    wanted_candidates, variant
):
    (path,) = (item.path for (_, name), item in wanted_candidates.items() if name == variant)
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (x,) = module.get_inputs()
    torch.manual_seed(0)
    reference = module.Model(4)
    torch.manual_seed(0)
    candidate = module.ModelNew(4)
    assert torch.equal(candidate(x), reference(x))
    assert module.seen == [variant == "eager_tf32", False]
    assert not torch.backends.cuda.matmul.allow_tf32


def test_compiled_variants_compile(wanted_candidates):
    texts = {name: Path(item.path).read_text() for (_, name), item in wanted_candidates.items()}
    assert [name for name in VARIANTS if "torch.compile(" in texts[name]] == [
        "compiled",
        "compiled_tf32",
    ]


def outcomes(problem, expected, **verdicts):
    """Recorded outcomes of the variants; correct where no verdict is given."""
    results = []
    for number, ((sha256, variant), item) in enumerate(expected.items()):
        kernel = kernel_at_path(item.path, item.entry_point, item.reference)
        row = outcome(number, kernel_id=kernel.kernel_id, implementation=kernel.name, shape={})
        row = replace(row, params={}, problem_sha256=sha256, problem_id=problem.name)
        verdict = verdicts.get(variant, Verdict.CORRECT)
        results.append(row if verdict is Verdict.CORRECT else replace(row, verdict=verdict))
    return results


def test_every_variant_is_driven_through_a_bench_until_the_budget_is_spent(
    problem, wanted_candidates, capsys
):
    bench = RecordedBench(outcomes(problem, wanted_candidates), cores=1)
    assert times.drive(bench, wanted_candidates.values(), 1e6) == 4
    assert "7_linear.compiled_tf32: 10.0000 ms" in capsys.readouterr().out
    bench = RecordedBench(outcomes(problem, wanted_candidates), cores=1)
    assert times.drive(bench, wanted_candidates.values(), 3.0) == 2  # each takes 2.5 s


def test_what_has_an_outcome_is_done_and_failures_are_tried_again_if_asked(
    problem, wanted_candidates
):
    done = outcomes(problem, wanted_candidates, compiled=Verdict.TIMED_OUT)[:3]
    names = lambda results: [Path(result.path).name for result in results]  # noqa: E731
    assert names(times.left(wanted_candidates, done, again=False)) == ["7_linear.compiled_tf32.py"]
    assert names(times.left(wanted_candidates, done, again=True)) == [
        "7_linear.compiled.py",
        "7_linear.compiled_tf32.py",
    ]
    other = [replace(item, problem_sha256="another") for item in done]
    assert len(times.left(wanted_candidates, other, again=False)) == 4


def test_a_log_becomes_lines_of_the_table(problem, wanted_candidates, tmp_path):
    rows = outcomes(
        problem, wanted_candidates, compiled=Verdict.WRONG, eager_tf32=Verdict.DEGENERATE_PROBLEM
    )
    rows = [replace(row, device_name="NVIDIA H100 80GB HBM3", flush="read") for row in rows]
    with OutcomeLog(tmp_path / "log.jsonl") as log:
        log.append([*rows, replace(rows[0], problem_sha256="another")])
    run, *lines = times.read_lines(tmp_path / "log.jsonl", [problem])
    assert (run["kind"], run["device"], run["flush"]) == ("run", "NVIDIA H100 80GB HBM3", "read")
    results = {line["variant"]: line for line in lines}
    assert list(results) == list(VARIANTS)
    eager = results["eager"]
    assert (eager["status"], eager["median_ms"], eager["samples"]) == ("ok", 10.0, 3)
    assert (eager["level"], eager["number"], eager["run"]) == (1, 7, run["run"])
    assert (eager["within_tolerance"], eager["degenerate"]) == (True, False)
    assert (results["compiled"]["status"], results["compiled"]["within_tolerance"]) == (
        "wrong",
        False,
    )
    assert results["eager_tf32"]["degenerate"] is True
    assert [line["matmul_tf32"] for line in lines] == [False, False, True, True]


@pytest.mark.parametrize(
    ("ops", "has"),
    [
        (["aten.mm"], True),
        (["aten.relu", "aten._scaled_dot_product_flash_attention.default"], True),
        (["aten.convolution.default", "aten.add"], False),
        (["aten.lstm.input"], True),
        ([], False),
    ],
)
def test_which_problems_have_a_matrix_product(ops, has):
    assert has_matrix_product(ops) is has
