"""Triton's autotuner, driven by a fake driver and a fake benchmarker, with real pruning."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from dataclasses import dataclass
from unittest.mock import Mock

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver as triton_driver
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.adapters import fake_triton, live_autotuner, live_captures, triton_compiler
from solkit.core import Depth
from solkit.errors import InputError
from solkit.integrations import launch_forecasts, launches
from solkit.integrations import triton as integration
from solkit.roofline import devices
from solkit.surrogate.model import Surrogate
from solkit.surrogate.trees import Forecasts

H100 = devices.find("h100-sxm")
BLOCKS = (32, 64, 128, 256, 512, 1024)


@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def tile_kernel(desc, out, BLOCK: tl.constexpr):
    tile = desc.load([tl.program_id(0) * BLOCK, tl.program_id(1) * 64])
    tl.store(out, tl.sum(tl.sum(tile.to(tl.float32), axis=1), axis=0))


@triton.jit
def product_kernel(a, b, c, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in range(0, K, 32):
        k = at + tl.arange(0, 32)
        left = tl.load(a + rows[:, None] * K + k[None, :])
        right = tl.load(b + k[:, None] * 256 + cols[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(c + rows[:, None] * 256 + cols[None, :], acc)


@dataclass(frozen=True)
class Believes(Surrogate):
    """A model that expects a launch to take `slope` ** log2(blocks): no trees, no xgboost."""

    slope: float = 1.5

    def forecast(self, table, depth):
        self.card["asked"].append((depth, len(table)))
        return Forecasts.from_times(self.slope ** table.column("geometry.blocks"))


def model(slope=1.5):
    return Believes({"asked": []}, slope=slope)


@pytest.fixture(autouse=True)
def gpu(monkeypatch, tmp_path):
    """A GPU whose launches do nothing; `JITFunction.run` tells what would have been launched."""
    launched = []
    monkeypatch.setattr(triton_driver, "_active", fake_triton.fake_driver(H100))
    monkeypatch.setattr(integration, "_live_device", lambda _: H100)
    monkeypatch.setattr(JITFunction, "run", lambda _, *__, **result: launched.append(result))
    monkeypatch.setattr(launches, "fill_cache", lambda *_: None)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    yield launched
    integration.uninstall()


def tuner(gpu, times=None, blocks=BLOCKS, **options):
    """An autotuner of `scale_kernel`; the fake benchmarker tells a stored time of each block."""
    tried = []

    def bench(call, quantiles):
        call()
        block = gpu[-1]["BLOCK"]
        tried.append(block)
        return [(times or {}).get(block, 1.0)] * len(quantiles)

    configs = [triton.Config({"BLOCK": block}) for block in blocks]
    kernel = triton.autotune(configs, key=["n"], do_bench=bench, **options)(scale_kernel)
    return kernel, tried


def run(kernel, n=4096):
    x = torch.zeros(n, dtype=torch.float32)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, torch.empty_like(x), n)


@pytest.mark.slow
def test_only_promising_configurations_are_timed_and_the_first_is_among_them(gpu):
    kernel, tried = tuner(gpu, {32: 9.0, 512: 2.0, 1024: 3.0})
    integration.install(top_k=3, surrogate=model())
    run(kernel)
    assert tried == [32, 512, 1024]  # fewer blocks are believed faster; the list's order
    assert kernel.best_config.kwargs == {"BLOCK": 512}
    assert gpu[-1]["BLOCK"] == 512


@pytest.mark.slow
def test_another_belief_keeps_others(gpu):
    kernel, tried = tuner(gpu)
    integration.install(top_k=3, surrogate=model(slope=0.5))
    run(kernel)
    assert tried == [32, 64, 128]


@pytest.mark.slow
def test_kernels_defined_before_and_after_installing_are_pruned_until_it_is_undone(gpu):
    before, tried_before = tuner(gpu)
    integration.install(top_k=2, surrogate=model())
    integration.install(top_k=3, surrogate=model())  # replaces the first
    after, tried_after = tuner(gpu)
    run(before)
    run(after)
    assert (len(tried_before), len(tried_after)) == (3, 3)
    integration.uninstall()
    run(before, n=8192)
    assert len(tried_before) == 3 + len(BLOCKS)


@pytest.mark.slow
def test_attaching_concerns_one_kernel(gpu):
    original = Autotuner.prune_configs
    one, tried_one = tuner(gpu)
    other, tried_other = tuner(gpu)
    outer = triton.heuristics({})(one)
    assert integration.attach(outer, top_k=2, surrogate=model()) is outer
    run(one)
    run(other)
    assert (len(tried_one), len(tried_other)) == (2, len(BLOCKS))
    integration.install(top_k=4, surrogate=model())
    run(one, n=8192)
    assert len(tried_one) == 2 + 2
    integration.detach(outer)
    run(one, n=2048)
    assert len(tried_one) == 4 + 4
    integration.uninstall()
    assert Autotuner.prune_configs is original


def test_what_is_not_autotuned_cannot_be_attached():
    with pytest.raises(InputError, match="scale_kernel is not autotuned"):
        integration.attach(scale_kernel)
    with pytest.raises(InputError, match="top_k is 0"):
        integration.install(top_k=0)


@pytest.mark.slow
def test_the_users_own_pruning_comes_first(gpu):
    seen = []

    def early(configs, named, **kwargs):
        seen.append((sorted(named), sorted(kwargs)))
        return configs[2:]

    by = {"early_config_prune": early, "perf_model": lambda BLOCK, **_: BLOCK, "top_k": 3}
    kernel, tried = tuner(gpu, prune_configs_by=by)
    integration.install(top_k=2, surrogate=model())
    run(kernel)
    assert seen == [(["n", "out", "x"], ["grid", "warmup"])]
    assert tried == [128, 512]  # 128, 256 and 512 were left; the first of these and the best


def test_short_lists_are_left_alone(gpu):
    belief = model()
    kernel, tried = tuner(gpu)
    integration.install(top_k=len(BLOCKS), surrogate=belief)
    run(kernel)
    assert tried == list(BLOCKS)
    assert belief.card["asked"] == []


def test_a_hook_may_launch_another_autotuned_kernel(gpu):
    kernel, tried = tuner(gpu)
    other, tried_other = tuner(gpu)
    kernel.configs[1].pre_hook = lambda _: run(other)
    integration.install()
    thread = threading.Thread(target=run, args=(kernel,), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert tried == tried_other == list(BLOCKS)


@pytest.mark.parametrize("fails", ["a missing model", "ranking"])
def test_whatever_fails_tuning_goes_on_after_one_warning(gpu, monkeypatch, tmp_path, fails):
    kernel, tried = tuner(gpu)
    belief = model()
    if fails == "ranking":
        monkeypatch.setattr(Believes, "forecast", lambda *_: 1 / 0)
    else:
        belief = tmp_path / "missing.solkit"
    integration.install(top_k=2, surrogate=belief)
    with pytest.warns(RuntimeWarning, match="all 6 configurations of scale_kernel") as results:
        run(kernel)
    assert len(results) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kernel, n=8192)
    assert tried == 2 * list(BLOCKS)


@pytest.mark.slow
def test_a_configuration_that_cannot_be_captured_is_left_to_others(gpu):
    kernel, tried = tuner(gpu)
    kernel.configs[3].pre_hook = lambda _: 1 / 0
    integration.install(top_k=4, surrogate=model())
    run(kernel)
    assert tried == [32, 128, 512, 1024]


@pytest.mark.slow
def test_no_fewer_than_asked_are_timed_although_most_are_believed_to_fail(gpu, monkeypatch):
    monkeypatch.setattr(launch_forecasts, "_cannot_run", lambda facts, _: facts is not None)
    kernel, tried = tuner(gpu)
    integration.install(top_k=4, surrogate=model())
    run(kernel)
    assert len(tried) == 4


@pytest.mark.slow
def test_the_promising_are_lowered_and_the_rest_is_scaled(gpu, monkeypatch):
    monkeypatch.setattr(launches, "LOWERED_PER_KEPT", 1)
    belief = model()
    kernel, _ = tuner(gpu)
    integration.install(top_k=3, surrogate=belief)
    run(kernel)
    assert belief.card["asked"] == [
        (Depth.CAPTURED, 6),
        (Depth.LOWERED, 1),  # the first, which tells the kernel's work
        (Depth.CAPTURED, 6),
        (Depth.LOWERED, 4),
    ]


@pytest.mark.slow
def test_the_first_is_timed_even_if_it_is_believed_to_fail(gpu, monkeypatch):
    def cannot_run(facts, _):
        return facts is not None and facts.launch.constants["BLOCK"] == 32

    monkeypatch.setattr(launch_forecasts, "_cannot_run", cannot_run)
    kernel, tried = tuner(gpu)
    integration.install(top_k=2, surrogate=model())
    run(kernel)
    assert {32, 1024} <= set(tried)


def test_a_daemonic_process_ranks_by_itself(gpu, monkeypatch):
    monkeypatch.setattr(launches, "call_in_forks", None)
    monkeypatch.setattr(launches.multiprocessing, "current_process", lambda: Mock(daemon=True))
    kernel, tried = tuner(gpu)
    integration.install(top_k=3, surrogate=model())
    run(kernel)
    assert tried == [32, 512, 1024]


def test_forks_import_nothing_that_another_thread_is_importing(gpu, monkeypatch, tmp_path):
    """One launch is lowered and one compiled in the process, so no fork waits for an import."""
    lowered, own = [], os.getpid()
    lower = launches.lower_for

    def noting_lower(kernel, device):
        lowered.append(kernel)
        return lower(kernel, device)

    def compiled(kernel, _):
        (tmp_path / f"{os.getpid() == own}-{kernel.constexprs[3,]}").touch()

    monkeypatch.setattr(launches, "lower_for", noting_lower)
    monkeypatch.setattr(launches, "fill_cache", compiled)
    monkeypatch.setattr(launches, "_usable_cores", lambda: 2)
    monkeypatch.setattr(launches, "other_thread_imports", lambda: True)
    kernel, tried = tuner(gpu)
    integration.install(top_k=3, surrogate=model())
    run(kernel)
    assert tried == [32, 512, 1024]
    assert len(lowered) == 1  # those of forks are noted there
    names = sorted(path.name for path in tmp_path.glob("*-*"))
    assert names == ["False-1024", "False-512", "True-32"]


@pytest.mark.slow
def test_captured_forecasts_that_err_to_the_low_side_do_not_win(gpu, monkeypatch):
    def forecast(_, table, depth):
        error = 0.01 if depth is Depth.CAPTURED else 1.0
        return Forecasts.from_times(error * 1.5 ** table.column("geometry.blocks"))

    monkeypatch.setattr(launches, "LOWERED_PER_KEPT", 1)
    monkeypatch.setattr(Believes, "forecast", forecast)
    kernel, tried = tuner(gpu)
    integration.install(top_k=3, surrogate=model())
    run(kernel)
    assert tried == [32, 512, 1024]


@pytest.mark.slow
def test_triton_keeps_results_of_each_choice_and_shares_those_of_equal_ones(gpu):
    def timed(slope):
        integration.install(top_k=3, surrogate=model(slope))
        kernel, tried = tuner(gpu, cache_results=True)
        run(kernel)
        return tried

    assert timed(1.5) == [32, 512, 1024]
    assert timed(0.5) == [32, 64, 128]  # another model's choice: not the first one's results
    assert timed(1.7) == []  # other forecasts, the same choice
    assert timed(0.4) == []


@pytest.mark.slow
def test_kept_configurations_are_compiled_ahead(gpu, monkeypatch, tmp_path):
    def compiled(kernel, _):
        (tmp_path / f"compiled-{kernel.constexprs[3,]}").touch()  # in a process of its own

    monkeypatch.setattr(launches, "fill_cache", compiled)
    monkeypatch.setattr(launches, "_usable_cores", lambda: 2)
    kernel, tried = tuner(gpu)
    integration.install(top_k=3, surrogate=model())
    run(kernel)
    assert {path.name for path in tmp_path.glob("compiled-*")} == {
        f"compiled-{block}" for block in tried
    }


@pytest.mark.quick("24-6")
@pytest.mark.parametrize(("length", "timed"), [(15, 15), (16, 5), (24, 6), (40, 8)])
def test_by_default_short_lists_are_timed_whole_and_no_model_is_asked(gpu, length, timed):
    configs = [triton.Config({"BLOCK": 32}, num_warps=1, num_stages=n + 1) for n in range(length)]
    tried = []

    def bench(call, quantiles):
        call()
        tried.append(gpu[-1]["num_stages"])
        return [1.0] * len(quantiles)

    belief = model()
    kernel = triton.autotune(configs, key=["n"], do_bench=bench)(scale_kernel)
    integration.install(surrogate=belief)
    run(kernel)
    assert len(tried) == timed
    assert bool(belief.card["asked"]) == (length >= 16)


@pytest.mark.slow
def test_short_lists_are_compiled_ahead_unless_triton_has_them(gpu, monkeypatch, tmp_path):
    def compiled(kernel, device):
        triton_compiler.fill_cache(kernel, device)
        (tmp_path / f"compiled-{kernel.constexprs[3,]}-{os.getpid()}").touch()

    monkeypatch.setattr(launches, "fill_cache", compiled)
    monkeypatch.setattr(launches, "_usable_cores", lambda: 2)
    integration.install(surrogate=model())
    for _ in range(2):
        kernel, tried = tuner(gpu, blocks=(32, 64, 128))
        run(kernel)
        assert tried == [32, 64, 128]
    assert len(list(tmp_path.glob("compiled-*"))) == 3


@pytest.mark.slow
def test_triton_finds_what_was_compiled_ahead_in_its_cache(monkeypatch, tmp_path):
    configs = [triton.Config({"BLOCK": block}) for block in (64, 128)]
    kernel = triton.autotune(configs, key=[])(scale_kernel)
    x = torch.zeros(4096)
    result = call(kernel, (4,), x, x, 4096)
    reported_launches = [
        launches.Launch(live_captures.capture_launch(result, config), {}) for config in configs
    ]
    monkeypatch.setattr(launches, "fill_cache", triton_compiler.fill_cache)
    monkeypatch.setattr(launches, "_usable_cores", lambda: 2)
    launches.compile_ahead(reported_launches[:1] * 2, H100)
    assert list(tmp_path.rglob("*.cubin"))
    seconds = [
        triton_compiler.compile_for(reported_launch.captured.kernel, H100).seconds
        for reported_launch in reported_launches
    ]
    assert seconds[0] == 0.0  # from the cache
    assert seconds[1] > 0.0


# --------------------------------------------------------------------------- launches and problem


def call(kernel, grid, *args, **kwargs):
    named = dict(zip(kernel.arg_names, args, strict=False))
    return live_autotuner.Call(kernel, named, {"grid": grid, "warmup": False, **kwargs})


def test_a_launch_is_captured_as_triton_would_specialise_it():
    configs = [triton.Config({"BLOCK": 64}, num_warps=2, num_stages=5)]
    kernel = triton.autotune(configs, key=[])(scale_kernel)
    x = torch.zeros(1000, dtype=torch.float16)
    result = call(kernel, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 2), x, x, 1000)
    results = live_captures.capture_launch(result, configs[0])
    assert results.launch.grid == (16, 2, 1)
    assert (results.launch.num_warps, results.launch.num_stages) == (2, 5)
    assert results.launch.constants == {"BLOCK": 64}
    types = {"x": "*fp16", "out": "*fp16", "n": "i32", "BLOCK": "constexpr"}
    assert results.launch.signature == types
    assert results.arguments["x"].shape == (1000,)
    assert results.arguments["n"] == 1000
    result = call(kernel, (1,), torch.arange(1000), x, 1000)
    assert live_captures.capture_launch(result, configs[0]).arguments["x"].contents is None


def test_heuristics_and_hooks_are_heard():
    hooked = []
    configs = [triton.Config({}, pre_hook=lambda result: hooked.append(result["n"]))]
    inner = triton.heuristics({"BLOCK": lambda result: triton.next_power_of_2(result["n"])})
    kernel = triton.autotune(configs, key=[])(inner(scale_kernel))
    x = torch.zeros(100)
    results = live_captures.capture_launch(call(kernel, (7,), x, x, 100), configs[0])
    assert results.launch.constants == {"BLOCK": 128}
    assert results.launch.grid == (7, 1, 1)
    assert hooked == [100]


def test_the_blocks_of_tma_descriptors_are_those_that_the_hook_sets():
    def hook(result):
        result["desc"].block_shape = [result["BLOCK"], 64]

    configs = [triton.Config({"BLOCK": block}, pre_hook=hook) for block in (32, 128)]
    kernel = triton.autotune(configs, key=[])(tile_kernel)
    x = torch.zeros((256, 256), dtype=torch.float16)
    descriptor = TensorDescriptor.from_tensor(x, [1, 1])
    requests = call(kernel, lambda meta: (256 // meta["BLOCK"], 4), descriptor, torch.zeros(8))
    results = [live_captures.capture_launch(requests, config) for config in configs]
    assert [result.arguments["desc"].block for result in results] == [(32, 64), (128, 64)]
    assert [result.launch.signature["desc"] for result in results] == [
        "tensordesc<fp16[32, 64]>",
        "tensordesc<fp16[128, 64]>",
    ]
    (facts,) = launches._lower_launches([launches.Launch(results[1], {})], H100)
    assert facts.error is None
    problem = launch_forecasts._launch_problem(launches.Launch(results[1], {}), [facts], H100)
    assert problem.read_bytes == 2 * 256 * 256


@pytest.mark.slow
def test_the_problem_is_the_kernels_own_work():
    configs = [triton.Config({"BLOCK": block}) for block in (32, 64, 128)]
    kernel = triton.autotune(configs, key=[])(product_kernel)
    m, n, k = 256, 256, 512
    a, b = torch.zeros((m, k), dtype=torch.float16), torch.zeros((k, n), dtype=torch.float16)
    c = torch.zeros((m, n))
    result = call(kernel, lambda meta: (m // meta["BLOCK"], n // meta["BLOCK"]), a, b, c, k)
    reported_launches = [
        launches.Launch(live_captures.capture_launch(result, config), {}) for config in configs
    ]
    facts = launches._lower_launches(reported_launches, H100)
    launch_problem = launch_forecasts._launch_problem(reported_launches[0], facts, H100)
    assert launch_problem.operations["tensor.fp16"] == 2 * m * n * k
    assert launch_problem.read_bytes == 2 * (m * k + k * n)
    assert launch_problem.write_bytes == 4 * m * n
    assert sorted(launch_problem.shape.values()) == [256, 512]
    dram_ms = (
        1e3 * (launch_problem.read_bytes + launch_problem.write_bytes) / H100.ceilings["dram"].value
    )
    tensor_ms = 1e3 * 2 * m * n * k / H100.ceilings["tensor.fp16"].value
    assert launch_problem.sol_ms == pytest.approx(max(dram_ms, tensor_ms))
    blind = launch_forecasts._launch_problem(
        reported_launches[0], [], H100
    )  # nothing could be lowered
    assert (blind.read_bytes, blind.write_bytes) == (
        launch_problem.read_bytes,
        launch_problem.write_bytes,
    )
    assert blind.limiter == "dram"


def test_a_process_that_dies_costs_its_share_alone(monkeypatch):
    configs = [triton.Config({"BLOCK": block}) for block in BLOCKS]
    kernel = triton.autotune(configs, key=[])(scale_kernel)
    x = torch.zeros(4096)
    result = call(kernel, (4,), x, x, 4096)
    reported_launches = [
        launches.Launch(live_captures.capture_launch(result, config), {}) for config in configs
    ]
    real = launches.lower_for

    def crash(kernel, device):
        if kernel.constexprs[3,] == 64:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(kernel, device)

    monkeypatch.setattr(launches, "lower_for", crash)
    monkeypatch.setattr(launches, "_usable_cores", lambda: 2)
    lower_launches = launches._lower_launches(reported_launches, H100)
    assert [lower_launch is None for lower_launch in lower_launches] == [False, True] * 3
    assert [lower_launch.launch.constants["BLOCK"] for lower_launch in lower_launches[::2]] == list(
        BLOCKS[::2]
    )
