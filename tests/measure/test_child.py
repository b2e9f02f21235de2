from __future__ import annotations

import contextlib
from textwrap import dedent
from types import SimpleNamespace

import pytest

from solkit.core import KernelAnalysis, Launch, Tolerance, Verdict
from solkit.errors import KernelFileError, UnsupportedError, WorkerError
from solkit.measure._child import examine
from solkit.measure.activities import ActivityError, CallTime
from solkit.measure.messages import Request

LAUNCH = KernelAnalysis(Launch("k", (1, 1, 1), 4, 2), registers=32)


class FakeTimer:
    """Makes each call, and gives times of its own: 1, 1.01, ... for the candidate, 3 beside it."""

    method = "fake"

    def __init__(self, fails=False):
        self.fails, self.calls = fails, []

    def time(self, subjects):
        if self.fails:
            raise ActivityError("no GPU activity")
        return [self._time(s) for s in subjects]

    def _time(self, subject):
        subject.prepare()()
        self.calls.append(subject.name)
        mine = 1.0 + 0.01 * (self.calls.count("candidate") % 2)
        return CallTime(mine, mine / 2) if subject.name == "candidate" else CallTime(3.0, 3.0)


class FakeMachine:
    device = "cpu"

    def __init__(self, *timers):
        self._timers = timers or (FakeTimer(),)

    def synchronize(self):
        pass

    def timers(self):
        return self._timers, "not at all"

    def clock(self):
        return contextlib.nullcontext(SimpleNamespace(median_mhz=1410.0))

    @contextlib.contextmanager
    def recording(self):
        launches = []
        yield launches
        launches.append(LAUNCH)


HEAD = """
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""


@pytest.fixture
def run(tmp_path):
    def run(kernel, head=HEAD, machine=None, say=print, **changes):
        path = tmp_path / "mine.py"
        path.write_text(dedent(head) + dedent(kernel))
        request = {
            "path": str(path),
            "reference": None,
            "shape": {},
            "params": {},
            "tolerance": None,
            "time_limit_s": 60.0,
            "seed": 5,
            "device": "cpu",
        }
        return examine(Request(**{**request, **changes}), machine or FakeMachine(), say)

    return run


def test_a_right_kernel_is_timed(run):
    stages = []
    outcome = run("def kernel(x): return x + x", say=stages.append)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    measurement, protocol = outcome.measurement, outcome.protocol
    assert measurement.median_ms == pytest.approx(1.005)
    assert (measurement.low_ms, measurement.high_ms) == (1.0, 1.01)
    assert measurement.kernel_sum_ms == pytest.approx(measurement.median_ms / 2)
    assert measurement.reference_ms == 3.0
    assert (measurement.method, measurement.samples, measurement.max_error) == ("fake", 20, 0.0)
    assert measurement.sm_clock_mhz == 1410.0
    assert measurement.launches == (LAUNCH,)
    assert (protocol.method, protocol.l2, protocol.flush) == ("fake", "cold", "not at all")
    assert (protocol.samples, protocol.seed, protocol.warmup_calls) == (20, 5, 13)
    assert stages[0] == "loading the kernel file"
    assert stages[-1] == "timing"


CONSTANT = HEAD.replace("return x * 2", "return (x - x).relu()")


def test_a_reference_that_ignores_its_inputs_is_told(run):
    outcome = run("def kernel(x): return torch.zeros_like(x)", head=CONSTANT)
    assert outcome.verdict is Verdict.DEGENERATE_PROBLEM
    assert "same outputs, bit for bit, on two sets of inputs" in outcome.errors[0]
    assert outcome.measurement is not None


@pytest.mark.parametrize(
    "head",
    [
        CONSTANT.replace("torch.randn(N,", "torch.ones(N,"),  # the inputs were the same
        HEAD.replace("return x * 2", "return x.numel() + torch.arange(3)"),  # no float
    ],
)
def test_outputs_alike_prove_nothing_on_inputs_alike_or_as_whole_numbers(run, head):
    outcome = run("def kernel(x): return reference(x)", head=head)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())


def test_a_wrong_kernel_is_not_timed(run):
    timer = FakeTimer()
    outcome = run("def kernel(x): return x * 2.1", machine=FakeMachine(timer))
    assert outcome.verdict is Verdict.WRONG
    assert outcome.measurement is outcome.protocol is None
    assert "output 0: 16 of 16 elements" in outcome.errors[0]
    assert timer.calls == []


def test_a_kernel_that_is_right_for_one_seed_only(run):
    kernel = """
        first = []
        def kernel(x):
            first.append(x * 2)
            return first[0]
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.WRONG
    assert outcome.errors[0].endswith("(seed 5)")


def test_outputs_of_timed_calls_are_checked(run):
    kernel = """
        calls = []
        def kernel(x):
            calls.append(1)
            return x * 2 if len(calls) < 20 else torch.zeros_like(x)
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.WRONG
    assert outcome.errors[0].endswith("(the last timed call)")


def test_every_call_of_an_in_place_kernel_gets_the_same_inputs(run):
    head = """
        import torch
        OUTPUTS = ("x",)
        def inputs(N=16, device="cuda"):
            return (torch.randn(N, device=device),)
        def reference(x):
            x.mul_(2)
    """
    assert run("def kernel(x): x.add_(x.clone())", head=head).verdict is Verdict.CORRECT


def test_undeclared_writes_are_noticed(run):
    assert run("def kernel(x): return x.mul_(2)").verdict is Verdict.CORRECT


def test_a_writing_reference_does_not_spoil_the_candidates_inputs(run):
    head = HEAD.replace("return x * 2", "return x.mul_(2)")
    assert run("def kernel(x): return x * 2", head=head).verdict is Verdict.CORRECT


def test_inputs_and_calls_are_seeded(run):
    head = HEAD.replace("return x * 2", "return x + torch.rand_like(x)")
    kernel = "def kernel(x): return torch.rand_like(x) + x"
    assert run(kernel, head=head).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("body", "verdict", "text"),
    [
        ("raise ValueError('no')", Verdict.CRASHED, "ValueError: no"),
        ("raise SystemExit(3)", Verdict.CRASHED, "SystemExit: 3"),
        ("raise torch.OutOfMemoryError('full')", Verdict.OUT_OF_MEMORY, "full"),
        (
            "from triton.runtime.errors import OutOfResources; raise OutOfResources(9, 8, 'smem')",
            Verdict.DOES_NOT_COMPILE,
            "smem",
        ),
    ],
)
def test_failures(run, tmp_path, body, verdict, text):
    outcome = run(f"\ndef kernel(x):\n    {body}\n")
    assert outcome.verdict is verdict
    assert outcome.errors[0].startswith("running the candidate: ")
    assert text in outcome.errors[0]
    assert outcome.errors[1].startswith(f"at {tmp_path / 'mine.py'}:")


def test_tolerance_of_the_request_then_of_the_file(run):
    kernel = "def kernel(x): return x * 2 + 0.01"
    assert run(kernel).verdict is Verdict.WRONG
    own = HEAD + "TOLERANCE = {'rtol': 0.0, 'atol': 0.02}\n"
    outcome = run(kernel, head=own)
    assert outcome.verdict is Verdict.CORRECT
    assert outcome.measurement.max_error == pytest.approx(0.01, rel=1e-3)
    assert run(kernel, head=own, tolerance=Tolerance(0.0, 0.001)).verdict is Verdict.WRONG


def test_own_check(run):
    lax = HEAD + "def check(got, want): return True\n"
    assert run("def kernel(x): return x * 3", head=lax).verdict is Verdict.CORRECT


def test_shape_and_params_arrive(run):
    kernel = """
        def kernel(x, *, SCALE=1):
            assert x.shape == (24,)
            return x * SCALE
    """
    assert run(kernel, shape={"N": 24}, params={"SCALE": 2}).verdict is Verdict.CORRECT


def test_the_next_timer_is_used_from_the_start_where_the_first_fails(run):
    fallback = FakeTimer()
    fallback.method = "fallback"
    machine = FakeMachine(FakeTimer(fails=True), fallback)
    outcome = run("def kernel(x): return x * 2", machine=machine)
    assert outcome.verdict is Verdict.CORRECT
    assert outcome.errors == ("not timed by fake: no GPU activity",)
    assert outcome.measurement.method == outcome.protocol.method == "fallback"
    assert len(fallback.calls) == 60  # 10 pairs to warm up, 20 timed


def test_no_timer_works(run):
    with pytest.raises(WorkerError, match="no GPU activity"):
        run("def kernel(x): return x * 2", machine=FakeMachine(FakeTimer(fails=True)))


def test_a_reference_that_fails_is_the_files_fault(run):
    head = HEAD.replace("return x * 2", "return x.nothing()")
    with pytest.raises(KernelFileError, match="running the reference: AttributeError"):
        run("def kernel(x): return x", head=head)


def test_a_reference_that_fills_the_memory(run):
    head = HEAD.replace("return x * 2", "raise torch.OutOfMemoryError('full')")
    with pytest.raises(UnsupportedError, match="full"):
        run("def kernel(x): return x", head=head)


def test_inputs_that_fill_the_memory(run):
    head = HEAD.replace("return (torch", "raise torch.OutOfMemoryError('full')\n    return (torch")
    with pytest.raises(UnsupportedError, match="inputs do not fit into memory"):
        run("def kernel(x): return x", head=head)


def test_a_file_with_a_reference_alone(run):
    with pytest.raises(KernelFileError, match="no kernel to measure"):
        run("")
