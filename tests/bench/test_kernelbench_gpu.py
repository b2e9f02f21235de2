from __future__ import annotations

import contextlib
import math
import threading
from types import SimpleNamespace

import kernelbench_gpu as gpu
import pytest
import torch
from kernelbench_suite import VARIANTS, Failure, Job, Problem

from solkit.core import Verdict
from solkit.measure.activities import ActivityError, CallTime

LINEAR = """
import torch

class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.rand(3, 4)]

def get_init_inputs():
    return [4]
"""
CONSTANT = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 0 + 1

def get_inputs():
    return [torch.rand(3, 4)]
"""
FAILING = CONSTANT.replace("return x * 0 + 1", "return x.reshape(5)")


class CountingTimer:
    """Calls what it is given; the n-th call takes n ms."""

    method = "cupti"

    def __init__(self):
        self.calls = 0

    def start(self):
        self.first = self.calls + 1

    def time(self, subject):
        subject.prepare()()
        self.calls += 1

    def stop(self):
        return [CallTime(float(call), None) for call in range(self.first, self.calls + 1)]


class FailingTimer:
    method = "cupti"

    def start(self):
        raise ActivityError("no CUPTI")


class OneCpu:
    device = "cpu"

    def __init__(self, *timers):
        self._timers = timers

    def synchronize(self):
        pass

    def timers(self):
        return self._timers or (CountingTimer(),), "nothing is flushed"

    def conditions(self):
        told = SimpleNamespace(sm_clock_mhz=1980.0)
        return contextlib.nullcontext(SimpleNamespace(since=lambda: told))


def run_graph(module, _inputs):
    return module.forward


@pytest.fixture
def bench(tmp_path):
    turn = gpu.Turn(tmp_path / "turn", lambda: None)
    yield gpu.Bench(OneCpu(), turn, run_graph, lambda: (1, 1))
    torch._dynamo.reset()


def job(tmp_path, code, **options):
    path = tmp_path / "1_problem.py"
    path.write_text(code)
    return Job(
        Problem(1, 1, path.stem, str(path), "hash"), options.pop("variants", VARIANTS), **options
    )


def test_every_variant_of_a_matrix_product_is_timed(bench, tmp_path):
    rows = {row["variant"]: row for row in bench.rows(job(tmp_path, LINEAR))}
    assert set(rows) == set(VARIANTS)
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert [rows[v]["matmul_tf32"] for v in VARIANTS] == [False, False, True, True]
    assert all(row["conv_tf32"] for row in rows.values())
    assert not torch.backends.cuda.matmul.allow_tf32
    for row in rows.values():
        assert row["low_ms"] <= row["median_ms"] <= row["high_ms"]
        assert row["samples"] >= 20
        assert (row["method"], row["sm_clock_mhz"]) == ("cupti", 1980.0)
        assert (row["max_error"], row["within_tolerance"]) == (0.0, True)
        assert row["output_dtype"] == "float32"
        assert row["input_change"] > 1e-3
    assert rows["compiled"]["compile_s"] > 0
    assert "compile_s" not in rows["eager"]


def test_without_a_matrix_product_tf32_is_not_timed_and_constants_are_noticed(bench, tmp_path):
    rows = {row["variant"]: row for row in bench.rows(job(tmp_path, CONSTANT))}
    assert [rows[v]["status"] for v in VARIANTS] == ["ok", "ok", *["same_as_default"] * 2]
    assert rows["eager"]["input_change"] == 0.0


def test_only_what_was_asked_for_is_timed(bench, tmp_path):
    (row,) = bench.rows(job(tmp_path, LINEAR, variants=("compiled_tf32",)))
    assert (row["variant"], row["status"]) == ("compiled_tf32", "ok")


def test_what_does_not_compile_leaves_eager_a_time(tmp_path):
    def broken(_module, _inputs):
        raise RuntimeError("no such kernel")

    bench = gpu.Bench(OneCpu(), gpu.Turn(tmp_path / "turn", lambda: None), broken, lambda: (1, 1))
    rows = {row["variant"]: row for row in bench.rows(job(tmp_path, LINEAR))}
    assert rows["eager"]["status"] == rows["eager_tf32"]["status"] == "ok"
    assert rows["compiled"]["status"] == rows["compiled_tf32"]["status"] == "does_not_compile"
    assert "no such kernel" in rows["compiled"]["message"]
    assert "median_ms" not in rows["compiled"]


def test_what_ended_a_process_is_not_compiled_again(tmp_path):
    def fatal(_module, _inputs):
        raise AssertionError("compiled")

    bench = gpu.Bench(OneCpu(), gpu.Turn(tmp_path / "turn", lambda: None), fatal, lambda: (1, 1))
    before = Failure(Verdict.TIMED_OUT, "took over 180 s")
    rows = list(bench.rows(job(tmp_path, LINEAR, compile_failure=before)))
    assert [r["status"] for r in rows] == ["ok", "timed_out", "ok", "timed_out"]
    assert rows[1]["message"] == "took over 180 s"


def test_lack_of_memory_is_final_only_for_who_is_alone(tmp_path):
    def hungry(_module, _inputs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    bench = gpu.Bench(OneCpu(), gpu.Turn(tmp_path / "turn", lambda: None), hungry, lambda: (1, 1))
    with pytest.raises(torch.OutOfMemoryError):
        list(bench.rows(job(tmp_path, LINEAR)))
    rows = list(bench.rows(job(tmp_path, LINEAR, alone=True)))
    assert [r["status"] for r in rows] == ["ok", "out_of_memory", "ok", "out_of_memory"]


def test_a_problem_that_fails_is_raised(bench, tmp_path):
    with pytest.raises(RuntimeError, match="shape"):
        list(bench.rows(job(tmp_path, FAILING)))


def test_a_timer_that_does_not_work_is_followed_by_the_next(tmp_path):
    machine = OneCpu(FailingTimer(), CountingTimer())
    bench = gpu.Bench(machine, gpu.Turn(tmp_path / "turn", lambda: None), run_graph, lambda: (1, 1))
    assert all(row["samples"] for row in bench.rows(job(tmp_path, LINEAR)))
    bench = gpu.Bench(OneCpu(FailingTimer()), bench._turn, run_graph, lambda: (1, 1))
    with pytest.raises(RuntimeError, match="no CUPTI"):
        list(bench.rows(job(tmp_path, LINEAR)))


def test_inputs_wait_for_memory_that_others_hold(tmp_path, monkeypatch):
    free = iter([10, 39, 40])
    turn = gpu.Turn(tmp_path / "turn", lambda: None)
    bench = gpu.Bench(OneCpu(), turn, run_graph, lambda: (next(free), 80))
    monkeypatch.setattr(gpu.time, "sleep", lambda _: None)
    with bench._room(alone=False):
        assert next(free, None) is None  # went on at half of it


def test_one_process_has_the_turn_and_may_take_it_again(tmp_path):
    waits = []
    ours = gpu.Turn(tmp_path / "turn", lambda: waits.append("synchronized"))
    theirs = gpu.Turn(tmp_path / "turn", lambda: None)  # another open file, as in another process
    entered = threading.Event()

    def other():
        with theirs:
            entered.set()

    with ours:
        assert ours.during(lambda: waits.copy())() == []  # not given up in between
        thread = threading.Thread(target=other)
        thread.start()
        assert not entered.wait(0.1)
    assert entered.wait(120)
    thread.join()
    assert waits == ["synchronized"]


def test_slow_calls_are_sampled_less():
    assert gpu.plan_for(1e-4).minimum == 20
    assert gpu.plan_for(0.01).minimum == 15  # 0.15 s of them
    assert gpu.plan_for(0.5).minimum == gpu.plan_for(0.5).maximum == 6
    assert gpu.plan_for(0.5).warmup < gpu.plan_for(0.01).warmup


def test_relative_change_is_the_largest_over_the_largest(monkeypatch):
    monkeypatch.setattr(gpu, "_CHUNK", 2)  # several chunks
    want = [torch.tensor([[1.0, -4.0, 2.0], [0.0, 1.0, 1.0]]), torch.tensor([3])]
    got = [torch.tensor([[1.0, -4.0, 2.5], [1.0, 1.0, 1.0]]), torch.tensor([1])]
    assert gpu.relative_change(got, want) == pytest.approx(2 / 4)
    assert gpu.relative_change(want, want) == 0.0
    assert gpu.relative_change([torch.ones(2)], [torch.zeros(2)]) == 1.0
    assert math.isnan(gpu.relative_change([torch.tensor([math.nan])], [torch.ones(1)]))
    assert math.isinf(gpu.relative_change([torch.ones(3)], [torch.ones(2)]))
