"""Which launchers ask the GPU for the same, whatever their functions are called."""

from __future__ import annotations

import os
import sys
import time
from functools import partial

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import triton.language as tl_before
import triton.testing

from solkit.adapters.triton_compiler import Compiled
from solkit.analysis import cuda
from solkit.analysis.host_calls import recording_host_calls
from solkit.analysis.launch_identity import compiled_identity, launch_identity
from solkit.analysis.triton.capture import capture
from solkit.kernelfiles import Workload

CONFIGS = [
    triton.Config({"BLOCK": 64}, num_warps=2),
    triton.Config({"BLOCK": 128}, num_warps=4),
    triton.Config({"BLOCK": 256}, num_warps=8),
]


@triton.jit
def plus(x):
    return x + 1


@triton.jit
def add(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    # plus of each
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, plus(tl.load(x + at, mask=EVEN or at < n)), mask=EVEN or at < n)


def is_even(args):
    return args["n"] % args["BLOCK"] == 0


def zero_out(args):
    args["out"].zero_()


def drop_large(configs, named, **_):
    return [config for config in configs if config.kwargs["BLOCK"] <= named["n"]]


def tuned(function=add, even=is_even, configs=CONFIGS, key=("n",), **options):
    """An autotuner above heuristics."""
    return triton.autotune(list(configs), list(key), **options)(
        triton.heuristics({"EVEN": even})(function)
    )


def launcher(kernel, *, before=lambda _: None, grid=None, factor=1, **options):
    """Return a function that launches a kernel over a tensor."""

    def launch(x):
        out, n = torch.empty_like(x), x.numel()
        before(x)
        blocks = grid or (lambda meta: (triton.cdiv(n, meta["BLOCK"]) * factor,))
        kernel[blocks](x, out, n, **options)
        return out

    return launch


def identity(kernel, params=None, n=200, **options):
    launch = launcher(kernel, **options) if hasattr(kernel, "run") else kernel
    x = torch.randn(n, device="cuda")
    return launch_identity(Workload((x,), {}, None, launch), params or {})


@triton.jit
def plus_before(x):
    return x + 1


@triton.jit
def add_before(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    # plus of each
    at = tl_before.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, plus_before(tl.load(x + at, mask=EVEN or at < n)), mask=EVEN or at < n)


@triton.jit
def add_twice(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    twice = plus(plus(tl.load(x + at, mask=EVEN or at < n)))
    tl.store(out + at, twice, mask=EVEN or at < n)


def own_timer(kernel_call, quantiles):
    kernel_call()
    return [1.0] * len(quantiles)


def choice_reader(kernel):
    """Return a function whose launches go by what an autotuner has chosen."""

    def launch(x):
        out = launcher(kernel)(x)
        if kernel.best_config.num_warps == 4:
            out.zero_()
        return out

    return launch


def copied_first(x):
    return launcher(tuned())(x.contiguous() + 1)


def copied_first_elsewhere(x):
    y = x.contiguous() + 1
    return launcher(tuned(add_before))(y)


def launch_each(counts, x):
    """Launch one kernel after another, over so many elements."""
    out = torch.empty_like(x)
    for n in counts:
        add[(4,)](x, out, n, BLOCK=64, EVEN=False)
    return out


def wait(_):
    torch.cuda.synchronize()


def change_stream(_):
    torch.cuda.Stream().wait_stream(torch.cuda.current_stream())


def optimise_less(_):
    triton.knobs.nvidia.disable_ptxas_opt = True


def run_program(_):
    os.system("true")


def ask_sizes(x):
    return x.numel() < 1 or x.shape[0] < 1 or not x.is_contiguous() or len(x.stride()) > 3


LAYER = torch.nn.Linear(2, 2)


def ask_kinds(x):
    is_own = isinstance(x, torch.Tensor) and x.is_cuda and x.device.type != "cpu"
    return is_own and LAYER.weight.requires_grad


def import_first(_):
    sys.modules.pop("markupsafe", None)
    __import__("markupsafe")


PRUNED = {"prune_configs_by": {"early_config_prune": drop_large}}
ALIKE = [
    ((tuned(), {}), (tuned(), {})),
    ((tuned(), {}), (tuned(add_before), {})),  # other names, but for a comment's
    ((tuned(), {}), (tuned(even=lambda args: not args["n"] % args["BLOCK"]), {})),
    ((tuned(), {"n": 256}), (tuned(**PRUNED), {"n": 256})),  # it prunes nothing there
    ((tuned(**PRUNED), {}), (tuned(configs=CONFIGS[:2]), {})),
    ((tuned(configs=CONFIGS[1:2]), {}), (tuned(), {"params": {"BLOCK": 128}})),
    ((copied_first, {}), (copied_first_elsewhere, {})),  # operators on other lines
    ((tuned(), {}), (tuned(add_before), {"before": ask_sizes})),  # as guards of sizes do
    ((tuned(), {}), (tuned(), {"before": ask_kinds})),  # as those of a reference's program do
    ((tuned(), {}), (tuned(), {"before": import_first})),  # once in a process
    ((tuned(reset_to_zero=["out"]), {}), (tuned(add_before, reset_to_zero=["out"]), {})),
]
HOOKED = [triton.Config(c.kwargs, num_warps=c.num_warps, pre_hook=zero_out) for c in CONFIGS]
FEWER_REGISTERS = [triton.Config({"BLOCK": 64}, num_warps=2, maxnreg=32), *CONFIGS[1:]]
DIFFERENT = [
    (tuned(add_twice), {}),
    (tuned(configs=CONFIGS[:2]), {}),
    (tuned(configs=CONFIGS[::-1]), {}),
    (tuned(configs=HOOKED), {}),
    (tuned(configs=FEWER_REGISTERS), {}),
    (tuned(key=()), {}),
    (tuned(reset_to_zero=["out"]), {}),
    (tuned(restore_value=["out"]), {}),
    (tuned(even=lambda args: args["BLOCK"] > 1000), {"n": 256}),
    (tuned(), {"params": {"BLOCK": 128}}),
    (tuned(), {"factor": 2}),
    (tuned(), {"before": torch.clone}),
    (tuned(), {"launch_pdl": True}),
    *((tuned(), {"before": before}) for before in (wait, change_stream, run_program)),
    (tuned(), {"before": lambda _: time.sleep(0.001)}),
    (tuned(), {"before": lambda _: torch.empty(1 << 20, device="cuda")}),
    (tuned(), {"before": optimise_less}),
]
UNLIKE = [
    (partial(launch_each, (200, 200)), partial(launch_each, (200, 20))),  # how long loops are
    (partial(launch_each, (200, 20)), partial(launch_each, (20, 200))),
]
UNSEEN = [
    tuned(do_bench=own_timer),
    choice_reader(tuned()),
    lambda x: x + 1,  # no launch of its own
    lambda x: launcher(tuned())(x * triton.testing.do_bench(lambda: None)),
    None,
]


@pytest.fixture(scope="module")
def identities(in_child):
    """Those of all, in one child that has no GPU."""

    def compute():
        alike = [(identity(k, **how), identity(j, **other)) for (k, how), (j, other) in ALIKE]
        bases = {n: identity(tuned(), n=n) for n in (200, 256)}
        unlike = [(identity(one), identity(other)) for one, other in UNLIKE]
        different = [(identity(k, **how), bases[how.get("n", 200)]) for k, how in DIFFERENT]
        return alike, different, list(map(identity, UNSEEN)), unlike

    return in_child(compute)


@pytest.mark.parametrize("place", range(len(ALIKE)))
def test_launchers_that_ask_for_the_same_share_an_identity(identities, place):
    one, other = identities[0][place]
    assert one == other != ""


@pytest.mark.parametrize("place", range(len(DIFFERENT)))
def test_what_the_gpu_is_asked_for_tells_launchers_apart(identities, place):
    changed, base = identities[1][place]
    assert changed not in (base, "")


@pytest.mark.parametrize("place", range(len(UNSEEN)))
def test_launchers_whose_choices_are_not_seen_have_no_identity(identities, place):
    assert identities[2][place] == ""


@pytest.mark.parametrize("place", range(len(UNLIKE)))
def test_each_of_several_launches_of_a_kernel_counts_with_its_arguments(identities, place):
    one, other = identities[3][place]
    assert one != other
    assert "" not in (one, other)


def test_what_a_called_library_does_within_is_no_call_of_the_users():
    """SolKit calls NumPy, too, while a call is recorded, and keeps results in a process."""
    with recording_host_calls() as calls:
        np.unique(np.array([2, 1]))
        time.sleep(0.0)
    assert {"numpy.array", "time.sleep"} <= set(calls)
    assert "numpy.ndarray.sort" not in calls


def code_identity(binary=None, n=200, **options):
    """The identity of a call of `add` that is compiled to `binary`."""
    launch = launcher(add, BLOCK=128, EVEN=False, **options)
    workload = Workload((torch.randn(n, device="cuda"),), {}, None, launch)
    with cuda.recording() as seen:
        captured = capture(workload, {}, None, seen)
    binary = binary or Compiled(ptx="add.f32", shared_bytes=0)
    return compiled_identity(captured, {id(one.kernel): binary for one in captured.launches})


SAME_CODE = [
    {"num_stages": 4},  # it may change nothing that is compiled
    {"binary": Compiled(ptx="add.f32", shared_bytes=0, num_stages=4, seconds=2.0)},
]
OTHER_CODE = [
    {"binary": Compiled(ptx="fma.f32", shared_bytes=0)},
    {"binary": Compiled(ptx="add.f32", shared_bytes=64)},
    {"num_warps": 8},
    {"n": 201},
    {"factor": 2},
    {"before": torch.clone},
]
NO_CODE = [{"binary": Compiled(error="no room", ptx="add.f32")}, {"binary": Compiled()}]


def test_compiled_code_that_is_launched_alike_is_the_same(in_child):
    def compute():
        tables = [{}], SAME_CODE, OTHER_CODE, NO_CODE
        return [[code_identity(**changes) for changes in table] for table in tables]

    (own,), same, other, none = in_child(compute)
    assert same == [own, own]
    assert own not in other
    assert "" not in (own, *other)
    assert none == ["", ""]
