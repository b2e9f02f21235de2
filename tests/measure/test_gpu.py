"""The real thing: these run where there is a GPU (``pytest -m gpu``)."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from textwrap import dedent

import pytest

from solkit.core import Candidate, Difference, MeasureSettings, Verdict
from solkit.errors import UnsupportedError
from solkit.measure import Session, is_available, measure
from solkit.measure.timing.comparison_statistics import compute_ratio, difference
from solkit.measure.timing.protocols import PROTOCOLS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not is_available(), reason="no GPU"),
]

N = 8 << 20  # elements: 8 Mi, 32 MiB read and 32 MiB written in fp32

HEAD = f"""
import torch, triton
import triton.language as tl

def inputs(N={N}, dtype=torch.float32, device="cuda"):
    return (torch.randn(N, dtype=dtype, device=device),)

def reference(x):
    return x * 2
"""

DOUBLE = """
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def kernel(x, *, BLOCK=1024, num_warps=4):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK, num_warps=num_warps)
    return y
"""


@pytest.fixture(scope="module")
def session():
    with Session() as session:
        yield session


@pytest.fixture
def run(tmp_path, session):
    def run(kernel, head=HEAD, params=None, shape=None, **options):
        path = tmp_path / "mine.py"
        path.write_text(dedent(head) + dedent(kernel))
        settings = MeasureSettings(**options)
        outcome = session.measure(str(path), shape or {}, params or {}, settings=settings)
        print(outcome)  # what a failing test shows
        return outcome

    return run


def test_an_elementwise_triton_kernel(run):
    outcome = run(DOUBLE, params={"BLOCK": 2048})
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    measurement, protocol = outcome.measurement, outcome.protocol
    assert measurement.method == protocol.method == "cupti"
    assert measurement.low_ms <= measurement.median_ms <= measurement.high_ms
    assert 20 <= measurement.samples == protocol.samples <= 200
    # one kernel: its time is the call's, and the reference, one kernel too, takes about as long
    assert measurement.kernel_sum_ms == pytest.approx(measurement.median_ms, rel=1e-6)
    assert measurement.reference_ms == pytest.approx(measurement.median_ms, rel=0.25)
    # 64 MiB in the time would be between 0.05 and 10 TB/s on any GPU with sm_80 or newer
    assert 0.05e12 < 8 * N / (measurement.median_ms / 1e3) < 10e12
    assert measurement.max_error == 0.0
    assert measurement.sm_clock_mhz is None or 200 < measurement.sm_clock_mhz < 4000
    (kernel,) = measurement.launches
    assert kernel.launch.name == "double"
    assert kernel.launch.grid == (N // 2048, 1, 1)
    assert (kernel.launch.constants["BLOCK"], kernel.launch.num_warps) == (2048, 4)
    assert kernel.facts.registers > 0
    assert protocol.flush.endswith("MiB buffer read before each call: clean lines are left in L2")


def test_a_copy_against_itself(run):
    outcome = run("def kernel(x): return x.clone()", head=HEAD.replace("x * 2", "x.clone()"))
    measurement = outcome.measurement
    assert measurement.method == "cupti"
    assert measurement.median_ms == pytest.approx(measurement.reference_ms, rel=0.03)
    assert measurement.launches == ()


def test_several_kernels_and_streams(run):
    kernel = """
        def kernel(x):
            y = torch.empty_like(x)
            half = x.numel() // 2
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.mul(x[:half], 2, out=y[:half])
            torch.mul(x[half:], 2, out=y[half:])
            torch.cuda.current_stream().wait_stream(side)
            return y
    """
    measurement = run(kernel).measurement
    assert measurement.method == "cupti"
    assert measurement.median_ms > 0.5 * measurement.reference_ms
    assert measurement.kernel_sum_ms > 0.8 * measurement.reference_ms


def test_a_cuda_graph(run):
    kernel = """
        made = {}
        def kernel(x):
            if x.data_ptr() not in made:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    y = (x + x) * 1.0
                made[x.data_ptr()] = graph, y, x
            graph, y, _ = made[x.data_ptr()]
            graph.replay()
            return y
    """
    measurement = run(kernel).measurement
    assert measurement.method == "cupti"
    # two kernels: twice 1 read and 1 write, against once
    assert 1.4 * measurement.reference_ms < measurement.median_ms < 4 * measurement.reference_ms


def test_a_library_call_and_a_copy(run):
    head = """
        import torch
        def inputs(N=2048, device="cuda"):
            return (torch.randn(N, N, device=device, dtype=torch.bfloat16),)
        def reference(x):
            return x @ x
    """
    measurement = run("def kernel(x): return (x @ x).clone()", head=head).measurement
    assert measurement.method == "cupti"
    assert measurement.median_ms > measurement.kernel_sum_ms > measurement.reference_ms


def test_a_kernel_that_waits_for_the_host(run):
    outcome = run("def kernel(x):\n    assert x.amax().item() > -1e38\n    return x * 2\n")
    assert outcome.verdict is Verdict.CORRECT
    assert outcome.measurement.median_ms > outcome.measurement.reference_ms


def test_an_in_place_kernel(run):
    head = HEAD.replace("return x * 2", "x.mul_(2)") + 'OUTPUTS = ("x",)\n'
    outcome = run("def kernel(x): x.add_(x)", head=head)
    assert outcome.verdict is Verdict.CORRECT


def test_an_autotuned_kernel(run):
    tuned = DOUBLE.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': b}) for b in (256, 1024)], key=['n'])\n"
        "@triton.jit",
    )
    tuned = tuned.replace(", *, BLOCK=1024, num_warps=4", "").replace(
        "double[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK, num_warps=num_warps)",
        "double[lambda m: (triton.cdiv(x.numel(), m['BLOCK']),)](x, y, x.numel())",
    )
    outcome = run(tuned)
    assert outcome.verdict is Verdict.CORRECT
    assert len(outcome.measurement.launches) == 1


def test_a_wrong_kernel(run):
    outcome = run(DOUBLE.replace("at < n)", "at < n - 5)"))
    assert outcome.verdict is Verdict.WRONG
    assert f"5 of {N} elements" in outcome.errors[0]


def test_nan_is_wrong(run):
    outcome = run("def kernel(x): return torch.where(x > 4, x * float('nan'), x * 2)")
    assert outcome.verdict is Verdict.WRONG
    assert "NaN where the reference is not" in outcome.errors[0]


def test_an_illegal_address(run):
    outcome = run(DOUBLE.replace("tl.store(y + at", "tl.store(y + at + (1 << 44)"))
    assert outcome.verdict is Verdict.CRASHED
    assert "illegal memory access" in "\n".join(outcome.errors)


def test_a_device_assert(run):
    kernel = "def kernel(x): return x[torch.tensor([x.numel()], device='cuda')]"
    outcome = run(kernel)
    assert outcome.verdict is Verdict.CRASHED
    assert "assert" in "\n".join(outcome.errors)


def test_a_kernel_that_does_not_compile(run):
    outcome = run(DOUBLE.replace("2 * tl.load", "nothing * tl.load"))
    assert outcome.verdict is Verdict.DOES_NOT_COMPILE
    assert "nothing" in outcome.errors[0]


def test_too_much_shared_memory(run):
    kernel = """
        @triton.jit
        def gram(x, y, K, B: tl.constexpr):
            i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
            total = tl.zeros((B, B), tl.float32)
            for k in range(0, K, B):
                tile = tl.load(x + i * K + k + j)
                total += tl.dot(tile, tl.trans(tile))
            tl.store(y + i * B + j, total)

        def kernel(x):  # eight stages of 64 KiB
            y = torch.empty_like(x)
            gram[(1,)](x, y, x.numel() // 128, 128, num_warps=8, num_stages=8)
            return y
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.DOES_NOT_COMPILE
    assert "OutOfResources" in outcome.errors[0]


def test_out_of_memory(run):
    outcome = run("def kernel(x): return torch.empty(1 << 44, device='cuda')")
    assert outcome.verdict is Verdict.OUT_OF_MEMORY


def test_inputs_that_do_not_fit(run):
    with pytest.raises(UnsupportedError, match="do not fit into memory"):
        run(DOUBLE, shape={"N": 1 << 44})


def test_an_endless_kernel_is_killed_and_the_gpu_is_free_again(run):
    endless = """
        @triton.jit
        def wait(x):
            while tl.atomic_add(x, 0.0) != 12345.0:
                pass

        def kernel(x):
            wait[(1,)](x)
            return x
    """
    outcome = run(endless, time_limit_s=40.0)
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.errors[0] == "running the candidate: killed after 40 s"
    assert run(DOUBLE).verdict is Verdict.CORRECT


# ------------------------------------------------------- one session, many candidates


def used_mib():
    """GPU memory in use, by NVML: of all processes."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return pynvml.nvmlDeviceGetMemoryInfo(handle).used >> 20


def test_protocols(run):
    taken = {}
    for name in PROTOCOLS:
        outcome = run(DOUBLE, shape={"N": 1 << 20}, protocol=name)
        assert outcome.verdict is Verdict.CORRECT
        assert outcome.protocol.name == name
        taken[name] = outcome.measurement.median_ms
    assert taken["warm"] < taken["cold"]
    assert taken["replay"] == pytest.approx(taken["warm-graph"], rel=0.5)


def test_faults_leave_the_memory_at_its_level_and_the_next_is_measured(run):
    assert run(DOUBLE).verdict is Verdict.CORRECT
    level_mib = used_mib()
    hog = """
        kept = []
        def kernel(x):
            kept.append(torch.empty(1 << 34, device="cuda", dtype=torch.uint8))
            while True:
                pass
    """
    assert run(hog, time_limit_s=10.0).verdict is Verdict.TIMED_OUT
    assert used_mib() <= level_mib
    assert run(DOUBLE).verdict is Verdict.CORRECT
    illegal = DOUBLE.replace("tl.store(y + at", "tl.store(y + at + (1 << 44)")
    assert run(illegal).verdict is Verdict.CRASHED
    for _ in range(5):
        assert run(DOUBLE).verdict is Verdict.CORRECT
    assert used_mib() <= level_mib + 64


def test_a_cheap_candidate_costs_little(run, session):
    run(DOUBLE)
    process = session._processes.candidates[0].pid
    start = time.monotonic()
    outcome = run(DOUBLE)
    spent_s = time.monotonic() - start
    samples_s = 1e-3 * 2 * outcome.protocol.samples  # flush, two processes: about 1 ms each
    print(f"{spent_s:.2f} s, of which samples took about {samples_s:.2f}")
    assert session._processes.candidates[0].pid == process
    assert spent_s < samples_s + 1.0


@pytest.mark.parametrize("protocol", ["cold", "warm-graph"])
def test_candidates_that_take_turns(session, tmp_path, protocol):
    twice = DOUBLE.replace("    return y", "    return y.mul_(1.0)")
    candidates = []
    for name, kernel in (("base", DOUBLE), ("same", DOUBLE), ("slower", twice)):
        path = tmp_path / f"{name}.py"
        path.write_text(HEAD + kernel)
        candidates.append(Candidate("kernel", str(path), {}))
    outcome = session.compare(candidates, {}, settings=MeasureSettings(protocol=protocol))
    print(outcome.errors, outcome.protocol)
    (turns,) = outcome.turns
    assert outcome.protocol.method == "cupti"
    base_ms, same_ms, slower_ms = turns.times_ms
    same, slower = compute_ratio(base_ms, same_ms), compute_ratio(base_ms, slower_ms)
    print(same, slower)
    assert difference(same) is Difference.NOT_SHOWN
    assert same.value == pytest.approx(1.0, abs=0.01)
    assert difference(slower) is Difference.SLOWER
    assert slower.low > 1.1


def test_a_time_that_is_made_up(run):
    kernel = """
        import solkit.measure.timing.timers as timing
        true_times = timing.call_times

        def kernel(x):
            def faster(*args):
                import dataclasses
                return [dataclasses.replace(t, span_ms=t.span_ms / 10) for t in true_times(*args)]
            timing.call_times = faster
            return (x + x).mul(1.0)
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.CHEATING


def test_a_kernel_of_its_own(run):
    assert run(DOUBLE, custom_kernel=True).verdict is Verdict.CORRECT
    outcome = run("def kernel(x): return x + x", custom_kernel=True)
    assert outcome.verdict is Verdict.CHEATING
    assert "only library kernels ran: " in outcome.errors[0]
    beside = DOUBLE.replace("return y", "return torch.cat([y[:8].clone(), y[8:]])")
    assert run(beside, custom_kernel=True).verdict is Verdict.CORRECT


def test_the_server_leaves_cuda_to_those_that_it_forks(run):
    """A process that has initialised CUDA forks none that could use it."""
    from solkit.measure.guarded.processes import measuring_server

    assert run(DOUBLE).verdict is Verdict.CORRECT
    opened = [os.readlink(file) for file in Path(f"/proc/{measuring_server.pid}/fd").iterdir()]  # noqa: PTH115
    assert not any(name.startswith("/dev/nvidia") for name in opened)


def test_a_sandbox(tmp_path, monkeypatch, session):
    """CUDA, CUDA IPC and CUPTI work there, and home does not show."""
    session.close()  # it holds the GPU, for which the one in the sandbox would wait
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "mine.py"
    path.write_text(HEAD + DOUBLE + f"import os\nassert not os.path.exists({str(home)!r})\n")
    try:
        sandboxed = Session(MeasureSettings(sandbox=True, patience_s=10.0))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with sandboxed:
        outcome = sandboxed.measure(str(path), {}, {})
        print(outcome)
        assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
        assert outcome.measurement.method == "cupti"


# ------------------------------------------------------- the timers, in this process


@pytest.fixture(scope="module")
def timers():
    from solkit.measure.timing.machine import CudaMachine

    results, _ = CudaMachine().timers()
    return {timer.method: timer for timer in results}


@pytest.fixture(scope="module")
def subjects():
    import torch

    from solkit.measure.timing.sampling import Subject

    x = torch.randn(N, device="cuda")
    return (
        Subject("candidate", lambda: lambda: x * 2),
        Subject("reference", lambda: lambda: (x * 2) * 2),
    )


def test_both_timers_agree_to_some_microseconds(timers, subjects):
    from statistics import median

    from solkit.measure.timing.sampling import SamplingPlan, sample_sides, sides_in_turns

    taken = {
        method: sample_sides(sides_in_turns(timer, *subjects), SamplingPlan(), random.Random(0))
        for method, timer in timers.items()
    }
    for which in (0, 1):
        cupti, events = (median(taken[method][which].spans_ms) for method in ("cupti", "events"))
        print(which, cupti, events)
        assert cupti < events + 0.5e-3
        assert events - cupti < 15e-3
    assert all(t.kernel_sum_ms is None for t in taken["events"][0].times)


def test_the_flush_makes_l2_cold():
    from statistics import median

    import torch

    from solkit.measure.timing.sampling import Subject
    from solkit.measure.timing.timers import CuptiTimer, FlushBuffer, L2Flush

    class NoFlush(L2Flush):
        def __call__(self, name):
            pass

    def time(timer):
        timer.start()
        for _ in range(30):
            timer.time(subject)
        return median(t.kernel_sum_ms for t in timer.stop())  # nothing hides the host's gaps

    eighth_of_l2 = torch.zeros(
        torch.cuda.get_device_properties().L2_cache_size // 32, device="cuda"
    )
    subject = Subject("sum", lambda: eighth_of_l2.sum)
    buffer = FlushBuffer()
    flushes = (L2Flush(buffer), False), (NoFlush(buffer), False), (L2Flush(buffer), True)
    timers = [CuptiTimer(flush, warm=warm) for flush, warm in flushes]
    for timer in timers:
        time(timer)  # until clocks are up
    cold, warm, also_warm = map(time, timers)
    assert also_warm == pytest.approx(warm, rel=0.2)
    print(cold, warm)
    assert warm < 0.85 * cold  # 3.0 and 4.6 us on an H100


def test_what_the_profiler_records(subjects):
    """Every GPU activity of a call has a recorded launch, or is in an annotation: shows which."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    from solkit.measure.timing.activities import Kind, call_times
    from solkit.measure.timing.timers import read_activities

    for subject in subjects:
        subject.prepare()()  # or allocating what the second one needs is a part of its time
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
        for index, subject in enumerate(subjects):
            with record_function(f"solkit::{index}"):
                subject.prepare()()
        torch.cuda.synchronize()
    activities = read_activities(session.profiler.kineto_results.events())
    for activity in sorted(activities, key=lambda a: a.start_ns):
        print(activity)
    launched = {a.correlation for a in activities if a.kind is Kind.LAUNCH}
    on_gpu = [a for a in activities if a.kind is Kind.GPU]
    assert len(on_gpu) == 3
    assert {a.correlation for a in on_gpu} <= launched
    assert {a.name for a in activities if a.kind is Kind.GPU_RANGE} == {"solkit::0", "solkit::1"}
    one, two = call_times(activities, ["solkit::0", "solkit::1"])
    assert 1.2 < two.span_ms / one.span_ms < 4


def test_an_index_that_is_not_there(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + DOUBLE)
    beyond = 1 + len(os.environ.get("CUDA_VISIBLE_DEVICES", "0" * 64))
    with pytest.raises(UnsupportedError, match="sees no CUDA device"):
        measure(str(path), {}, {}, settings=MeasureSettings(on=f"cuda:{beyond}"))


# ------------------------------------------------------- honest kernels that were accused

SCALED = """
import torch

def inputs(M=512, K=4096, N=512, device="cuda"):
    a, b = torch.randn(M, K, device=device), torch.randn(N, K, device=device)
    return a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T

def reference(a, b):
    return (a.float() @ b.float()).to(torch.bfloat16)
"""
FP8 = """
ONE = {}

def kernel(a, b):
    one = ONE.setdefault(a.device, torch.ones((), device=a.device))
    return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
"""
IN_PLACE = """
import torch

def inputs(N=1 << 22, device="cuda"):
    return (torch.rand(N, device=device),)

def reference(x):
    return torch.relu_(x)
"""
TRIANGLE = """
import torch

def inputs(N=1024, device="cuda"):
    return torch.randn(N, N, device=device).tril(), torch.randn(N, N, device=device).tril()

def reference(a, b):
    return torch.tril(a @ b)
"""
SYMMETRIC = """
import torch

def inputs(N=1024, device="cuda"):
    a, b = torch.randn(N, N, device=device), torch.randn(N, N, device=device)
    return (a + a.T) / 2, (b + b.T) / 2

def reference(a, b):
    return a @ b
"""
RAGGED = """
import torch

def inputs(N=64, device="cuda"):
    lengths = torch.randint(100, 1000, (N,), device=device)
    total = int(lengths.sum())
    return torch.randn(total, 64, device=device), lengths, total

def reference(x, lengths, total):
    return torch.segment_reduce(x, "sum", lengths=lengths)
"""
SEGMENTS = """
def kernel(x, lengths, total):
    ends = lengths.cumsum(0)
    row = torch.searchsorted(ends, torch.arange(total, device=x.device), right=True)
    return torch.zeros(len(lengths), x.shape[1], device=x.device).index_add_(0, row, x)
"""
ACCUSED = {
    "fp8 products with few bits": (SCALED, FP8),
    "a ReLU in place": (IN_PLACE, "def kernel(x): return torch.relu_(x)"),
    "a triangle": (TRIANGLE, "def kernel(a, b): return torch.tril(a.tril() @ b.tril())"),
    "a symmetry": (SYMMETRIC, "def kernel(a, b): return a.T @ b.T"),
    "rounding noise": (
        HEAD.replace("return x * 2", "return x.view(-1, 256).softmax(-1).sum(-1) - 1"),
        "def kernel(x): return x.new_zeros(x.numel() // 256)",
    ),
    "sizes that differ from draw to draw": (RAGGED, SEGMENTS),
}


@pytest.mark.parametrize("protocol", ["cold", "warm"])
@pytest.mark.parametrize("name", ACCUSED)
def test_honest_kernels_are_correct_on_new_inputs(run, name, protocol):
    head, kernel = ACCUSED[name]
    if name.startswith("fp8"):
        import torch

        if torch.cuda.get_device_capability() < (8, 9):
            pytest.skip("no fp8")
    outcome = run(kernel, head=head, protocol=protocol)
    degenerate = name == "rounding noise"  # all that the reference gives is noise
    expected = {Verdict.CORRECT} | ({Verdict.DEGENERATE_PROBLEM} if degenerate else set())
    assert outcome.verdict in expected, outcome.errors


BIG = """
import torch

def inputs(N=64 << 20, device="cuda"):
    return torch.randn(N, device=device), torch.randn(N, device=device)

def reference(x, y):
    return x + y
"""


def test_new_inputs_of_500_mb_cost_little(run):
    start = time.monotonic()
    outcome = run("def kernel(x, y): return torch.add(y, x)", head=BIG)
    spent_s = time.monotonic() - start
    print(
        f"{spent_s:.1f} s, {outcome.protocol.timed_inputs}, {outcome.measurement.samples} samples"
    )
    assert (outcome.verdict, outcome.protocol.timed_inputs) == (Verdict.CORRECT, "drawn")
    assert spent_s < 30


SLOW = """
import torch, time

def inputs(N=1 << 20, device="cuda"):
    return (torch.randn(N).to(device),)

def reference(x):
    if x.dtype == torch.float64:
        torch.cuda._sleep(4_000_000_000)  # 2 s in wide arithmetic
    return x * 2
"""


def test_the_time_limit_holds_whatever_takes_the_time(run):
    for head, kernel in (
        (SLOW, "def kernel(x): return x + x"),
        (HEAD, "import time\ndef kernel(x):\n    time.sleep(2)\n    return x * 2"),
        (HEAD, "def kernel(x):\n    while True: pass"),
    ):
        start = time.monotonic()
        outcome = run(kernel, head=head, time_limit_s=15.0)
        spent_s = time.monotonic() - start
        print(f"{spent_s:.1f} s: {outcome.verdict}")
        assert spent_s < 15 + 5 + 10  # the limit, time to report, and to start new processes
