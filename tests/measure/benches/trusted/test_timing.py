"""The course of a handful, on the CPU: the machine and its timer are fake."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch
from recordings import outcome

sys.path.insert(0, str(Path(__file__).parents[3] / "kernelfiles"))
from folders import sol_folder, workload

from solkit.core import Verdict
from solkit.measure.benches.trusted import timing
from solkit.measure.benches.trusted.timing import (
    NOTHING_CALLED,
    Handful,
    Lost,
    _LostError,
    _Timing,
)
from solkit.measure.timing.activities import ActivityError, CallTime
from solkit.measure.timing.clocks import Sample, summarise_samples
from solkit.roofline import devices

SCALE = """
import torch

SHAPES = [{"N": 8}]
SPACE = {"HOW": ["right", "wrong", "raises", "idle", "slow"]}
done = []

def reference(x):
    return x * 2

def inputs(N=8, device="cuda"):
    return torch.randn(N, device=device)

def kernel(x, *, HOW="right"):
    done.append(HOW)
    if HOW == "raises":
        raise ValueError("no such way")
    if HOW == "idle":
        return torch.empty_like(x)
    return x * (3 if HOW == "wrong" else 2)
"""

IN_PLACE = """
import torch

SHAPES = [{"N": 8}]
SPACE = {"TIMES": [2, 3]}
OUTPUTS = ("x",)

def reference(x):
    x.mul_(2)

def inputs(N=8, device="cuda"):
    return torch.randn(N, device=device)

def kernel(x, *, TIMES=2):
    x.mul_(TIMES)
"""


DEVICE = replace(devices.find("h100-sxm"), uuid="GPU-0")
DRAFT = outcome(0, verdict=Verdict.NOT_MEASURED, time_ms=None, samples_ms=(), first_call_s=None)
BETWEEN = 2**-10  # of launches, in ms


class FakeMachine:
    """Its only timer makes each call; the n-th of a subject takes n ms."""

    device, method = "cpu", "fake"

    def __init__(self):
        self.broken = self.deaf = False
        self.stalls = []  # of rounds to come, in ms
        self.calls = []
        self.rounds = []  # the calls of each

    def synchronize(self):
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def timers(self, _protocol=None):
        return (self,), "not at all"

    def conditions(self):
        samples = summarise_samples([Sample(0.0, sm_clock_mhz=1980.0)])
        return contextlib.nullcontext(type("Seen", (), {"conditions_since": lambda _: samples})())

    def start(self):
        self.calls = []
        self.rounds.append(self.calls)

    def time(self, subject):
        subject.prepare()()
        self.calls.append(subject.name)

    def stop(self):
        if self.deaf:
            raise ActivityError("no GPU activity")
        turns = [self.calls[: n + 1].count(name) for n, name in enumerate(self.calls)]
        stall_ms = self.stalls.pop(0) if self.stalls else 0.0
        return [CallTime(turn + stall_ms, turn - BETWEEN) for turn in turns]


def handful(path, choices):
    return Handful(str(path), None, {"N": 8}, [replace(DRAFT, params=choice) for choice in choices])


@pytest.fixture(autouse=True)
def calls_are_short(monkeypatch):
    """However busy this machine is."""
    monkeypatch.setattr(timing, "_SHORT_MS", 1e6)
    monkeypatch.setattr(timing, "_LONGEST_MS", 1e6)


@pytest.fixture
def machine():
    return FakeMachine()


@pytest.fixture
def said():
    return []


@pytest.fixture
def try_(tmp_path, machine, said):
    def try_(*choices, text=SCALE):
        path = tmp_path / "file.py"
        path.write_text(dedent(text))
        timing = _Timing(said.append, machine)
        results = timing.outcomes(handful(path, choices))
        assert pickle.loads(pickle.dumps(results)) == results  # it crosses to another process
        assert [dict(result.params) for result in results] == list(choices)
        return results

    return try_


def ways(*names):
    return [{"HOW": name} for name in names]


def test_what_is_right_is_timed_in_turns_and_what_is_not_says_why(try_, machine):
    first, wrong, raises, last = try_(*ways("right", "wrong", "raises", "right"))
    for right in (first, last):
        assert (right.verdict, right.message, right.max_error) == (Verdict.CORRECT, None, 0.0)
        # the first of ten turns does not count
        assert right.samples_ms == tuple(float(n) for n in range(2, 11))
        assert (right.warmup_calls, right.time_ms, right.kernel_sum_ms) == (1, 6.0, 6.0 - BETWEEN)
        assert right.low_ms <= 6.0 <= right.high_ms
        assert (right.method, right.clock_mhz) == ("fake", 1980.0)
        assert right.dtypes == ("float32", "float32")
        assert right.first_call_s > 0
    calls = machine.rounds[0]
    assert set(calls) == {"0", "3"}
    assert len({tuple(calls[n : n + 2]) for n in range(0, 20, 2)}) == 2  # both orders
    assert wrong.verdict is Verdict.WRONG
    assert "8 of 8 elements" in wrong.message
    assert wrong.max_error > 0
    assert (raises.verdict, raises.message) == (
        Verdict.CRASHED,
        "running it: ValueError: no such way",
    )
    assert wrong.time_ms is raises.time_ms is None


def test_what_writes_nothing_finds_no_results_of_another(try_):
    assert [item.verdict for item in try_(*ways("right", "idle", "right", "idle"))] == [
        *(Verdict.CORRECT, Verdict.WRONG, Verdict.CORRECT, Verdict.WRONG)
    ]


def test_long_calls_are_timed_fewer_times(try_, monkeypatch):
    monkeypatch.setattr(timing, "_SHORT_MS", 0.0)
    (right,) = try_(*ways("right"))
    assert right.samples_ms == (2.0, 3.0, 4.0)
    assert right.warmup_calls == 1


@pytest.mark.parametrize(("limit_ms", "count"), [(None, 3), (1e-9, 1), (1e9, 3)])
def test_a_long_call_beyond_what_is_of_interest_is_timed_once(
    tmp_path, machine, monkeypatch, limit_ms, count
):
    monkeypatch.setattr(timing, "_SHORT_MS", 0.0)
    path = tmp_path / "file.py"
    path.write_text(SCALE)
    changed_handful = replace(handful(path, ways("right")), hopeless_ms=limit_ms)
    (right,) = _Timing(lambda _: None, machine).outcomes(changed_handful)
    assert len(right.samples_ms) == count
    assert right.verdict is Verdict.CORRECT


def test_a_short_call_is_never_hopeless(tmp_path, machine):
    path = tmp_path / "file.py"
    path.write_text(SCALE)
    changed_handful = replace(handful(path, ways("right")), hopeless_ms=1e-9)
    (right,) = _Timing(lambda _: None, machine).outcomes(changed_handful)
    assert len(right.samples_ms) == 9


@pytest.mark.slow
def test_another_seed_draws_other_inputs(tmp_path, machine):
    path = tmp_path / "file.py"
    path.write_text(SCALE)
    changed_handfuls = [replace(handful(path, ways("right")), seed=seed) for seed in (0, 0, 1)]
    inputs_digests = [
        _Timing(lambda _: None, machine).outcomes(changed_handful)[0].inputs_digest
        for changed_handful in changed_handfuls
    ]
    assert inputs_digests[0] == inputs_digests[1] != inputs_digests[2]


@pytest.mark.parametrize(
    ("stalls", "time_ms"), [([2.0], 6.0), ([2.0, 1.0], 7.0), ([1.0, 2.0], 7.0)]
)
def test_what_a_stalled_host_held_up_is_timed_once_more(try_, machine, stalls, time_ms):
    machine.stalls = stalls
    (tried,) = try_({"HOW": "right"})
    assert tried.time_ms == pytest.approx(time_ms)  # the median of the calls 2 to 10
    assert tried.kernel_sum_ms == 6.0 - BETWEEN
    assert len(tried.samples_ms) == 9


def test_long_and_short_calls_have_rounds_of_their_own(try_, monkeypatch):
    checked = _Timing._check_candidate

    def slowly(self, draft, *arguments):
        result, call_ms = checked(self, draft, *arguments)
        return result, 2e6 if draft.params["HOW"] == "slow" else call_ms

    monkeypatch.setattr(_Timing, "_check_candidate", slowly)
    short, long = try_(*ways("right", "slow"))
    assert (len(short.samples_ms), len(long.samples_ms)) == (9, 3)


def test_a_kernel_that_works_in_place_starts_from_the_same_each_time(try_):
    choices = [{"TIMES": 2}, {"TIMES": 3}, {"TIMES": 2}]
    results = try_(*choices, text=IN_PLACE)
    assert [result.verdict for result in results] == [
        Verdict.CORRECT,
        Verdict.WRONG,
        Verdict.CORRECT,
    ]
    assert results[2].time_ms == 6.0


SPOILS = """
import torch

SHAPES = [{"N": 8}]
SPACE = {"HOW": ["right", "spoils", "spoils the reference"]}
seen = []

def reference(x):
    seen.append(x * 2)
    return seen[-1]

def inputs(N=8, device="cuda"):
    return torch.randn(N, device=device)

def kernel(x, *, HOW="right"):
    out = x * 2
    if HOW == "spoils":
        x[3] = 0.5
    if HOW == "spoils the reference":
        seen[-1][3] = 0.5
    return out
"""


@pytest.mark.parametrize("how", ["spoils", "spoils the reference"])
def test_one_that_writes_where_others_read_spoils_none_of_them(try_, said, how):
    results = try_(*ways("right", how, "right"), text=SPOILS)
    assert [result.verdict for result in results] == [
        Verdict.CORRECT,
        Verdict.WRONG,
        Verdict.CORRECT,
    ]
    assert "outside its outputs" in results[1].message
    assert (results[0].time_ms, results[1].time_ms, results[2].time_ms) == (6.0, None, 6.0)
    assert said[:5] == [0, 1, 2, 0, 0]  # and on its own, with its calls that are timed


BUILT_ONCE = """
import torch
from tilelang.autotuner.tuner import AutoTuneImpl

SHAPES = [{"N": 8}]
times = AutoTuneImpl([{"TIMES": 2}, {"TIMES": 3}])

def reference(x):
    return x * 2

def inputs(N=8, device="cuda"):
    return torch.ones(N, device=device)

def kernel(x):
    return x * times(len(x))
"""


class KeepsOneKernel:
    """Chooses at the first call with some arguments, and keeps that, as TileLang's tuner does."""

    def __init__(self, configs):
        self.configs, self.jit_impl, self._tuner_cache = configs, SimpleNamespace(func=max), {}

    def __call__(self, *args):
        return self._tuner_cache.setdefault(args, self.configs[0])["TIMES"]


def test_configurations_of_a_tuner_that_keeps_its_kernel_are_told_apart(try_, monkeypatch):
    tuner = SimpleNamespace(AutoTuneImpl=KeepsOneKernel)
    tilelang = SimpleNamespace(autotune=max, autotuner=SimpleNamespace(tuner=tuner), __path__=[])
    monkeypatch.setitem(sys.modules, "tilelang", tilelang)
    monkeypatch.setitem(sys.modules, "tilelang.autotuner", tilelang.autotuner)
    monkeypatch.setitem(sys.modules, "tilelang.autotuner.tuner", tuner)
    results = try_({"TIMES": 2}, {"TIMES": 3}, {"TIMES": 2}, text=BUILT_ONCE)
    assert [result.verdict for result in results] == [
        Verdict.CORRECT,
        Verdict.WRONG,
        Verdict.CORRECT,
    ]


@pytest.mark.slow
def test_inputs_are_the_same_on_every_machine(try_):
    a, b = (try_({"HOW": "wrong"})[0].max_error for _ in range(2))
    assert a == b


def test_the_number_of_a_configuration_is_said_before_each_call(try_, said):
    try_(*ways("right", "raises", "right"))
    assert said[:3] == [0, 1, 2]
    assert sorted(said[3:-1]) == [0] * 10 + [2] * 10
    assert said[-1] == NOTHING_CALLED  # but the reference, which is no one's fault


@pytest.mark.parametrize("what", ["reference(x)", "inputs(N=8, device='')"])
def test_a_problem_that_fails_fails_for_all(try_, said, what):
    text = f"{SCALE}\n\ndef {what}:\n    raise ValueError('no such op')\n"
    results = try_(*ways("right", "wrong"), text=text)
    assert [result.verdict for result in results] == [
        Verdict.NOT_MEASURED
    ] * 2  # no fault of theirs
    assert results[1].message.startswith("loading it, its inputs or its reference: ")
    assert "no such op" in results[1].message
    assert said == []


def test_where_nothing_can_time_what_is_known_is_kept(try_, machine):
    machine.deaf = True
    wrong, right, other = try_(*ways("wrong", "right", "right"))
    assert wrong.verdict is Verdict.WRONG
    for item in (right, other):
        assert (item.verdict, item.time_ms) == (Verdict.NOT_MEASURED, None)  # no fault of theirs
        assert "not timed by fake: no GPU activity" in item.message
        assert (item.max_error, item.dtypes) == (0.0, ("float32", "float32"))
        assert item.first_call_s > 0


FAILS_LATER = """
import errno
import torch

SHAPES = [{"N": 8}]
SPACE = {"HOW": ["right", "is too large", "finds the disk full"]}
called = []

def reference(x):
    return x * 2

def inputs(N=8, device="cuda"):
    return torch.randn(N, device=device)

def kernel(x, *, HOW="right"):
    called.append(HOW)
    if called.count(HOW) > 2:  # it was right, and is being timed
        if HOW == "is too large":
            raise torch.OutOfMemoryError("CUDA out of memory")
        if HOW == "finds the disk full":
            raise OSError(errno.ENOSPC, "No space left on device")
    return x * 2
"""


@pytest.mark.parametrize(
    ("how", "verdict"),
    [
        ("is too large", Verdict.OUT_OF_MEMORY),
        ("finds the disk full", Verdict.NOT_MEASURED),
    ],
)
def test_one_that_fails_while_it_is_timed_costs_no_other_its_time(try_, how, verdict):
    before, failed, after = try_(*ways("right", how, "right"), text=FAILS_LATER)
    for right in (before, after):
        assert (right.verdict, right.time_ms, right.message) == (Verdict.CORRECT, 6.0, None)
    assert (failed.verdict, failed.time_ms, failed.samples_ms) == (verdict, None, ())
    assert failed.message.startswith("timing it: O")
    assert (failed.max_error, failed.dtypes) == (0.0, ("float32", "float32"))


def test_a_failure_that_does_not_come_again_costs_nothing(try_, machine, monkeypatch):
    stop, failures = machine.stop, [RuntimeError("NVML: unknown error")]

    def fails_once():
        if failures:
            raise failures.pop()
        return stop()

    monkeypatch.setattr(machine, "stop", fails_once)
    results = try_(*ways("right", "right"))
    assert [(result.verdict, result.time_ms) for result in results] == [(Verdict.CORRECT, 6.0)] * 2


def test_what_breaks_the_gpu_ends_it(try_, machine, said):
    machine.broken = True
    with pytest.raises(_LostError) as error:
        try_(*ways("raises", "right"))
    (lost,) = error.value.args
    assert isinstance(lost, Lost)
    assert (lost.outcome.verdict, said) == (Verdict.CRASHED, [0])


COUNTS = """
import time
import torch

SHAPES = [{"N": 8}, {"N": 4}]
SPACE = {"HOW": ["right", "wrong"]}
called = []

def reference(x):
    called.append(x)
    if FAILS and len(called) == 2:  # when it is to be timed
        raise RuntimeError("no")
    time.sleep(SLEEPS_S)
    return x * 2

def inputs(N=8, device="cuda"):
    return torch.randn(N, device=device)

def kernel(x, *, HOW="right"):
    return x * (3 if HOW == "wrong" else 2)
"""


def counting(path, fails=False, sleeps_s=0.0):
    path.write_text(f"FAILS, SLEEPS_S = {fails}, {sleeps_s}\n{COUNTS}")
    return path


def test_the_reference_is_timed_once_per_shape_for_all_that_have_a_time(tmp_path, machine):
    path, trying = counting(tmp_path / "file.py"), _Timing(lambda _: None, machine)
    first = trying.outcomes(handful(path, ways("right", "wrong", "right")))
    # the first of six calls does not count
    want = (2.0, 3.0, 4.0, 5.0, 6.0)
    assert [item.reference_samples_ms for item in first] == [want, (), want]
    assert [item.reference_ms for item in first] == [4.0, None, 4.0]
    assert machine.rounds[-1] == ["reference"] * 6
    rounds = len(machine.rounds)
    (again,) = trying.outcomes(handful(path, ways("right")))
    assert (again.reference_ms, len(machine.rounds)) == (4.0, rounds + 1)  # of the kernel only
    other = replace(handful(path, ways("right")), shape={"N": 4})
    assert trying.outcomes(other)[0].reference_ms == 4.0
    assert len(machine.rounds) == rounds + 3


@pytest.mark.parametrize("how", [{"fails": True}, {"sleeps_s": 0.06}])
def test_a_reference_that_is_slow_or_fails_has_no_time(tmp_path, machine, monkeypatch, how):
    monkeypatch.setattr(timing, "_LONGEST_MS", 50.0)
    path, trying = counting(tmp_path / "file.py", **how), _Timing(lambda _: None, machine)
    for _ in range(2):
        (right,) = trying.outcomes(handful(path, ways("right")))
        assert (right.verdict, right.time_ms) == (Verdict.CORRECT, 6.0)
        assert (right.reference_ms, right.reference_samples_ms) == (None, ())
    assert all("reference" not in calls for calls in machine.rounds)


def test_a_reference_timed_in_another_way_is_not_compared(tmp_path, machine):
    path, trying = counting(tmp_path / "file.py"), _Timing(lambda _: None, machine)
    trying.outcomes(handful(path, ways("right")))
    machine.method = "another"
    (right,) = trying.outcomes(handful(path, ways("right")))
    assert (right.method, right.time_ms, right.reference_ms) == ("another", 6.0, None)


def test_what_writes_to_an_argument_has_a_reference_s_time_too(try_):
    assert try_({"TIMES": 2}, text=IN_PLACE)[0].reference_ms == 4.0


def test_a_tolerance_of_the_file_s_own(try_):
    near = SCALE.replace("3 if HOW", "2.02 if HOW")
    assert try_(*ways("wrong"), text=near)[0].verdict is Verdict.WRONG
    loose = f"TOLERANCE = {{'rtol': 0.1, 'atol': 0.0}}\n{near}"
    assert try_(*ways("wrong"), text=loose)[0].verdict is Verdict.CORRECT


class Line:
    """The other end of a connection."""

    def __init__(self, *handfuls):
        self.left, self.told = [*handfuls], []
        self.machine, self.rounds = None, []

    def recv(self):
        self.rounds.append(len(self.machine.rounds))
        if not self.left:
            raise EOFError
        return self.left.pop(0)

    send = property(lambda self: self.told.append)


def test_warming_up_times_a_product_and_calls_no_configuration(machine, said, monkeypatch):
    started = []
    monkeypatch.setattr("solkit.adapters.live_triton.start_driver", lambda: started.append(1))
    _Timing(said.append, machine).warm_up()
    assert (len(machine.rounds), said, started) == (1, [], [1])


def test_serving(tmp_path, monkeypatch, machine):
    path = tmp_path / "file.py"
    path.write_text(SCALE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("SOLKIT_TEST", "")  # what is set is taken back
    monkeypatch.setattr("solkit.measure.timing.machine.CudaMachine", lambda: machine)
    monkeypatch.setattr(_Timing, "environment", lambda _: "what it runs on")
    line = Line(handful(path, ways("wrong")))
    line.machine = machine
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process hears Ctrl-C
    called = [NOTHING_CALLED, 0]
    timing.serve(line, called, DEVICE, {"SOLKIT_TEST": "there"})
    assert os.environ["SOLKIT_TEST"] == "there"
    assert called == [0, 1]
    assert line.told[0] == "what it runs on"
    assert line.rounds[0] == 1  # it warms up before any handful
    assert [item.verdict for item in line.told[1]] == [Verdict.WRONG]


def test_without_configurations_the_file_is_loaded_and_nothing_runs(tmp_path, said, machine):
    path = tmp_path / "file.py"
    path.write_text(SCALE)
    timing_ = _Timing(said.append, machine)
    assert timing_.outcomes(replace(handful(path, ways("right")), drafts=())) == []
    assert (said, machine.calls) == ([], [])
    assert list(timing_._loaded) == [(str(path), None)]


# ------------------------------------------------------------------------------------ as deployed

ADD = """
import torch

SHAPES = [{"N": 8}]
SPACE = {"HOW": ["right"]}

def reference(x, y):
    return x + y.view(torch.float32)

def inputs(N=8, device="cuda"):
    x = torch.randn(2 * N, device=device)
    return x[::2], x[1::2].clone().view(torch.int32)

def kernel(x, y, *, HOW="right"):
    return x + y.view(torch.float32)
"""


class DeployedMachine(FakeMachine):
    """Notes what it is asked for, and in which order."""

    def __init__(self, can_capture=True):
        super().__init__()
        self.can_capture, self.protocols, self.seen = can_capture, [], []

    def timers(self, protocol=None):
        self.protocols.append(protocol)
        return (self,), "flushed"

    def capture_graph(self, work):
        if not self.can_capture:
            raise ActivityError("it cannot be captured in a CUDA graph")
        return lambda: (self.seen.append("replay"), work())

    def time(self, subject):
        before = subject.warming()
        call = subject.prepare()
        before()
        self.seen.append("call")
        call()
        self.calls.append(subject.name)


def deployed(tmp_path, machine, monkeypatch, l2, launched, resident):
    path = tmp_path / "file.py"
    path.write_text(ADD)
    monkeypatch.setattr(
        timing, "_read_tensor", lambda tensor: machine.seen.append(tuple(tensor.stride()))
    )
    request = handful(path, ways("right"))
    draft = replace(request.drafts[0], l2=l2, launched=launched, flush="flushed")
    request = replace(request, drafts=[draft], resident=resident)
    (outcome,) = _Timing(lambda _: None, machine).outcomes(request)
    assert outcome.verdict is Verdict.CORRECT
    return outcome


def test_tensors_that_launches_before_leave_in_l2_are_read_before_each_call(tmp_path, monkeypatch):
    machine = DeployedMachine()
    result = deployed(tmp_path, machine, monkeypatch, "replayed", "eager", ("x",))
    assert machine.seen[:4] == [(2,), "call"] * 2  # x, which is every second element
    assert (result.protocol, result.l2, result.launched) == ("replayed", "replayed", "eager")
    assert result.flush.startswith("flushed; then a read of x")
    assert result.reference_ms is not None  # taken in the same way


def test_what_a_graph_launches_is_timed_in_a_graph(tmp_path, monkeypatch):
    machine = DeployedMachine()
    result = deployed(tmp_path, machine, monkeypatch, "warm", "graph", ("y", "x"))
    assert machine.seen[:4] == [(1,), (2,), "call", "replay"]
    assert (result.protocol, result.launched) == ("warm-graph", "graph")


def test_what_cannot_be_captured_is_timed_eagerly_and_says_so(tmp_path, monkeypatch):
    machine = DeployedMachine(can_capture=False)
    result = deployed(tmp_path, machine, monkeypatch, "cold", "graph", ())
    assert machine.seen[0] == "call"
    assert (result.protocol, result.launched, result.flush) == ("cold", "eager", "flushed")


@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn", "bfloat16", "int64", "complex64"])
def test_tensors_of_any_type_can_be_read(dtype):
    tensor = torch.zeros(6, 4, dtype=getattr(torch, dtype))
    timing._read_tensor(tensor[::2].t())
    timing._read_tensor(tensor[:0])
    conjugated = torch.ones(4, dtype=torch.complex64).conj()
    timing._read_tensor(conjugated)
    assert not tensor.view(torch.uint8).any()  # it only reads
    assert torch.equal(conjugated, torch.ones(4, dtype=torch.complex64))


SOLUTION = """
SPACE = {"TIMES": [3.0, 4.0]}

def kernel(x, factor, y, *, TIMES=3.0):
    y.copy_(x * TIMES)

def run(x, factor, y, **params):
    kernel(x, factor, y, **params)
"""


def test_solutions_write_their_own_outputs_and_are_checked_as_the_benchmark_does(tmp_path, machine):
    folder = sol_folder(tmp_path / "p", [workload("a", M=8)])
    path = tmp_path / "mine.py"
    path.write_text(SOLUTION)
    drafts = [replace(DRAFT, params={"TIMES": times}) for times in (3.0, 3.02, 4.0)]
    results = _Timing(lambda _: None, machine).outcomes(
        Handful(str(path), folder, {"M": 8}, drafts)
    )
    # the benchmark allows 1 % of each element and .01
    verdicts = [Verdict.CORRECT, Verdict.CORRECT, Verdict.WRONG]
    assert [result.verdict for result in results] == verdicts
    assert results[0].time_ms == results[1].time_ms == 6.0
