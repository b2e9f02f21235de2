"""Real processes, on the CPU, where candidates are checked but not timed."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from textwrap import dedent

import pytest

from solkit.core import (
    Candidate,
    Conditions,
    Depth,
    Facts,
    KernelAnalysis,
    Launch,
    Measurement,
    MeasureSettings,
    Occupancy,
    Protocol,
    Verdict,
)
from solkit.errors import InputError, KernelFileError, ParamsError, ShapeError, UnsupportedError
from solkit.measure import Judgement, Session, is_available, measure
from solkit.measure.checking.faults import ALL_DISTRIBUTIONS, CandidateError, ContextLostError
from solkit.measure.guarded import processes
from solkit.measure.guarded.excuses import OriginalFailures
from solkit.measure.guarded.messages import Request, Samples, decode, encode
from solkit.measure.guarded.remote import Remote
from solkit.measure.guarded.session import Wait, visible_gpu
from solkit.processes.channel import Channel, connected_pair

HEAD = """
import torch

def inputs(N=16, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2
"""
WRONG = "def kernel(x): return x * 2 + 1"  # wrong at every element, whatever is drawn


@pytest.fixture
def write(tmp_path):
    def write(kernel, head=HEAD):
        path = tmp_path / "mine.py"
        path.write_text(head + dedent(kernel))
        return str(path)

    return write


@pytest.fixture(scope="module")
def session():
    with Session(MeasureSettings(host_bytes=1 << 30), device="cpu") as session:
        yield session


@pytest.fixture
def check(session, write):
    """Measure a kernel, then a wrong one, which must be recognised whatever came before."""

    def check(kernel, head=HEAD, **options):
        settings = replace(session.settings, **options)
        outcome = session.measure(write(kernel, head), {}, {}, settings=settings)
        after = session.measure(write(WRONG), {}, {})
        assert after.verdict is Verdict.WRONG, after
        return outcome

    return check


def when_reached(stage, try_, limit_s):
    """The outcome under a time limit, and that limit: a longer one if the stage was not reached.

    On a busy machine a short limit may pass before the candidate runs.
    """
    for longer in (1, 4, 16):
        outcome = try_(longer * limit_s)
        if stage in outcome.errors[0]:
            break
    return outcome, longer * limit_s


def test_messages_survive_the_way():
    launch = Launch(
        "k", (3, 2, 1), 4, 3, 1, {"BLOCK": 64, "CAUSAL": True, "x": None}, {"x": "*fp32"}
    )
    facts = Facts(launch, Depth.COMPILED, 32, 0, 1024, True)
    kernel = KernelAnalysis(facts, Occupancy(0.5, "registers", 4, 2.5, 0.83))
    measurement = Measurement(
        1.5, 1.4, 1.6, None, 2.0, "events", float("inf"), 20, 1980.0, (kernel,)
    )
    protocol = Protocol("events", "cold", "read", 13, 20, 120.0, 0)
    samples = Samples((1.5, 1.4), (2.0, 2.0), Conditions(samples=1, reasons={"idle": 0.5}))
    outcome = Judgement(Verdict.CORRECT, ("a\nb", "ü"), protocol, measurement, samples)
    assert decode(Judgement, encode(outcome)) == outcome
    shape = {"M": 4096, "p": 0.5, "dtype": "bfloat16", "causal": True}
    request = Request("k.py", None, shape, {}, 5.0, 3)
    again = decode(Request, encode(request))
    assert again == request
    assert [type(v) for v in again.shape.values()] == [int, float, str, bool]


@pytest.mark.slow
def test_many_candidates_share_the_processes(session, write):
    session.measure(write(WRONG), {}, {})
    before = session._processes.referee.pid, session._processes.candidates[0].pid
    for factor in range(3, 8):
        outcome = session.measure(write(f"def kernel(x): return x * {factor}"), {}, {})
        assert outcome.verdict is Verdict.WRONG
    assert (session._processes.referee.pid, session._processes.candidates[0].pid) == before


@pytest.mark.slow
def test_a_process_has_so_many_candidates_and_no_more(session, write, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.processes._MOST_SERVED", 2)
    for place in list(session._processes.candidates):  # there is none if this test comes first
        session._processes.replace_candidate(place)
    pids = []
    for _ in range(4):
        assert session.measure(write(WRONG), {}, {}).verdict is Verdict.WRONG
        pids.append(session._processes.candidates[0].pid)  # the one that is ready for the next
    assert pids[0] != pids[1] == pids[2] != pids[3]


@pytest.mark.slow
def test_so_has_a_referee(session, write, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.processes._MOST_JUDGED", 2)
    session.close()
    pids = []
    for _ in range(4):
        assert session.measure(write(WRONG), {}, {}).verdict is Verdict.WRONG
        pids.append(session._processes.referee.pid)
    assert pids[0] == pids[1] != pids[2] == pids[3]


REMEMBERING = """
import hashlib, pathlib, torch
kept = pathlib.Path(__file__).with_name("kept")
kept.mkdir(exist_ok=True)

def place(x):
    return kept / hashlib.sha256(x.numpy().tobytes()).hexdigest()
"""


def test_what_one_candidate_leaves_is_of_no_use_to_the_next(session, write, tmp_path):
    """Answers by the values of the inputs: such as a cache on disk, or two in league."""
    problem = tmp_path / "problem.py"
    problem.write_text(HEAD)
    keeps = "def kernel(x):\n    torch.save(x + x, place(x))\n    return x + x\n"
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):
        session.measure(write(keeps, REMEMBERING), {}, {}, reference=str(problem))
    assert len(list((tmp_path / "kept").iterdir())) > 5
    looks_up = "def kernel(x): return torch.load(place(x))"
    outcome = session.measure(write(looks_up, REMEMBERING), {}, {}, reference=str(problem))
    assert outcome.verdict is Verdict.CRASHED
    assert "FileNotFoundError" in outcome.errors[0]


def test_a_kernel_that_prints_and_dies(check):
    kernel = """
        import ctypes
        def kernel(x):
            print("about to die")
            ctypes.string_at(0)
    """
    outcome = check(kernel)
    assert outcome.verdict is Verdict.CRASHED
    assert outcome.errors[0] == "running the candidate: its process died of SIGSEGV"
    assert "about to die" in outcome.errors
    assert any("mine.py" in line and "kernel" in line for line in outcome.errors)  # faulthandler


def test_a_process_that_ended_is_replaced_before_the_next_candidate_comes(session, write):
    session.measure(write(WRONG), {}, {})
    before = session._processes.candidates[0].pid
    outcome = session.measure(write("import os\ndef kernel(x): os.abort()"), {}, {})
    assert outcome.verdict is Verdict.CRASHED
    after = session._processes.candidates[0].pid
    assert after != before
    assert session.measure(write(WRONG), {}, {}).verdict is Verdict.WRONG
    assert session._processes.candidates[0].pid == after


def test_a_candidates_process_need_not_hash_triton(session, write):
    kernel = """
        def kernel(x):
            from triton.runtime.cache import triton_key
            raise ValueError(f"known: {triton_key.cache_info().currsize}")
    """
    assert "known: 1" in session.measure(write(kernel), {}, {}).errors[0]


def test_a_kernel_that_never_ends(check):
    kernel = """
        def kernel(x):
            print("round and round")
            while True:
                time.sleep(0.1)
    """
    kernel = f"import time\n{dedent(kernel)}"
    outcome, limit_s = when_reached(
        "running the candidate", lambda limit_s: check(kernel, time_limit_s=limit_s), 1.0
    )
    assert outcome.verdict is Verdict.TIMED_OUT
    text = f"running the candidate: killed after {limit_s:g} s"
    assert outcome.errors == (text, "round and round")


@pytest.mark.slow
def test_a_kernel_that_eats_the_memory(check):
    kernel = """
        import time
        def kernel(x):
            eaten = bytearray(2 << 30)
            time.sleep(60)
    """
    outcome = check(kernel)
    assert outcome.verdict is Verdict.OUT_OF_MEMORY
    assert "GiB of host memory; 1.0 GiB are allowed" in outcome.errors[0]


def test_a_candidate_that_speaks_for_the_harness(check):
    kernel = """
        import os, stat
        def kernel(x):
            for fd in range(3, 64):
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        os.write(fd, b"\\0\\0\\0\\2\\0\\0\\0\\0[]")
                except OSError:
                    pass
            return x * 2
    """
    outcome = check(kernel)
    assert outcome.verdict is Verdict.CRASHED
    assert "an answer of the candidate makes no sense" in outcome.errors[0]


@pytest.mark.slow
def test_a_reference_that_never_ends(check):
    head = HEAD.replace("    return x * 2", "    while True: pass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solkit.measure.guarded.session._GRACE_S", 0.3)
        outcome, limit_s = when_reached(
            "running the reference", lambda limit_s: check(WRONG, head, time_limit_s=limit_s), 0.5
        )
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.errors == (f"running the reference: killed after {limit_s:g} s",)


@pytest.mark.parametrize(
    ("head", "rounds"),
    [
        (HEAD, False),
        (HEAD + "TOLERANCE = {'rtol': 1e-4, 'atol': 1e-4}\n", False),
        (HEAD + "TOLERANCE = {'rtol': 1e-3, 'atol': 1e-4}\n", True),
    ],
)
def test_convolutions_round_to_tf32_only_where_the_tolerance_allows_it(check, head, rounds):
    asks = """
        def kernel(x):
            raise ValueError(f"rounds: {torch.backends.cudnn.allow_tf32}")
    """
    assert f"rounds: {rounds}" in " ".join(check(asks, head).errors)


def test_a_right_kernel_has_no_time_without_a_gpu(check):
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):
        check("def kernel(x): return x * 2")


@pytest.mark.parametrize(
    ("shape", "params", "error"),
    [({"Q": 3}, {}, ShapeError), ({}, {"BLOCK": 3}, ParamsError)],
)
def test_input_errors_reach_the_caller(session, write, shape, params, error):
    with pytest.raises(error):
        session.measure(write("def kernel(x): return x * 2"), shape, params)


def test_an_unknown_protocol(session, write):
    with pytest.raises(InputError, match="no timing protocol 'hot'; expected one of: cold, warm"):
        session.measure(write(WRONG), {}, {}, settings=MeasureSettings(protocol="hot"))


def test_a_file_that_fails_to_import_is_named_with_its_line(session, write):
    path = write("1 / 0", head="\n\n")
    with pytest.raises(KernelFileError) as caught:
        session.measure(path, {}, {})
    assert (caught.value.path, caught.value.line) == (path, 3)


SLEEPING = """
import pathlib, time

def kernel(x):
    pathlib.Path({running!r}).touch()
    time.sleep(600)
"""


def test_processes_that_were_ended_for_another_session_are_ready_again(write):
    path = write(WRONG)
    with Session(device="cpu") as session:
        assert session.measure(path, {}, {}).verdict is Verdict.WRONG
        before = session.pids
        session._processes._end_children()
        assert session.pids == ()
        session._processes._restart()
        after = session.pids
        assert not set(before) & set(after)
        assert session.measure(path, {}, {}).verdict is Verdict.WRONG
        assert session.pids == after


class Room:
    """A sandbox that only counts."""

    loads = closings = 0

    def server(self, _paths):
        return self

    def start(self):
        pass

    def load(self):
        self.loads += 1

    def close(self):
        self.closings += 1


def test_what_a_sandbox_loaded_is_there_for_the_first_candidate(monkeypatch):
    own = processes.Processes("0", "cpu", MeasureSettings())
    room = Room()
    own._sandboxes = {processes._REFEREE: room, processes._CANDIDATE: room}
    monkeypatch.setattr(own, "_start_child", lambda *_: None)
    monkeypatch.setattr(own, "_refresh_candidate", lambda *_: own.candidates.update({0: None}))
    own.load(["mine.py"])
    own.start_candidates(1, ["mine.py"])
    assert (room.loads, room.closings) == (2, 0)
    own.close()
    assert room.closings == 2


def test_an_interrupt_while_measuring_closes_the_session(write, tmp_path):
    running = tmp_path / "running"
    path = write(SLEEPING.format(running=str(running)))

    def interrupt():
        while not running.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with Session(device="cpu") as session:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs may ignore it
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            session.measure(path, {}, {}, settings=MeasureSettings(time_limit_s=600.0))
        signal.signal(signal.SIGINT, before)
        assert (session._processes.referee, session._processes.candidates) == (None, {})


def test_what_processes_need_is_loaded_without_taking_the_gpu(write):
    path = write(WRONG)
    with Session(device="cpu") as session:
        session.load([path])
        assert processes.measuring_server.is_alive
        assert session.pids == ()
        assert session.measure(path, {}, {}).verdict is Verdict.WRONG


def test_prepared_processes_serve_the_first_candidate(write):
    path = write(WRONG)
    with Session(MeasureSettings(), device="cpu") as session:
        session.prepare([path])
        session._await_preparation()
        ready = session.pids
        assert len(ready) == 2
        assert session.measure(path, {}, {}).verdict is Verdict.WRONG
        assert session.pids == ready


def test_a_session_closed_while_it_prepares_leaves_no_process(write, monkeypatch):
    begun, may_go_on = threading.Event(), threading.Event()
    start = processes.Processes.start_candidates

    def start_late(self, *args, **options):
        begun.set()
        may_go_on.wait(60)
        return start(self, *args, **options)

    monkeypatch.setattr(processes.Processes, "start_candidates", start_late)
    session = Session(MeasureSettings(), device="cpu")
    session.prepare([write(WRONG)])
    preparation, own = session._preparation, session._processes
    begun.wait(60)
    session.close()
    may_go_on.set()
    preparation.join(60)
    assert own.pids == ()
    assert session.measure(write(WRONG), {}, {}).verdict is Verdict.WRONG  # with new ones
    session.close()


# ------------------------------------------------------- which GPU


def test_the_processes_see_one_gpu():
    assert visible_gpu(None, 2) == "2"
    assert visible_gpu("4, GPU-abc,6", 1) == "GPU-abc"
    assert visible_gpu("4", 1) == ""


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_not_available(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not is_available()


@pytest.mark.skipif(is_available(), reason="there is a GPU")
def test_no_gpu_is_said(write):
    with pytest.raises(UnsupportedError, match="sees no CUDA device"):
        measure(write("def kernel(x): return x * 2"), {}, {})


# ------------------------------------------------------- comparing


RIGHT = "def kernel(x): return x + x"


@pytest.fixture
def compare(session, tmp_path):
    """Compare kernels of one problem, then wrong ones: that works, whatever came before."""

    def compare(*kernels, **options):
        problem = tmp_path / "problem.py"
        problem.write_text(HEAD)
        candidates = []
        for number, kernel in enumerate(kernels):
            path = tmp_path / f"kernel_{number}.py"
            path.write_text("import torch\n" + dedent(kernel))
            candidates.append(Candidate("kernel", str(path), {}))
        try:
            settings = replace(session.settings, **options)
            return session.compare(candidates, {}, reference=str(problem), settings=settings)
        finally:
            for number in range(len(kernels)):
                (tmp_path / f"kernel_{number}.py").write_text(WRONG)
            after = session.compare(candidates, {}, reference=str(problem))
            assert after.errors[0].startswith("base: output 0: 16 of 16 elements"), after

    return compare


@pytest.mark.slow
def test_candidates_that_are_compared_are_checked_and_timed_on_a_gpu_only(compare):
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):
        compare(RIGHT, RIGHT, RIGHT)


@pytest.mark.slow
def test_a_wrong_candidate_is_compared_with_nothing(compare):
    outcome = compare(RIGHT, "def kernel(x): return x * 2 + 0.5")
    assert outcome.turns == ()
    assert outcome.errors[0].startswith("candidate: output 0: 16 of 16 elements")
    assert (outcome.verdict, outcome.failed) == (Verdict.WRONG, 1)


@pytest.mark.slow
def test_whoever_dies_in_a_comparison_is_named_and_quoted(compare, session):
    kernel = """
        import ctypes
        def kernel(x):
            print("about to die")
            ctypes.string_at(0)
    """
    outcome = compare(RIGHT, kernel)
    text = "candidate: running the candidate: its process died of SIGSEGV"
    assert outcome.errors[0] == text
    assert "about to die" in outcome.errors
    assert outcome.verdict is Verdict.CRASHED
    assert set(session._processes.candidates) >= {0, 1}


@pytest.mark.slow
def test_whoever_never_ends_holds_up_no_other_comparison(compare):
    endless = "def kernel(x):\n    while True: pass"
    outcome, limit_s = when_reached(
        "running the candidate", lambda limit_s: compare(endless, RIGHT, time_limit_s=limit_s), 1.0
    )
    assert outcome.turns == ()
    assert outcome.errors == (f"base: running the candidate: killed after {2 * limit_s:g} s",)
    assert (outcome.verdict, outcome.failed) == (Verdict.TIMED_OUT, 0)


def test_a_comparison_takes_two(session):
    with pytest.raises(InputError, match="expected two or more to compare, got 1"):
        session.compare([Candidate("kernel", "k.py", {})], {})


ASSERTING = """
import sys
import torch
import solkit.measure.checking.trials

broken = False

def inputs(N=16, device="cuda"):
    return (torch.rand(N, device=device),)

def reference(x):
    global broken
    # in the referee's process alone
    for module in (solkit.measure.checking.trials, sys.modules["solkit.measure.guarded.referee"]):
        module.context_is_lost = lambda: broken
    broken = broken or bool(((x < 0) | (x > 1)).any())
    if broken:  # as all that follows a device assertion
        raise RuntimeError("CUDA error: device-side assert triggered")
    return x * 2
"""


@pytest.mark.slow
def test_a_reference_that_breaks_the_context_on_a_distribution(session, write, tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text(ASSERTING)
    referee = session._processes.referee
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):  # it was right
        session.measure(
            write("def kernel(x): return x + x", head=""), {}, {}, reference=str(problem)
        )
    assert session._processes.referee is not referee
    skipped = session._skipped[str(problem)]
    assert len(skipped) > 1
    outcome = session.measure(write(WRONG, head=""), {}, {}, reference=str(problem))
    assert outcome.verdict is Verdict.WRONG
    assert session._skipped[str(problem)] == skipped


@pytest.mark.slow
def test_a_reference_that_breaks_the_context_on_its_own_inputs(session, write, tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text(ASSERTING.replace("device=device),", "device=device) * N / 16,"))
    kernel = write(WRONG, head="")
    assert session.measure(kernel, {}, {}, reference=str(problem)).verdict is Verdict.WRONG
    referee = session._processes.referee
    with pytest.raises(KernelFileError, match="device-side assert"):  # as ids beyond a table
        session.measure(kernel, {"N": 64}, {}, reference=str(problem))
    assert session._processes.referee is not referee
    assert session.measure(kernel, {}, {}, reference=str(problem)).verdict is Verdict.WRONG


def test_an_original_that_had_no_time_for_a_distribution_is_given_it():
    own = Request("k.py", None, {}, {}, 60.0, 1, "cpu", checks_limit_s=1.0)
    failures = OriginalFailures(own)

    def judge(request):
        failed_on = "negative infinities" if request.checks_limit_s > 2.0 else ""
        return Judgement(Verdict.WRONG, (), None, None, failed_on=failed_on)

    assert failures.excuse(replace(own, path="variant.py"), "negative infinities", judge)
    assert not failures.excuse(replace(own, path="variant.py"), "large", judge)


def test_an_original_that_is_wrong_on_an_earlier_distribution_is_tried_on_a_later_one():
    own = Request("k.py", None, {}, {}, 60.0, 1, "cpu", checks_limit_s=1.0)
    failures = OriginalFailures(own)

    def judge(request):
        tried = ("swapped values", "minute") if not request.tried_on else (request.tried_on,)
        failed = [name for name in tried if name != "tiny"]
        return Judgement(Verdict.WRONG, (), None, None, failed_on=failed[0] if failed else "")

    variant = replace(own, path="variant.py")
    assert failures.excuse(variant, "minute", judge)
    assert failures.excuse(variant, "swapped values", judge)
    assert not failures.excuse(variant, "tiny", judge)


# ------------------------------------------------------- the time limit


def test_attempts_that_lose_the_context_share_the_time_limit(monkeypatch):
    """Each attempt takes 8 s of a clock; a GPU's processes take another 5 to start."""
    now = [100.0]
    monkeypatch.setattr("solkit.measure.guarded.session.time.monotonic", lambda: now[0])
    requests = []

    def lose_context(_self, _message, _paths, attempt):
        requests.append(attempt[0])
        if len(requests) > 4:
            return "done", None
        now[0] += 13.0
        raise ContextLostError(f"trial {len(requests)}", 8.0)

    monkeypatch.setattr(Session, "_send_message", lose_context)
    session = Session(MeasureSettings(time_limit_s=60.0), device="cpu")
    request = Request("k.py", None, {}, {}, 60.0, 1, "cpu")
    assert session._ask_referee([request], ("k.py",)) == ("done", None)
    assert [request.spent_s for request in requests] == [0.0, 8.0, 21.0, 34.0, 47.0]
    assert [request.skip[-1:] for request in requests[:3]] == [(), ("trial 1",), ("trial 2",)]
    assert requests[3].skip[-2:] == ("trial 3", ALL_DISTRIBUTIONS)
    assert requests[4].skip.count(ALL_DISTRIBUTIONS) == 1
    assert {request.time_limit_s for request in requests} == {60.0}


def test_what_earlier_attempts_spent_is_not_there_again():
    ended = threading.Event()

    def ready(channel):
        channel.receive()
        ended.wait(60.0)

    ours, other = connected_pair()
    threading.Thread(target=ready, args=(Channel(other, trusting=True),), daemon=True).start()
    remote = Remote(Channel(ours, trusting=False), 30.0, lambda _: None, spent_s=29.5)
    start = time.monotonic()
    with pytest.raises(CandidateError, match="killed after 30 s"):
        remote.settle()
    assert time.monotonic() - start < 20  # half a second, or more on a busy machine
    ended.set()


def test_a_reference_whose_wide_arithmetic_is_slow_leaves_time_to_measure(check):
    slow = "    __import__('time').sleep(0.5 * (x.dtype == torch.float64))\n    return x * 2"
    head = HEAD.replace("    return x * 2", slow)
    start = time.monotonic()
    with pytest.raises(UnsupportedError, match="only a CUDA device can be timed"):  # it was right
        check("def kernel(x): return x * 2", head, time_limit_s=7.0)
    assert time.monotonic() - start < 7.0
    outcome = check("def kernel(x): return x * 2.2", head, time_limit_s=7.0)
    assert outcome.verdict is Verdict.WRONG


def test_two_prepared_processes_serve_a_comparison(write):
    base, rival = write("def kernel(x): return x + x"), write(WRONG)
    with Session(device="cpu") as session:
        session.prepare([base], count=2)
        session._await_preparation()
        before = {place: child.pid for place, child in session._processes.candidates.items()}
        assert sorted(before) == [0, 1]
        both = [Candidate("kernel", path, {}) for path in (rival, base)]
        assert session.compare(both, {}, reference=base).verdict is Verdict.WRONG
        assert session._processes.candidates[1].pid == before[1]


def test_a_search_checks_a_candidate_at_held_out_shapes_until_it_is_right(monkeypatch):
    right, hasty = (Verdict.CORRECT, True), (Verdict.CORRECT, False)
    requests, outcomes = [], iter([(Verdict.WRONG, True), hasty, *[right] * 5])

    def answer(self, sent, _paths):
        requests.extend(sent)
        verdict, is_right_elsewhere = next(outcomes)
        judgement = Judgement(verdict, (), None, None, is_right_elsewhere=is_right_elsewhere)
        return encode(judgement), Wait(self._processes, None, (), 1.0, 1)

    monkeypatch.setattr(Session, "_ask_referee", answer)
    session = Session(MeasureSettings(searching=True), device="cpu")
    for size, blocks in ((16, 1), (16, 1), (16, 1), (32, 1), (32, 2)):
        session.measure("k.py", {"N": size}, {"B": blocks})
    session.measure("k.py", {"N": 16}, {"B": 1}, settings=MeasureSettings())  # what is reported
    answers = [request.is_right_elsewhere for request in requests]
    assert answers == [False, False, False, True, False, False]


OVERFLOWS = """
import torch

TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}

def inputs(N=256, device="cuda"):
    return (torch.randn(N, device=device).half(),)

def reference(x):
    return x.float() * x.float()
"""


@pytest.fixture
def search(monkeypatch):
    """A search's session on the CPU, where whoever is right is not timed."""
    timed = Session._judge

    def untimed(self, request):
        try:
            return timed(self, request)
        except UnsupportedError:
            return Judgement(Verdict.CORRECT, (), None, None)

    monkeypatch.setattr(Session, "_judge", untimed)
    with Session(MeasureSettings(searching=True, host_bytes=1 << 30), device="cpu") as session:
        yield (
            lambda path, reference=None: session.measure(path, {}, {}, reference=reference).verdict
        )


def test_a_search_asks_no_variant_to_be_right_where_its_original_is_wrong(search, write, tmp_path):
    original = write("def kernel(x): return (x * x).float()", OVERFLOWS)  # infinite if x is large
    variant, wrong = tmp_path / "variant.py", tmp_path / "wrong.py"
    variant.write_text("def kernel(x): return (x * x * 1).float()")
    wrong.write_text("def kernel(x): return (x * x).float().clamp(max=1)")  # of the usual inputs
    assert search(original) is Verdict.CORRECT
    assert search(str(variant), original) is Verdict.CORRECT
    assert search(str(wrong), original) is Verdict.WRONG


def test_an_original_is_wrong_on_such_values_outside_of_a_search(check):
    assert check("def kernel(x): return (x * x).float()", OVERFLOWS).verdict is Verdict.WRONG


def test_a_variant_is_wrong_where_its_original_is_right(search, write, tmp_path):
    original = write("def kernel(x): return x.float() * x.float()", OVERFLOWS)
    variant = tmp_path / "variant.py"
    variant.write_text("def kernel(x): return (x * x).float()")
    assert search(str(variant), original) is Verdict.WRONG  # no original yet, as beside a log
    assert search(original) is Verdict.CORRECT
    assert search(str(variant), original) is Verdict.WRONG
