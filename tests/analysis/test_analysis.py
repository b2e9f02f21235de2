"""Unmodified launchers of every kind, captured and compiled for an H100 with no GPU."""

from __future__ import annotations

import functools
import importlib.util
import math

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.errors import ParamsError
from solkit.kernelfiles import Workload
from solkit.roofline import devices

N = 1000


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.autotune(
    [triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 512}, num_warps=8)],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at))
    else:
        tl.store(out + at, tl.load(x + at, at < n), at < n)


@triton.jit
def matmul_kernel(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    sums = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([row, k]), b.load([k, column]), sums)
    c.store([row, column], sums.to(tl.float16))


@triton.jit
def spilling_kernel(x, out, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    kept = value
    for _ in tl.static_range(ROUNDS):
        kept = tl.sqrt(kept + 1)
    tl.store(out + at, value + kept)


@triton.jit
def broken_kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), no_such_name)  # noqa: F821


def cuda(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, device="cuda")


def add(x, y, block=128):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, y, out, N, BLOCK=block)
    return out


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, out, N)
    return out


def matmul(num_stages):
    def run(a, b):
        c = torch.empty(512, 512, dtype=a.dtype, device=a.device)
        described = (
            TensorDescriptor.from_tensor(tensor, block)
            for tensor, block in ((a, [128, 64]), (b, [64, 128]), (c, [128, 128]))
        )
        matmul_kernel[(4, 4)](
            *described, 256, M=128, N=128, BK=64, num_warps=8, num_stages=num_stages
        )

    return run


def half(*shape):
    return cuda(*shape, dtype=torch.float16)


@pytest.fixture
def analysed(in_child):
    """Analyse a launcher on what `make` returns, for a device."""

    def run(kernel, make=lambda: (cuda(N), cuda(N)), device="h100", **params):
        def child():
            workload = Workload(make(), {}, None, kernel)
            return analyse(workload, devices.find(device), params, 2)

        return in_child(child, device=device)

    return run


def only(analysis):
    assert analysis.status is AnalysisStatus.COMPLETE, analysis
    (kernel,) = analysis.own
    return kernel


def test_a_plain_launch(analysed):
    kernel = only(analysed(add))
    launch = kernel.launch
    assert (launch.name, launch.grid, launch.count) == ("add_kernel", (8, 1, 1), 1)
    assert (launch.num_warps, launch.num_stages, launch.num_ctas) == (4, 3, 1)
    assert launch.constants == {"BLOCK": 128}
    assert launch.signature["x"] == "*fp32"
    assert (kernel.facts.spills, kernel.facts.shared_bytes, kernel.facts.tensor_cores) == (
        0,
        0,
        False,
    )
    assert 8 <= kernel.facts.registers <= 32
    assert kernel.occupancy.fraction == 1.0
    assert kernel.occupancy.waves == 8 / (16 * 132)


def test_addresses_and_sizes_specialise_as_on_a_gpu(in_child):
    def attributes():
        from solkit.analysis.triton.capture import capture

        shifted = Workload((cuda(N + 1)[1:], cuda(N)), {}, None, add)
        aligned = Workload((cuda(N), cuda(N)), {}, None, add)
        kernels = [capture(workload, {}).launches[0].kernel for workload in (aligned, shifted)]
        return [sorted(at for at, known_value in k.attrs.items() if known_value) for k in kernels]

    # arguments by position: x, y, out are 16-byte aligned, n = 1000 is no multiple of 16;
    # `x[1:]` is 4 bytes off
    assert in_child(attributes) == [[(0,), (1,), (2,)], [(1,), (2,)]]


@pytest.mark.slow
def test_launches_alike_are_counted_and_others_listed_in_order(analysed):
    def several(x, y):
        for _ in range(3):
            add(x, y)
        add(x, y, block=256)
        add(x, y)

    kernels = analysed(several).kernels
    assert [(k.launch.grid[0], k.launch.count) for k in kernels] == [(8, 4), (4, 1)]


def test_autotuning_shows_the_first_configuration(analysed):
    analysis = analysed(tuned, lambda: (cuda(N),))
    launch = only(analysis).launch
    assert (launch.constants["BLOCK"], launch.num_warps) == (256, 2)
    assert launch.constants["EVEN"] is False  # the heuristic: 1000 % 256
    (note,) = analysis.notes
    assert "tuned_kernel: 2 configurations, showing the first: BLOCK=256, num_warps=2" in note


@pytest.mark.slow
def test_autotuning_shows_the_configuration_asked_for(analysed):
    analysis = analysed(tuned, lambda: (cuda(N),), BLOCK=512)
    launch = only(analysis).launch
    assert (launch.constants["BLOCK"], launch.num_warps, launch.grid[0]) == (512, 8, 2)
    assert "showing the one asked for: BLOCK=512" in analysis.notes[0]
    assert only(analysed(tuned, lambda: (cuda(N),), num_warps=8)).launch.num_warps == 8


def test_a_configuration_that_is_not_there_is_an_error(in_child):
    def ask():
        workload = Workload((cuda(N),), {}, None, tuned)
        with pytest.raises(ParamsError, match=r"BLOCK=77.*BLOCK=256, .*BLOCK=512"):
            analyse(workload, devices.find("h100"), {"BLOCK": 77}, 1)
        return True

    assert in_child(ask)


def test_tensor_descriptors_and_tensor_cores(analysed):
    kernel = only(analysed(matmul(3), lambda: (half(512, 256), half(256, 512))))
    assert kernel.launch.grid == (4, 4, 1)
    assert kernel.facts.tensor_cores
    # 3 stages of a 128x64 and a 64x128 tile of fp16 are 96 KiB; a few bytes of barriers
    assert 98304 <= kernel.facts.shared_bytes <= 98304 + 1024


def test_too_much_shared_memory_is_told_as_triton_tells_it(analysed):
    analysis = analysed(matmul(8), lambda: (half(512, 256), half(256, 512)))
    assert analysis.status is AnalysisStatus.PARTIAL
    (kernel,) = analysis.own
    assert kernel.facts.shared_bytes >= 8 * 32768
    assert kernel.error.startswith(
        f"out of resource: shared memory, Required: {kernel.facts.shared_bytes}, "
        "Hardware limit: 232448"
    )
    assert kernel.occupancy is None


def test_spills(analysed):
    def run(x):
        spilling_kernel[(1,)](x, torch.empty_like(x), BLOCK=32768, ROUNDS=2, num_warps=4)

    # 32,768 values over 128 threads are 256 registers each, one more than a thread can have
    kernel = only(analysed(run, lambda: (cuda(32768),)))
    assert kernel.facts.registers == 255
    assert kernel.facts.spills > 0


def test_front_end_errors_name_the_users_line(analysed):
    analysis = analysed(lambda x: broken_kernel[(1,)](x, BLOCK=16), lambda: (cuda(16),))
    assert analysis.status is AnalysisStatus.PARTIAL
    (kernel,) = analysis.own
    line = broken_kernel.fn.__code__.co_firstlineno + 2  # decorator, def, then the store
    assert kernel.error.startswith(f"test_analysis.py:{line}: NameError")
    assert kernel.facts.registers is None


def test_launchers_may_ask_for_the_gpu(analysed):
    def persistent(x, y):
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        shared = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
        assert triton.runtime.driver.active.get_current_target().arch == 90
        add_kernel[(sms, shared // 1024)](x, y, torch.empty_like(x), N, BLOCK=128)

    assert only(analysed(persistent)).launch.grid == (132, 227, 1)


def test_warmup_compiles_and_its_kernel_launches(analysed):
    def run(x, y):
        out = torch.empty_like(x)
        kernel = add_kernel.warmup(x, y, out, N, BLOCK=128, grid=(1,))
        kernel._init_handles()
        kernel[(kernel.n_regs, 1, 1)](x, y, out, N, 128)

    kernel = only(analysed(run))
    assert kernel.launch.grid == (kernel.facts.registers, 1, 1)


def test_guesses_are_told_with_the_line(analysed):
    def run(x, y):
        add_kernel[(int(x.max().item()) + 4,)](x, y, torch.empty_like(x), N, BLOCK=128)

    analysis = analysed(run)
    assert only(analysis).launch.grid == (5, 1, 1)
    line = run.__code__.co_firstlineno + 1
    assert analysis.notes[0].startswith(f"{__file__}:{line}: a torch.float32 value")


def test_what_a_kernel_wrote_is_not_known(analysed):
    def run(x, y):
        count = torch.zeros(N, dtype=torch.float32, device="cuda")
        add_kernel[(8,)](x, y, count, N, BLOCK=128)
        count[0].item()

    assert any("guessed" in note for note in analysed(run).notes)


def test_a_tuner_of_ones_own_launches_nothing_while_it_times(analysed):
    def run(x, y):
        best = min((128, 256), key=lambda b: triton.testing.do_bench(lambda: add(x, y, b)))
        add(x, y, best)

    analysis = analysed(run)
    assert only(analysis).launch.count == 1
    assert "do_bench" in analysis.notes[0]


@pytest.mark.parametrize("wrapped", ["triton_op", "custom_op"])
def test_custom_ops_launch_their_own_kernels(in_child, wrapped):
    def child():
        @getattr(torch.library, wrapped)(f"solkit_test::{wrapped}", mutates_args=())
        def op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            kernel = add_kernel
            if wrapped == "triton_op":
                kernel = torch.library.wrap_triton(add_kernel)
            kernel[(8,)](x, y, out, N, BLOCK=128)
            return out

        op.register_fake(lambda x, _: torch.empty_like(x))
        run = getattr(torch.ops.solkit_test, wrapped)
        workload = Workload((cuda(N), cuda(N)), {}, None, lambda x, y: run(x, y) + op(x, y))
        return analyse(workload, devices.find("h100"), {}, 1)

    assert only(in_child(child)).launch.count == 2


@pytest.mark.parametrize(
    "order", [("kernel", "fake"), ("fake", "kernel"), ("kernel", "meta"), ("meta", "kernel")]
)
def test_ops_of_a_library_launch_their_own_kernels(in_child, order):
    def child():
        lib = torch.library.Library("solkit_test_lib", "DEF")
        lib.define("op(Tensor x, Tensor y) -> Tensor")
        registered = {
            "kernel": lambda: lib.impl("op", add, dispatch_key="CUDA"),
            "fake": lambda: lib._register_fake("op", lambda x, _: torch.empty_like(x)),
            "meta": lambda: lib.impl(
                "op", lambda x, _: torch.empty_like(x), "Meta", allow_override=False
            ),
        }
        for name in order:
            registered[name]()
        run = torch.ops.solkit_test_lib.op
        workload = Workload((cuda(N), cuda(N)), {}, None, lambda x, y: run(x, y))
        return analyse(workload, devices.find("h100"), {}, 1)

    assert only(in_child(child)).launch.name == "add_kernel"


@pytest.mark.slow
def test_launches_of_a_backward_pass(analysed):
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(_, x, y):
            return add(x, y)

        @staticmethod
        def backward(_, grad):
            add(grad, grad, block=512)
            return grad, None

    def run(x, y):
        Add.apply(x.requires_grad_(), y).sum().backward()

    assert [k.launch.constants["BLOCK"] for k in analysed(run).own] == [128, 512]


def test_a_candidate_that_launches_nothing_is_told_so(analysed):
    analysis = analysed(lambda x, _: x.view(10, 100))
    assert analysis.status is AnalysisStatus.NOT_CAPTURED
    assert "launches nothing" in analysis.notes[0]


def test_a_candidate_that_fails_is_told_with_its_line(analysed):
    def run(*_):
        raise KeyError("what the user got wrong")

    analysis = analysed(run)
    assert analysis.status is AnalysisStatus.NOT_CAPTURED
    line = run.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}: KeyError: 'what the user got wrong'" in analysis.notes[0]


def test_an_error_within_triton_names_the_launchers_line(analysed):
    def run(x, y):
        add_kernel[(8,)](x, y, torch.empty_like(x), N, BLOCK=128, no_such_option=1)

    line = run.__code__.co_firstlineno + 1
    (note,) = analysed(run).notes
    assert f"{__file__}:{line}: KeyError" in note
    assert "no_such_option" in note


def test_reading_unknown_contents_ends_the_capture_not_the_program(analysed):
    analysis = analysed(lambda x, _: x.new_empty(1 << 27).numpy(force=True))
    assert analysis.status is AnalysisStatus.NOT_CAPTURED
    assert "unknown contents of a large tensor" in analysis.notes[0]


def test_old_gpus_get_no_analysis(analysed):
    analysis = analysed(add, device="t4")
    assert analysis.status is AnalysisStatus.UNSUPPORTED_DEVICE
    assert "7.5" in analysis.notes[0]


def test_kernels_on_amd_gpus_are_analysed_and_the_model_is_doubted(analysed):
    analysis = analysed(add, device="mi300x")
    assert analysis.status is AnalysisStatus.COMPLETE
    kernel = only(analysis)
    assert kernel.facts.registers is not None
    assert kernel.model is not None
    assert "not validated for gfx942" in analysis.notes[-1]


@pytest.mark.slow
def test_other_targets_compile_for_themselves(analysed):
    def run(a, b):
        return matmul(2)(a, b)

    a100 = only(analysed(run, lambda: (half(512, 256), half(256, 512)), device="a100-80gb-sxm"))
    assert a100.facts.tensor_cores
    assert a100.facts.shared_bytes <= 163 * 1024  # what a block may have there: programming guide


LIGER = {
    "rms_norm": (lambda o: o.LigerRMSNormFunction.apply(_grad(256, 512), _grad(512), 1e-6), 2),
    "swiglu": (lambda o: o.LigerSiLUMulFunction.apply(_grad(256, 512), _grad(256, 512)), 2),
    "cross_entropy": (
        lambda o: o.LigerCrossEntropyFunction.apply(
            _grad(256, 1024), torch.randint(0, 1024, (256,), device="cuda"), None
        ),
        1,
    ),
    "layer_norm": (
        lambda o: o.LigerLayerNormFunction.apply(_grad(256, 512), _grad(512), _grad(512), 1e-6),
        2,
    ),
}


def _grad(*shape):
    return cuda(*shape, dtype=torch.bfloat16).requires_grad_()


def _through(function):
    """Forward and backward of a function of Liger's operators."""
    import liger_kernel.ops

    out = function(liger_kernel.ops)
    out = out[0] if isinstance(out, tuple) else out
    out.backward(torch.ones_like(out))


def _launched_by_liger():
    workloads = {
        name: Workload((), {}, None, functools.partial(_through, function))
        for name, (function, _) in LIGER.items()
    }
    return {
        name: analyse(workload, devices.find("h100"), {}, 1) for name, workload in workloads.items()
    }


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("liger_kernel"), reason="needs liger-kernel")
def test_launchers_of_liger_kernel(in_child):
    """All in one child: Liger imports torch's compiler, which takes seconds."""
    for name, analysis in in_child(_launched_by_liger).items():
        assert analysis.status is AnalysisStatus.COMPLETE, analysis
        assert len(analysis.own) == LIGER[name][1], name
        assert all(math.prod(kernel.launch.grid) > 1 for kernel in analysis.own), name


class Leaving(BaseException):
    """What no ``except Exception`` catches."""


@pytest.mark.parametrize("error", [SystemExit(3), Leaving("gone")])
def test_a_candidate_that_leaves_is_not_captured(analysed, error):
    def leave(*_):
        raise error

    analysis = analysed(leave)
    assert analysis.status is AnalysisStatus.NOT_CAPTURED
    assert f"{type(error).__name__}: {error}" in analysis.notes[0]
