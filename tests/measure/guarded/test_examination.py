"""The course of an examination: referee and candidate in two threads, a fake machine beneath."""

from __future__ import annotations

import sys
import time

import pytest
import torch
from simulated import HEAD, LAUNCH, FakeMachine, FakeTimer, reference
from torch.utils._python_dispatch import TorchDispatchMode

from solkit.core import Verdict
from solkit.errors import KernelFileError, UnsupportedError, WorkerError
from solkit.measure.guarded import correctness
from solkit.measure.timing.clocks import Sample


def test_a_right_kernel_is_timed(run):
    stages = []
    outcome = run("def kernel(x): return x + x", say=stages.append)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    measurement, protocol = outcome.measurement, outcome.protocol
    assert measurement.median_ms == 100.5
    assert (measurement.low_ms, measurement.high_ms) == (100.0, 101.0)
    assert measurement.kernel_sum_ms == measurement.median_ms / 2
    assert measurement.reference_ms == 300.5
    assert (measurement.method, measurement.samples, measurement.max_error) == ("fake", 60, 0.0)
    assert measurement.sm_clock_mhz == 1410.0
    assert measurement.launches == (LAUNCH,)
    assert (protocol.method, protocol.l2, protocol.flush) == ("fake", "cold", "not at all")
    assert (protocol.name, protocol.launched) == ("cold", "eager")
    assert (protocol.samples, protocol.seed, protocol.time_limit_s) == (60, 5, 60.0)
    assert sorted(set(outcome.samples.candidate_ms)) == [100.0, 101.0]
    assert sorted(set(outcome.samples.reference_ms)) == [300.0, 301.0]
    assert stages[0] == "loading the problem"
    assert "timing by the wall clock" in stages


CONSTANT = HEAD.replace("return x * 2", "return (x - x).relu()")


@pytest.mark.slow
def test_the_inputs_that_were_timed_have_a_digest(run):
    kernel = "def kernel(x): return x + x"
    first, again, other = (run(kernel, seed=seed).samples.inputs_digest for seed in (5, 5, 6))
    assert first == again != other


@pytest.mark.slow
def test_a_reference_that_ignores_its_inputs_is_told(run):
    outcome = run("def kernel(x): return torch.zeros_like(x)", head=CONSTANT)
    assert outcome.verdict is Verdict.DEGENERATE_PROBLEM
    assert "same outputs, bit for bit, on two sets of inputs" in outcome.errors[0]
    assert outcome.measurement is not None


class Recorded(TorchDispatchMode):
    """Takes note of operators and of where their results lie, as a CUDA graph does of kernels."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    def replay(self):
        for function, args, kwargs, result in self.calls:
            result.copy_(function(*args, **kwargs))


class GraphMachine(FakeMachine):
    def capture_graph(self, work):
        work()
        with Recorded() as recorded:
            work()
        return recorded.replay


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["warm-graph", "replay"])
def test_replayed_calls_have_outputs_of_their_own(run, monkeypatch, protocol):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)  # at every call
    fields = {"theirs": GraphMachine(), "mine": reference(), "protocol": protocol}
    outcome = run("def kernel(x): return x + x", **fields)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    idle = """
        from torch.utils._python_dispatch import _get_current_dispatch_mode
        def kernel(x):
            if _get_current_dispatch_mode() is None:  # or it is captured, with nothing in it
                kernel.last = x + x
            return kernel.last
    """
    outcome = run(idle, **fields)
    assert outcome.verdict is Verdict.WRONG
    assert "NaN" in outcome.errors[0]


@pytest.mark.slow
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
    theirs = FakeMachine()
    outcome = run("def kernel(x): return x * 2.1", theirs=theirs)
    assert outcome.verdict is Verdict.WRONG
    assert outcome.measurement is outcome.protocol is None
    assert "output 0: 16 of 16 elements" in outcome.errors[0]
    assert theirs.all_timers[0].calls == 0


@pytest.mark.quick("[:8] * 2-shape", "None-0 output(s); the reference has 1", "torch.where(x")
@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("x[:8] * 2", "shape (8,) where the reference has (16,)"),
        ("(x * 2).double()", "dtype torch.float64 where the reference has torch.float32"),
        ("x * 2, x * 3", "2 output(s); the reference has 1"),
        ("None", "0 output(s); the reference has 1"),
        ("torch.empty(1 << 25)", "the outputs take 134217728 bytes"),
        ("torch.where(x > 0, x * 2, float('nan'))", "NaN where the reference is not"),
    ],
)
def test_wrong_outputs(run, returned, text):
    outcome = run(f"def kernel(x): return {returned}")
    assert outcome.verdict is Verdict.WRONG
    assert text in "\n".join(outcome.errors)


def test_a_kernel_that_writes_nothing_finds_poison(run):
    kernel = """
        calls = []
        def kernel(x):
            calls.append(1)
            return x * 2 if len(calls) == 1 else torch.empty_like(x)
    """
    assert run(kernel).verdict is Verdict.WRONG


def test_a_kernel_that_is_right_for_one_seed_only(run):
    kernel = """
        first = []
        def kernel(x):
            first.append(x * 2)
            return first[0].clone()
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.WRONG


def test_outputs_of_timed_calls_are_checked(run):
    kernel = """
        calls = []
        def kernel(x):
            calls.append(1)
            return x * 2 if len(calls) < 20 else torch.zeros_like(x)
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.WRONG
    assert outcome.errors[0].endswith("(a timed call)")


def test_one_timed_call_is_surely_judged(run, monkeypatch):
    kept = []
    keep = correctness.Checks.keep_last_call

    def noted(self, shared, which):
        kept.append(which)
        keep(self, shared, which)

    monkeypatch.setattr(correctness.Checks, "keep_last_call", noted)
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1)
    assert run("def kernel(x): return x * 2").verdict is Verdict.CORRECT
    assert kept == ["a timed call"]


@pytest.mark.slow
def test_outputs_of_rows_are_checked(run):
    kernel = """
        last = []
        def kernel(x):
            last.append(x.data_ptr())
            in_a_row = len(last) > 35 and last[-1] == last[-2] == last[-3]
            return torch.zeros_like(x) if in_a_row else x * 2
    """
    outcome = run(kernel, theirs=FakeMachine(FakeTimer(tells=0.7)))
    assert outcome.verdict is Verdict.WRONG


class FakeGpu:
    """Does what is queued, one after the other, while the host goes on."""

    def __init__(self):
        self.done = 0.0

    def work(self, seconds):
        self.done = max(self.done, time.monotonic()) + seconds

    def wait(self):
        time.sleep(max(0.0, self.done - time.monotonic()))


@pytest.fixture
def gpu(monkeypatch):
    gpu = FakeGpu()
    monkeypatch.setitem(sys.modules, "fake_gpu", gpu)
    return gpu


def on(gpu, tells):
    machine = FakeMachine(FakeTimer(tells=tells))
    machine.occupy, machine.synchronize = gpu.work, gpu.wait
    return machine


@pytest.mark.slow
def test_times_that_the_wall_clock_contradicts(run, gpu):
    kernel = """
        import fake_gpu
        def kernel(x):
            fake_gpu.work(0.02)
            return x * 2
    """
    outcome = run(kernel, theirs=on(gpu, tells=1.0))
    assert outcome.verdict is Verdict.CHEATING
    assert "by the referee's clock" in outcome.errors[0]


@pytest.mark.slow
def test_a_kernel_that_waits_for_the_gpu_gets_the_time_of_the_wall_clock(run, gpu):
    kernel = """
        import fake_gpu
        def kernel(x):
            fake_gpu.work(0.02)
            fake_gpu.wait()
            return x * 2
    """
    outcome = run(kernel, theirs=on(gpu, tells=1.0))
    assert outcome.verdict is Verdict.CORRECT
    assert "it waits for the GPU" in outcome.errors[0]
    assert outcome.measurement.method == outcome.protocol.method == "wall clock"
    # the slope of two clocked rows: 20 ms, but for jitter, which may go either way
    assert 5 < outcome.measurement.median_ms < 1000


@pytest.mark.slow
def test_throttled_calls(run):
    start = time.monotonic()  # the machine is too hot for 100 s from now on
    heated = [Sample(start + i / 200, 1410.0, reasons=0x40) for i in range(20_000)]
    outcome = run("def kernel(x): return x * 2", mine=reference(heated=heated))
    assert outcome.verdict is Verdict.UNSTABLE
    assert "hardware thermal slowdown" in outcome.errors[0]
    assert outcome.measurement.samples == 60


@pytest.mark.slow
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


def test_writing_into_inputs_that_the_reference_leaves_alone(run):
    outcome = run("def kernel(x):\n    y = x * 2\n    x.zero_()\n    return y")
    assert outcome.verdict is Verdict.WRONG
    assert "input tensor 0 was written into" in outcome.errors[0]


@pytest.mark.slow
def test_writes_in_place_that_change_no_value(run):
    head = """
        import torch
        def inputs(N=16, device="cuda"):
            return (torch.rand(N, device=device),)
        def reference(x):
            return torch.relu_(x)
    """
    assert run("def kernel(x): return torch.relu_(x)", head=head).verdict is Verdict.CORRECT


@pytest.mark.slow
def test_writing_into_inputs_as_the_reference_does(run):
    head = HEAD.replace("return x * 2", "return x.mul_(2)")
    assert run("def kernel(x): return x.mul_(2)", head=head).verdict is Verdict.CORRECT
    assert run("def kernel(x): return x * 2", head=head).verdict is Verdict.CORRECT


@pytest.mark.slow
def test_inputs_and_calls_are_seeded(run):
    head = HEAD.replace("return x * 2", "return x + torch.rand_like(x)")
    kernel = "def kernel(x): return torch.rand_like(x) + x"
    assert run(kernel, head=head).verdict is Verdict.CORRECT


def test_a_kernel_that_differs_from_call_to_call_is_told(run):
    kernel = """
        calls = []
        def kernel(x):
            calls.append(1)
            return x * 2 * (1 + 1e-6 * (len(calls) % 2))
    """
    outcome = run(kernel)
    assert outcome.verdict is Verdict.CORRECT
    assert outcome.errors == ("Nondeterministic output: two calls on the same inputs differ.",)


@pytest.mark.quick("raise SystemExit(3)-crashed-SystemExit: 3", "KeyboardInterrupt")
@pytest.mark.parametrize(
    ("body", "verdict", "text"),
    [
        ("raise ValueError('no')", Verdict.CRASHED, "ValueError: no"),
        ("raise SystemExit(3)", Verdict.CRASHED, "SystemExit: 3"),
        ("raise KeyboardInterrupt", Verdict.CRASHED, "KeyboardInterrupt"),
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


PRODUCT = """
import torch

def inputs(N=8, device="cuda"):
    return torch.randn(N, N, device=device), torch.randn(N, N, device=device)

def reference(a, b):
    return a @ b
"""


@pytest.mark.slow
def test_a_product_by_torch_where_a_kernel_of_its_own_was_asked_for(run):
    kernel = "def kernel(a, b): return torch.matmul(a, b)"
    assert run(kernel, head=PRODUCT).verdict is Verdict.CORRECT
    theirs = FakeMachine()
    outcome = run(kernel, head=PRODUCT, custom_kernel=True, theirs=theirs)
    assert outcome.verdict is Verdict.CHEATING
    assert outcome.errors[0] == "library fallback: the call hands its work to torch: aten.mm"
    assert any("calls torch.matmul" in hint for hint in outcome.errors[1:])  # in the source, too
    assert theirs.all_timers[0].calls == 0


@pytest.mark.slow
def test_torch_beside_a_kernel_of_its_own(run):
    kernel = """
        def kernel(a, b):
            out = torch.empty_like(a)
            torch.from_numpy(out.numpy())[:] = torch.from_numpy(a.numpy() @ b.numpy())
            return out.view(-1).reshape(8, 8)
    """
    machine = FakeMachine()
    machine.all_timers[0].kernels_ms = {"mine": 1.0, "Memset (Device)": 1.0}
    assert run(kernel, head=PRODUCT, custom_kernel=True, theirs=machine).verdict is Verdict.CORRECT


@pytest.mark.slow
def test_kernels_of_libraries_that_no_operator_gave_away(run):
    kernel = "def kernel(a, b): return torch.from_numpy(a.numpy() @ b.numpy())"
    machine = FakeMachine()
    machine.all_timers[0].kernels_ms = {"nvjet_hsh_128x256": 1.0}
    outcome = run(kernel, head=PRODUCT, custom_kernel=True, theirs=machine)
    assert outcome.verdict is Verdict.CHEATING
    assert "only library kernels ran: nvjet_hsh_128x256" in outcome.errors[0]
    assert run(kernel, head=PRODUCT, theirs=machine).verdict is Verdict.CORRECT


@pytest.mark.slow
def test_a_timer_that_cannot_name_kernels_is_told(run):
    kernel = "def kernel(a, b): return torch.from_numpy(a.numpy() @ b.numpy())"
    outcome = run(kernel, head=PRODUCT, custom_kernel=True)
    assert outcome.verdict is Verdict.CORRECT
    assert "The timer cannot tell whose kernels ran on the GPU." in outcome.errors


@pytest.mark.slow
def test_the_file_says_how_close_is_right(run):
    kernel = "def kernel(x): return x * 2 * 1.004"
    assert run(kernel).verdict is Verdict.WRONG
    own = HEAD + "TOLERANCE = {'rtol': 0.01, 'atol': 0.0}\n"
    assert run(kernel, head=own).verdict is Verdict.CORRECT


@pytest.mark.quick("torch.where(x.abs() < 1e-4, 0.0, x * 2)", "x.clamp(-8, 8) * 2")
@pytest.mark.parametrize(
    "computed",
    [
        "torch.where(x.abs() < 1e-4, 0.0, x * 2)",
        "torch.where(x.abs() < 1e-8, 0.0, x * 2)",
        "x.clamp(-8, 8) * 2",
    ],
)
def test_other_distributions_are_tried(run, computed):
    outcome = run(f"def kernel(x): return {computed}")
    assert outcome.verdict is Verdict.WRONG
    assert not outcome.errors[0].endswith(("(inputs())", "(inputs(), seed 1)"))


def test_held_out_shapes_are_tried(run):
    head = HEAD + "HELD_OUT_SHAPES = [{'N': 19}]\n"
    outcome = run("def kernel(x): return x.reshape(-1, 8).reshape(-1) * 2", head=head)
    assert outcome.verdict is Verdict.CRASHED
    outcome = run("def kernel(x): return x * (2 if len(x) == 16 else 3)", head=head)
    assert outcome.verdict is Verdict.WRONG
    assert outcome.errors[0].endswith("(held-out N=19)")
    other = "def kernel(x): return x * (2 if len(x) != 19 else 3)"
    assert run(other, head=head, is_right_elsewhere=True).verdict is Verdict.CORRECT
    hasty = run(other, head=head, checks_limit_s=0.0)
    assert (hasty.verdict, hasty.is_right_elsewhere) == (Verdict.CORRECT, False)


@pytest.mark.slow
def test_own_check(run):
    lax = HEAD + "def check(got, want): return True\n"
    assert run("def kernel(x): return x * 3", head=lax).verdict is Verdict.CORRECT


@pytest.mark.slow
def test_shape_and_params_arrive(run):
    kernel = """
        def kernel(x, *, SCALE=1):
            assert x.shape == (24,)
            return x * SCALE
    """
    assert run(kernel, shape={"N": 24}, params={"SCALE": 2}).verdict is Verdict.CORRECT


@pytest.mark.slow
def test_inputs_of_many_kinds_arrive(run):
    head = """
        import torch
        def inputs(N=8, device="cuda"):
            base = torch.randn(N, N, device=device)
            shared = {"t": base.T, "row": base[2, 1:], "n": 3, "dtype": torch.bfloat16}
            weight = torch.nn.Parameter(torch.randn(N, device=device))
            empty = torch.empty(0, device=device)
            return (base, [weight, empty], None), {"options": shared, "word": "relu"}
        def reference(x, weights, nothing, options, word):
            return (x * weights[0]).to(options["dtype"]), options["t"] + options["row"].sum()
    """
    kernel = """
        def kernel(x, weights, nothing, options, word):
            assert isinstance(weights[0], torch.nn.Parameter) and weights[0].requires_grad
            assert weights[1].shape == (0,) and nothing is None and word == "relu"
            assert options["t"].stride() == (1, 8) and options["t"].data_ptr() == x.data_ptr()
            assert options["row"].storage_offset() == 17 and options["n"] == 3
            return reference(x, weights, nothing, options, word)
    """
    assert run(kernel, head=head).verdict is Verdict.CORRECT


def test_a_candidate_in_a_file_of_its_own(run, tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text(HEAD)
    kernel = "import torch\ndef kernel(x, *, SCALE=1): return x * SCALE"
    outcome = run(kernel, head="", reference=str(problem), params={"SCALE": 2})
    assert outcome.verdict is Verdict.CORRECT


@pytest.mark.slow
def test_kernelbench(run):
    head = """
        import torch
        size = 8
        class Model(torch.nn.Module):
            def __init__(self, n):
                super().__init__()
                self.linear = torch.nn.Linear(n, n)
            def forward(self, x):
                return self.linear(x).relu()
        def get_inputs():
            return [torch.randn(4, size)]
        def get_init_inputs():
            return [size]
    """
    new = """
        class ModelNew(Model):
            def forward(self, x):
                return torch.clamp(self.linear(x), min=0)
    """
    assert run(new, head=head).verdict is Verdict.CORRECT
    assert run(new.replace("min=0", "min=0.1"), head=head).verdict is Verdict.WRONG


@pytest.mark.slow
def test_the_next_timer_is_used_from_the_start_where_the_first_fails(run):
    def machine():
        return FakeMachine(FakeTimer(fails=True), FakeTimer("fallback"))

    theirs = machine()
    outcome = run("def kernel(x): return x * 2", mine=machine(), theirs=theirs)
    assert outcome.verdict is Verdict.CORRECT
    assert outcome.errors == ("not timed by fake: no GPU activity",)
    assert outcome.measurement.method == outcome.protocol.method == "fallback"
    assert theirs.all_timers[1].calls == 70  # 10 pairs to warm up, 60 timed


def test_no_timer_works(run):
    with pytest.raises(WorkerError, match="no GPU activity"):
        run("def kernel(x): return x * 2", theirs=FakeMachine(FakeTimer(fails=True)))


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


def test_inputs_that_cannot_be_shared(run):
    head = HEAD.replace("device=device),)", "device=device), lambda: 1)")
    with pytest.raises(UnsupportedError, match="cannot be shared"):
        run("def kernel(x, f): return x", head=head.replace("reference(x)", "reference(x, f)"))


def test_a_file_with_a_reference_alone(run):
    with pytest.raises(KernelFileError, match="no kernel to measure"):
        run("")


HALF = "torch.where(torch.arange(4096) < 2048, x * 2, 0 * x)"


@pytest.mark.quick("x * 2-50.0-None")
@pytest.mark.parametrize(
    ("body", "hard_ms", "most"),
    [("x * 2", 1000.0, 4 * 4096), ("x * 2", 50.0, None), (HALF, 1000.0, 4 * 2048)],
)
def test_a_time_under_the_hard_bound_has_its_need_measured(run, body, hard_ms, most):
    head = HEAD.replace("N=16", "N=4096").replace("x * 2", body)
    outcome = run(f"def kernel(x): return {body}", head=head, hard_ms=hard_ms)
    assert outcome.verdict is Verdict.CORRECT, outcome.errors
    if most is None:
        assert outcome.needed is None
    else:
        assert 0.1 * most < outcome.needed.read_bytes <= most  # less where the machine is busy
        assert outcome.needed.write_bytes == 4 * 4096


@pytest.mark.slow
@pytest.mark.parametrize("error", [KernelFileError("no more", "mine.py"), torch.OutOfMemoryError()])
def test_a_need_that_cannot_be_measured_is_no_evidence(run, monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("solkit.measure.guarded.impossibility.measure_needed", fails)
    outcome = run("def kernel(x): return x + x", hard_ms=1000.0)
    assert (outcome.verdict, outcome.needed) == (Verdict.CORRECT, None)


def test_a_reference_that_breaks_the_context_on_changed_inputs_is_not_asked_again(run):
    outcome = run(
        "def kernel(x): return x + x", hard_ms=1000.0, skip=("measuring what the inputs need",)
    )
    assert (outcome.verdict, outcome.needed) == (Verdict.CORRECT, None)


@pytest.mark.slow
@pytest.mark.parametrize(("hopeless_ms", "samples"), [(None, 60), (4.0, 8), (1000.0, 60)])
def test_a_hopeless_candidate_is_timed_eight_times(run, hopeless_ms, samples):
    slow = "import time\n\ndef kernel(x):\n    time.sleep(0.008)\n    return x + x\n"
    outcome = run(slow, hopeless_ms=hopeless_ms)
    assert outcome.verdict is Verdict.CORRECT, outcome.errors
    assert outcome.measurement.samples == outcome.protocol.samples == samples
