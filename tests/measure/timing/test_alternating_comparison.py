"""The course of a comparison: each candidate in a thread of its own, on a GPU that is simulated."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections import Counter
from itertools import pairwise

import pytest
from simulated import HEAD, Machine, NoGuard

from solkit.core import Difference, Verdict
from solkit.errors import KernelFileError, WorkerError
from solkit.measure.guarded.candidate import serve
from solkit.measure.guarded.correctness import Setup
from solkit.measure.guarded.messages import (
    ComparisonRequest,
    JudgedTurns,
    Request,
    Turns,
    decode,
    encode,
)
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.alternating_comparison import compare_in_turns, plan_turns
from solkit.measure.timing.clocks import Sample
from solkit.measure.timing.comparison_statistics import compute_ratio, difference
from solkit.measure.timing.sampling import SamplingPlan
from solkit.processes.channel import Channel, connected_pair

RIGHT = "def kernel(x): return x + x"


class Gpu:
    """One for all processes: its clock falls call by call, and each call is told from the others.

    Args:
        drift: by how much the clock has fallen after 100 calls, as a share.
        second: by how much less whoever is not the first of a turn takes.
    """

    def __init__(self, drift=0.0, second=0.0, noise=0.002, sides=2):
        self.drift, self.second, self.noise, self.sides = drift, second, noise, sides
        self.calls, self.generator = 0, random.Random(1)

    def time_ms(self, usual_ms):
        place, self.calls = self.calls % self.sides, self.calls + 1
        clock = 1 - self.drift * self.calls / 100 if self.calls < 100 else 1 - self.drift
        later = 1 - self.second if place else 1.0
        return usual_ms / clock * later * math.exp(self.generator.gauss(0, self.noise))


class Timer:
    def __init__(self, gpu, usual_ms, method="cupti", fails=False):
        self.gpu, self.usual_ms, self.method, self.fails = gpu, usual_ms, method, fails
        self.inputs, self.times = [], []

    def start(self):
        self.times = []

    def time(self, subject):
        self.inputs.append(subject.name)
        subject.prepare()()
        self.times.append(CallTime(self.gpu.time_ms(self.usual_ms), None))

    def stop(self):
        if self.fails:
            raise ActivityError("no GPU activity")
        return self.times


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Compare kernels that take the usual times given, in ms; gives the outcome and the machines.

    They tell 100 ms and more, so that their real rows, which take no time, contradict nothing.
    """
    monkeypatch.setattr("solkit.measure.guarded.candidate.CheatDetector", NoGuard)
    monkeypatch.setattr("solkit.measure.checking.trials.DISTRIBUTIONS", ())
    for name in ("_LONG_S", "_SLOW_S"):  # no reference is slow, however busy this machine
        monkeypatch.setattr(f"solkit.measure.timing.alternating_comparison.{name}", 1e3)

    def run(*kernels, usual_ms, gpu=None, mine=None, theirs=None, head=HEAD, **changes):
        gpu = gpu or Gpu()
        theirs = theirs or [Machine(Timer(gpu, item)) for item in usual_ms]
        options = {"precision": 0.002, "budget_s": 30.0, **changes}
        with contextlib.ExitStack() as stack:
            requests, channels = [], []
            for number, (kernel, machine) in enumerate(zip(kernels, theirs, strict=True)):
                path = tmp_path / f"kernel_{number}.py"
                path.write_text(head + kernel)
                requests.append(Request(str(path), None, {}, {}, 60.0, 5, "cpu"))
                ours, other = connected_pair()
                channel = Channel(other, trusting=True)
                answering = threading.Thread(
                    target=serve, args=(channel, lambda _, m=machine: m), daemon=True
                )
                answering.start()
                stack.callback(answering.join)
                stack.enter_context(ours)
                channels.append(Channel(ours, trusting=False))
                channels[-1].receive()  # it is ready
            blocks = stack.enter_context(contextlib.ExitStack())
            request = ComparisonRequest(tuple(requests), **options)
            mine = mine or Machine(Timer(gpu, math.nan))
            return compare_in_turns(request, channels, Setup(mine, lambda _: None, blocks)), theirs

    return run


def shown(turns, candidate=1):
    return difference(compute_ratio(turns.times_ms[0], turns.times_ms[candidate]))


@pytest.mark.slow
def test_a_ratio_is_found_in_turns_of_random_order(run):
    outcome, machines = run(RIGHT, RIGHT, usual_ms=(100.0, 105.0))
    (turns,) = outcome.turns
    ratio = compute_ratio(*turns.times_ms)
    assert ratio.low < 1.05 < ratio.high
    assert ratio.value == pytest.approx(1.05, rel=0.002)
    assert shown(turns) is Difference.SLOWER
    assert (turns.unstable, turns.notes, outcome.errors) == ((), (), ())
    assert set(turns.orders) == {(0, 1), (1, 0)}
    count = len(turns.orders)
    assert count in (60, 120, 240)
    assert [len(times) for times in turns.times_ms] == [count, count]
    base, candidate = (machine.all_timers[0].inputs for machine in machines)
    assert base == candidate  # the same inputs in a turn
    assert len(set(base)) == 2
    protocol = outcome.protocol
    assert (protocol.method, protocol.l2, protocol.flush) == ("cupti", "cold", "not at all")
    assert (protocol.samples, protocol.warmup_calls, protocol.seed) == (count, 10, 5)
    assert turns.conditions.sm_clock_mhz == 1410.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "gpu", [{"drift": 0.4}, {"second": 0.05}, {"drift": 0.3, "second": 0.02, "noise": 0.01}]
)
def test_neither_a_falling_clock_nor_the_place_in_a_turn_makes_a_claim(run, gpu):
    outcome, _ = run(RIGHT, RIGHT, usual_ms=(100.0, 100.0), gpu=Gpu(**gpu), precision=0.005)
    assert shown(outcome.turns[0]) is Difference.NOT_SHOWN


def test_a_small_difference_shows_through_a_falling_clock(run):
    gpu = Gpu(drift=0.3)
    outcome, _ = run(RIGHT, RIGHT, usual_ms=(100.0, 98.0), gpu=gpu)
    assert shown(outcome.turns[0]) is Difference.FASTER


@pytest.mark.slow
def test_many_candidates_and_one_base(run):
    kernels, times = [RIGHT] * 4, (100.0, 100.0, 90.0, 120.0)
    outcome, _ = run(*kernels, usual_ms=times, gpu=Gpu(sides=4))
    (turns,) = outcome.turns
    assert [shown(turns, n) for n in (1, 2, 3)] == [
        Difference.NOT_SHOWN,
        Difference.FASTER,
        Difference.SLOWER,
    ]
    firsts = Counter(order[0] for order in turns.orders)
    assert set(firsts) == {0, 1, 2, 3}


@pytest.mark.slow
def test_turns_stop_when_the_ratio_is_sure_or_the_time_is_spent(run):
    def count(**options):
        outcome, _ = run(RIGHT, RIGHT, usual_ms=(100.0, 100.0), **options)
        return len(outcome.turns[0].orders)

    assert count(gpu=Gpu(noise=0.001)) == 60
    assert count(gpu=Gpu(noise=0.01), precision=0.002) in (120, 240, 480)
    assert count(gpu=Gpu(noise=0.5), budget_s=0.0) == 60


@pytest.mark.slow
def test_repeats_are_comparisons_of_their_own(run):
    outcome, machines = run(RIGHT, RIGHT, usual_ms=(100.0, 100.0), repeats=3)
    assert len(outcome.turns) == 3
    assert len({turns.times_ms for turns in outcome.turns}) == 3
    total = sum(len(turns.orders) for turns in outcome.turns)
    assert outcome.protocol.samples == total
    assert len(machines[0].all_timers[0].inputs) == total + 3 * 10  # each warms up anew


@pytest.mark.slow
def test_a_throttled_gpu_makes_it_unstable(run):
    start = time.monotonic()  # the machine is too hot for 100 s from now on
    heated = [Sample(start + i / 200, 1410.0, reasons=0x40) for i in range(20_000)]
    mine = Machine(Timer(None, 1.0), heated=heated)
    outcome, _ = run(RIGHT, RIGHT, usual_ms=(100.0, 100.0), mine=mine)
    (turns,) = outcome.turns
    assert "hardware thermal slowdown" in turns.unstable[0]
    assert len(turns.orders) >= 60


@pytest.mark.slow
def test_a_turn_is_left_out_as_a_whole(run, monkeypatch):
    from solkit.measure.timing import alternating_comparison as comparison
    from solkit.measure.timing.clocks import Screening

    def screen(intervals, _samples):
        assert all(one.end_s <= other.start_s for one, other in pairwise(intervals))
        return Screening((False, *[True] * (len(intervals) - 1)), ("power brake",))

    monkeypatch.setattr(comparison, "screen_calls", screen)
    outcome, _ = run(RIGHT, RIGHT, usual_ms=(100.0, 100.0), gpu=Gpu(noise=0.0))
    (turns,) = outcome.turns
    assert [len(times) for times in turns.times_ms] == [59, 59]
    assert turns.notes == ("1 throttled turns left out (power brake).",)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ((RIGHT, "def kernel(x): return x * 2 + 1"), "candidate: output 0: 16 of 16 elements"),
        (("def kernel(x): return x * 2 + 1", RIGHT), "base: output 0: 16 of 16 elements"),
        ((RIGHT, RIGHT, "def kernel(x): raise ValueError('no')"), "candidate 2: running the can"),
    ],
)
def test_a_candidate_that_fails_is_named_and_nothing_is_timed(run, kernels, message):
    outcome, machines = run(*kernels, usual_ms=[100.0] * len(kernels))
    assert outcome.turns == ()
    assert outcome.protocol is None
    assert outcome.errors[0].startswith(message)
    assert outcome.verdict in (Verdict.WRONG, Verdict.CRASHED)
    assert outcome.failed == [kernel == RIGHT for kernel in kernels].index(False)
    assert not machines[0].all_timers[0].inputs


@pytest.mark.slow
def test_outputs_of_timed_calls_are_checked(run, monkeypatch):
    monkeypatch.setattr("solkit.measure.timing.alternating_comparison._LOOKS", 1.0)
    lazy = """
calls = []
def kernel(x):
    calls.append(1)
    return x * 2 if len(calls) < 20 else torch.zeros_like(x)
"""
    outcome, _ = run(RIGHT, lazy, usual_ms=(100.0, 50.0))
    assert outcome.turns == ()
    assert outcome.errors[0].startswith("candidate: ")
    assert outcome.errors[0].endswith("(a timed call)")


@pytest.mark.slow
def test_a_candidate_that_waits_for_the_gpu_is_not_to_be_relied_upon(run):
    waiting = "import time\ndef kernel(x):\n    time.sleep(0.02)\n    return x * 2\n"
    gpu = Gpu(noise=0.0)
    outcome, _ = run(RIGHT, waiting, usual_ms=(5.0, 5.0), gpu=gpu)
    # where this machine is busy the base may wait as well
    (evidence,) = [why for why in outcome.turns[0].unstable if why.startswith("candidate: ")]
    assert evidence.startswith("candidate: Timed by the referee's clock")


@pytest.mark.slow
def test_one_timer_is_used_throughout(run):
    def timers(gpu, usual_ms):
        return Timer(gpu, usual_ms, fails=True), Timer(gpu, usual_ms, "events")

    gpu = Gpu()
    theirs = [Machine(*timers(gpu, 100.0)) for _ in range(2)]
    outcome, _ = run(RIGHT, RIGHT, usual_ms=(), theirs=theirs, mine=Machine(*timers(gpu, 1.0)))
    assert outcome.protocol.method == "events"
    assert outcome.turns[0].notes == ("not timed by cupti: no GPU activity",)
    theirs = [Machine(Timer(gpu, 100.0, fails=True)) for _ in range(2)]
    with pytest.raises(WorkerError, match="no way of timing works here: not timed by cupti"):
        run(RIGHT, RIGHT, usual_ms=(), theirs=theirs)


def test_a_file_at_fault_is_the_callers(run):
    with pytest.raises(KernelFileError, match="no kernel to measure"):
        run(RIGHT, "", usual_ms=(100.0, 100.0))


def test_kernels_that_write_into_their_inputs(run):
    head = 'OUTPUTS = ("x",)\n' + HEAD.replace("return x * 2", "x.mul_(2)")
    kernel = "def kernel(x): x.add_(x.clone())"
    outcome, _ = run(kernel, kernel, usual_ms=(100.0, 100.0), head=head)
    assert len(outcome.turns) == 1


def test_slow_problems_get_turns_enough_for_an_interval():
    request = ComparisonRequest((), 0.002, 1.5)
    assert plan_turns(request, 2.0) == SamplingPlan(1, 8, 1000, 0.002, 1.5)
    assert plan_turns(request, 0.1) == SamplingPlan(10, 20, 1000, 0.002, 1.5)
    assert plan_turns(request, 0.001) == SamplingPlan(10, 60, 1000, 0.002, 1.5)


def test_messages_survive_the_way():
    candidate = Request("k.py", None, {"M": 4, "dtype": "bfloat16"}, {"B": 64}, 5.0, 3)
    request = ComparisonRequest((candidate, candidate), 0.002, 1.0, 3)
    assert decode(ComparisonRequest, encode(request)) == request
    turns = Turns(((1.0, 2.0), (3.0, 4.0)), ((0, 1), (1, 0)), None, ("hot",), ("b",))
    outcome = JudgedTurns((turns,), ("a",))
    assert decode(JudgedTurns, encode(outcome)) == outcome
