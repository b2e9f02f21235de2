"""Tuned folders in a program: Triton's autotuner, plain launches and Inductor's kernels.

All are the real ones; a fake driver and compiler tell what would have been launched.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver as triton_driver
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from solkit.adapters import fake_triton, live_tuned
from solkit.adapters.launch_records import program_digest
from solkit.adapters.triton_compiler import Specialisation, ttgir_text
from solkit.core.tuned import LaunchBucket, TunedEntry, TunedFolder
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.errors import InputError
from solkit.integrations import applying
from solkit.roofline import devices

H100 = devices.find("h100-sxm")
N = 4096
GRIDS = []
"""Of launches, in order."""


@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def shift_kernel(x, out, n, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, shift + tl.load(x + at, mask=at < n), mask=at < n)


class Compiled:
    """A kernel that compiles at once and tells its launches."""

    function, packed_metadata = 0, ()

    def __init__(self, name, constants, options, launched):
        self.launch = {"kernel": name, **constants, "num_warps": options.num_warps}
        self.launch["num_stages"] = options.num_stages
        self.launched = launched

    def launch_metadata(self, *_):
        return None

    def run(self, *grid_and_more):
        self.launched.append(self.launch)
        GRIDS.append(grid_and_more[:3])

    def __getitem__(self, grid):
        return lambda *_: self.run(*grid)

    @property
    def asm(self):
        return {"ttgir": ttgir_text(self.made_from, triton_driver.active.get_current_target())}


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """An H100; gives the launches."""
    launched = []
    GRIDS.clear()

    def compile_at_once(self, key, signature, device, constants, options, attrs, *_):
        named = {self.arg_names[path[0]]: value for path, value in constants.items()}
        if options.num_warps > 16:
            raise CompileTimeAssertionFailure(None, None, "too many warps")
        kernel = Compiled(self.__name__, named, options, launched)
        made_from = Specialisation(self, signature, constants, attrs, vars(options))
        kernel.made_from = made_from
        self.device_caches[device][0][key] = kernel
        return kernel

    monkeypatch.setattr(triton_driver, "_active", fake_triton.fake_driver(H100))
    monkeypatch.setattr(JITFunction, "_do_compile", compile_at_once)
    monkeypatch.setattr(applying, "_live_device", lambda _: "h100-sxm")
    monkeypatch.delenv("SOLKIT_APPLY", raising=False)
    for kernel in (scale_kernel, shift_kernel):
        monkeypatch.setattr(
            kernel, "device_caches", type(kernel.device_caches)(kernel.create_binder)
        )
    yield launched
    applying.withdraw()


BUCKET = LaunchBucket({}, {"n": N}, {"x": (N,), "out": (N,)}, {"x": "fp32", "out": "fp32"})
PARAMS = {"BLOCK": 256, "num_warps": 4, "num_stages": 3}


def entry(kernel=scale_kernel, launcher="autotuner", **changes):
    whole = TunedEntry(
        *(kernel.__name__, program_digest(kernel), launcher, BUCKET),
        *({**PARAMS, "BLOCK": 64}, PARAMS),
    )
    return replace(whole, **changes)


def use(tmp_path, *entries, **changes):
    folder = TunedFolder("h100-sxm", "", triton.__version__, entries)
    write_tuned_folder(tmp_path, replace(folder, **changes))
    applying.apply(tmp_path)


def tuner(blocks=(64, 256, 1024), kernel=scale_kernel, **options):
    """An autotuner that finds the first configuration fastest, and the blocks that it timed."""
    timed = []

    def bench(call, **_):
        call()
        timed.append(1)
        return [float(len(timed))] * 3

    configs = [triton.Config({"BLOCK": block}) for block in blocks]
    return triton.autotune(configs, key=["n"], do_bench=bench, **options)(kernel), timed


def run(kernel, n=N, **kwargs):
    x = torch.zeros(n, dtype=kwargs.pop("dtype", torch.float32))
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, torch.empty_like(x), n, **kwargs)


def whys():
    return [choice.why for choice in applying.applied()]


# ------------------------------------------------------------------------------ the autotuner


def test_an_autotuner_gets_its_tuned_configuration_and_times_nothing(gpu, tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry())
    run(kernel)
    run(kernel)
    assert not timed
    assert [launch["BLOCK"] for launch in gpu] == [256, 256]
    (choice,) = applying.applied()
    assert (choice.kernel, choice.applied, choice.params) == ("scale_kernel", True, PARAMS)


def test_sizes_of_another_bucket_are_timed_as_before(gpu, tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry())
    run(kernel, n=8192)
    assert len(timed) == 3
    assert whys() == ["no tuned size is like this launch's"]
    run(kernel, n=4080)  # rounds up to 4096
    assert len(timed) == 3
    assert gpu[-1]["BLOCK"] == 256


def test_the_closest_size_of_a_bucket_decides(gpu, tmp_path):
    kernel, _ = tuner()
    near = replace(BUCKET, scalars={"n": 2560}, shapes={"x": (2560,), "out": (2560,)})
    use(tmp_path, entry(), entry(bucket=near, params={**PARAMS, "BLOCK": 1024}))
    run(kernel, n=2576)
    assert gpu[-1]["BLOCK"] == 1024
    run(kernel, n=4064)
    assert gpu[-1]["BLOCK"] == 256


def test_a_dtype_that_was_not_tuned_is_timed(tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry())
    run(kernel, dtype=torch.float16)
    assert len(timed) == 3


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"triton": "3.1.0"}, f"it was tuned with Triton 3.1.0, and this is {triton.__version__}"),
        ({"device": "a100-sxm4-80gb"}, "it was tuned on a100-sxm4-80gb, and this is h100-sxm"),
    ],
)
def test_another_gpu_or_triton_is_left_alone(tmp_path, changes, why):
    kernel, timed = tuner()
    use(tmp_path, entry(), **changes)
    run(kernel)
    assert len(timed) == 3
    assert whys() == [why]


def test_a_kernel_whose_text_changed_is_left_alone(tmp_path):
    kernel, timed = tuner(kernel=shift_kernel)
    use(tmp_path, entry(kernel=shift_kernel, program="0"))
    run(lambda_grid(kernel))
    assert len(timed) == 3
    assert whys() == ["its text, or that of a function it calls, is not the one that was tuned"]


def lambda_grid(kernel):
    """A kernel of `shift_kernel`'s arguments, as `run` calls it."""

    class Indexed:
        def __getitem__(self, grid):
            return lambda x, out, n, **kwargs: kernel[grid](x, out, n, 1, **kwargs)

    return Indexed()


def test_a_configuration_beyond_the_list_needs_compared_outputs(gpu, tmp_path):
    beyond = {**PARAMS, "BLOCK": 512, "num_warps": 8}
    kernel, timed = tuner()
    use(tmp_path, entry(params=beyond))
    run(kernel)
    assert len(timed) == 3
    assert whys() == ["it is not on the list, and outputs were not compared"]
    other, timed = tuner()
    use(tmp_path, entry(params=beyond, verified=True))
    run(other)
    assert not timed
    assert (gpu[-1]["BLOCK"], gpu[-1]["num_warps"]) == (512, 8)


def test_parameters_that_the_list_does_not_have_are_left_alone(tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry(params={**PARAMS, "SPLIT": 2}, verified=True))
    run(kernel)
    assert len(timed) == 3
    assert whys() == ["its parameters are not those of the autotuner's list"]


def test_what_the_kernels_own_pruning_refuses_is_not_applied(tmp_path):
    def early(configs, *_, **__):
        return [config for config in configs if config.kwargs["BLOCK"] <= 64]

    kernel, timed = tuner(prune_configs_by={"early_config_prune": early})
    use(tmp_path, entry())
    run(kernel)
    assert len(timed) == 1
    assert whys() == ["ValueError: the kernel's early_config_prune leaves it out at this launch"]


def test_a_configuration_that_does_not_compile_is_not_applied(tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry(params={**PARAMS, "num_warps": 32}, verified=True))
    run(kernel)
    assert len(timed) == 3
    assert whys()[0].startswith("CompileTimeAssertionFailure")
    assert not applying.applied()[0].applied


def test_a_configuration_is_timed_at_a_key_without_an_entry(tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry())
    run(kernel)
    run(kernel, n=100_000)
    assert len(timed) == 3  # the applied one among them


@pytest.mark.parametrize("order", [(N, N // 4), (N // 4, N)])
def test_a_key_that_is_coarser_than_the_tuned_sizes_keeps_them_apart(gpu, tmp_path, order):
    kernel, timed = tuner()
    kernel.keys = []  # one choice for all sizes
    use(tmp_path, entry())
    for n in (*order, *order):
        run(kernel, n=n)
    blocks = [launch["BLOCK"] for launch in gpu if launch["num_warps"]][-2:]
    assert blocks == [256 if n == N else 64 for n in order]
    assert len(timed) == 3  # the other size, once
    assert list(dict.values(kernel.cache)) == [kernel.configs[0]]


def test_a_tuner_that_keeps_times_on_disk_keeps_none_of_an_applied_choice(tmp_path, monkeypatch):
    kernel, _ = tuner()
    kernel.cache_results = True
    monkeypatch.setattr(Autotuner, "check_disk_cache", lambda *_: pytest.fail("it is asked"))
    use(tmp_path, entry())
    run(kernel)
    assert not dict.__len__(kernel.cache)


def test_an_applied_choice_is_gone_once_it_is_withdrawn(gpu, tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry())
    run(kernel)
    applying.withdraw()
    run(kernel)
    assert len(timed) == 3
    assert gpu[-1]["BLOCK"] == 64


def test_hooks_of_the_configuration_and_of_the_tuner_run_before_the_launch(tmp_path):
    seen = []
    kernel, _ = tuner(reset_to_zero=["out"])
    for config in kernel.configs:
        config.pre_hook = lambda named: seen.append(named["BLOCK"])
    use(tmp_path, entry())
    run(kernel)
    assert set(seen) == {256}


class KeepsResults(Autotuner):
    """As FlagGems' tuner: it runs and times by itself, and keeps what it chose in a file."""

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs)
        times = [self._bench(*args, config=config, **kwargs) for config in configs]
        config = configs[times.index(min(times))]
        self.kept = min(times)
        return self.fn.run(*args, **kwargs, **config.all_kwargs())


class Delegates(Autotuner):
    """As flash-linear-attention's: it prepares something, and tunes as Triton does."""

    def run(self, *args, **kwargs):
        return super().run(*args, **kwargs)


def test_a_tuner_that_keeps_results_of_its_own_gets_no_time_that_was_not_measured(gpu, tmp_path):
    kernel, timed = tuner()
    kernel.__class__ = KeepsResults
    use(tmp_path, entry())
    run(kernel)
    assert len(timed) == 3
    assert kernel.kept == [1.0] * 3
    assert whys() == ["ValueError: its autotuner, KeepsResults, keeps results of its own"]
    assert gpu[-1]["BLOCK"] == 64


def test_a_tuner_that_delegates_gets_its_configuration(gpu, tmp_path):
    kernel, timed = tuner()
    kernel.__class__ = Delegates
    use(tmp_path, entry())
    run(kernel)
    assert not timed
    assert gpu[-1]["BLOCK"] == 256


def test_heuristics_between_tuner_and_kernel_are_kept(gpu, tmp_path):
    inner = triton.heuristics({"shift": lambda named: named["BLOCK"] // 2})(shift_kernel)
    kernel, timed = tuner(kernel=inner)
    use(tmp_path, entry(kernel=shift_kernel))
    run(kernel)
    assert not timed
    assert gpu[-1]["BLOCK"] == 256


def test_threads_launch_at_once(gpu, tmp_path):
    kernels = [tuner()[0] for _ in range(8)]
    use(tmp_path, entry())
    threads = [threading.Thread(target=run, args=(kernel,)) for kernel in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [launch["BLOCK"] for launch in gpu] == [256] * 8


# ------------------------------------------------------------------------------ plain launches

WARPS = {**PARAMS, "BLOCK": 64, "num_warps": 8}


def plain(**changes):
    return entry(launcher="jit", **{"params": WARPS, "verified": True, **changes})


def test_a_plain_launch_gets_warps_once_outputs_were_compared(gpu, tmp_path):
    use(tmp_path, plain())
    for _ in range(2):
        run(scale_kernel, BLOCK=64)
    assert [launch["num_warps"] for launch in gpu] == [8, 8]
    run(scale_kernel, n=8192, BLOCK=64)
    run(scale_kernel, BLOCK=64, num_warps=2)
    assert [launch["num_warps"] for launch in gpu[2:]] == [4, 2]
    assert whys() == [
        "",
        "no tuned size is like this launch's",
        "the program now launches it with num_warps=2",
    ]


def launch_scaled(kernel, n, **kwargs):
    x = torch.zeros(N)
    kernel[(1,)](x, torch.empty_like(x), n, BLOCK=64, **kwargs)


def test_equal_numbers_of_other_types_are_other_launches(gpu, tmp_path):
    one = replace(BUCKET, scalars={"n": 1})
    use(tmp_path, plain(bucket=one))
    for n in (1, 1.0, True):
        launch_scaled(scale_kernel, n)
    assert [launch["num_warps"] for launch in gpu] == [8, 4, 4]


def test_a_choice_is_for_the_gpu_that_it_was_made_for(gpu, tmp_path, monkeypatch):
    devices_of = {0: "h100-sxm", 1: "a100-sxm-80gb"}
    monkeypatch.setattr(applying, "_live_device", devices_of.__getitem__)
    use(tmp_path, plain())
    for index in (0, 1):
        monkeypatch.setattr(live_tuned, "_current_device", lambda index=index: index)
        run(scale_kernel, BLOCK=64)
    assert [launch["num_warps"] for launch in gpu] == [8, 4]


def test_a_choice_that_loads_is_tried_again_at_another_alignment(gpu, tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(live_tuned, "_load", tried.append)
    use(tmp_path, plain())
    whole = torch.zeros(N + 1)
    for x in (whole[:N], whole[1:], whole[:N]):
        scale_kernel[(1,)](x, torch.empty(N), N, BLOCK=64)
    assert len(tried) == 2
    assert [launch["num_warps"] for launch in gpu] == [8, 8, 8]


def test_a_number_that_changes_at_every_launch_costs_no_memory(gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(live_tuned, "_MOST_CHOICES", 3)
    use(tmp_path, plain())
    for n in range(100, 110):
        launch_scaled(scale_kernel, n)
    run(scale_kernel, BLOCK=64)
    assert len(scale_kernel._solkit_plan.choices) == 3
    assert gpu[-1]["num_warps"] == 4  # it came too late to be looked up


def test_options_that_were_not_varied_stay_as_the_launch_has_them(gpu, tmp_path):
    use(tmp_path, plain(in_use={"num_warps": 4}, params={"num_warps": 8}))
    run(scale_kernel, BLOCK=64, num_stages=2)
    assert (gpu[-1]["num_warps"], gpu[-1]["num_stages"]) == (8, 2)


def test_parts_of_a_configuration_choose_one_of_the_list(gpu, tmp_path):
    kernel, timed = tuner()
    use(tmp_path, entry(in_use={"BLOCK": 64}, params={"BLOCK": 1024}))
    run(kernel)
    assert not timed
    assert gpu[-1]["BLOCK"] == 1024


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verified": False}, "outputs with it were not compared"),
        ({"params": PARAMS}, "the caller's code may use BLOCK elsewhere, as in its grid"),
        ({"params": {**PARAMS, "BLOCK": 64}}, "it is in use already"),
    ],
)
def test_a_plain_launch_keeps_its_blocks_and_what_was_not_compared(gpu, tmp_path, changes, why):
    use(tmp_path, plain(**changes))
    run(scale_kernel, BLOCK=64)
    assert (gpu[-1]["BLOCK"], gpu[-1]["num_warps"]) == (64, 4)
    assert whys() == [why]


TILED = {"BLOCK": 256, "num_warps": 8, "num_stages": 3}


def tiled(kernel=scale_kernel, **changes):
    in_use = {**PARAMS, "BLOCK": 64}
    own = {"in_use": in_use, "params": TILED, "tiles": ("BLOCK",), "verified": True}
    return entry(kernel, "jit", **{**own, **changes})


@pytest.mark.parametrize("by_position", [True, False])
def test_a_tile_of_a_plain_launch_is_changed_with_its_grid(gpu, tmp_path, by_position):
    use(tmp_path, tiled())
    x = torch.zeros(N)
    rest = ((x, x, N, 64), {}) if by_position else ((x, x, N), {"BLOCK": 64})
    for grid in ((N // 64,), (N // 64, 1, 1), lambda meta: (N // meta["BLOCK"],)):
        scale_kernel[grid](*rest[0], **rest[1])
    assert [(launch["BLOCK"], launch["num_warps"]) for launch in gpu] == 3 * [(256, 8)]
    assert GRIDS == 3 * [(16, 1, 1)]
    assert [choice.applied for choice in applying.applied()] == [True]


def test_a_tile_stays_where_the_grid_cannot_follow(gpu, tmp_path):
    use(tmp_path, tiled())
    x = torch.zeros(N)
    scale_kernel[(63,)](x, x, N, BLOCK=64)  # 4,032 elements are no multiple of 256
    assert (gpu[-1]["BLOCK"], GRIDS[-1]) == (64, (63, 1, 1))


def test_who_launches_the_compiled_kernel_again_gives_grids_of_his_own(gpu, tmp_path):
    use(tmp_path, tiled())
    x = torch.zeros(N)
    kernel = scale_kernel[(N // 64,)](x, x, N, BLOCK=64)
    kernel[(32, 1, 1)](x, x, N)
    kernel[(33, 1, 1)](x, x, N)
    kernel.run(7, 1, 1)  # whoever goes around that gets the kernel that he asked for
    blocks = [launch["BLOCK"] for launch in gpu]
    assert (blocks[1:], [grid[0] for grid in GRIDS[1:]]) == ([256, 64, 64], [8, 33, 7])


@triton.jit
def neighbours_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + (at + 1) % n))


def test_a_tile_stays_where_arguments_share_memory_that_is_written(gpu, tmp_path):
    use(tmp_path, tiled(neighbours_kernel))
    pool, x = torch.zeros(N + 4), torch.zeros(N)

    def launch(source, out):
        return neighbours_kernel[(N // 64,)](source, out, N, BLOCK=64)

    kernel = launch(x, torch.zeros(N))
    launch(pool[:N], pool[4:])
    launch(x, x)
    launch(x, torch.zeros(N))
    kernel[(32, 1, 1)](pool[:N], pool[4:], N, 64)
    kernel[(32, 1, 1)](x, torch.zeros(N), N, 64)
    assert [launch["BLOCK"] for launch in gpu[1:]] == [64, 64, 256, 64, 256]
    assert [grid[0] for grid in GRIDS[1:]] == [64, 64, 16, 32, 8]


@triton.jit
def columns_kernel(x, out, n, columns, pitch, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = at // columns * pitch + at % columns
    tl.store(out + place, tl.load(x + place, mask=at < n), mask=at < n)


def test_views_of_one_projection_are_apart_by_the_sizes_of_each_launch(gpu, tmp_path):
    use(tmp_path, tiled(columns_kernel, bucket=LaunchBucket({}, {"n": N}, {}, {})))
    pool = torch.zeros(N // 32, 96)  # columns of three views: 32 of each row

    def launch(source, out, columns):
        columns_kernel[(N // 64,)](source, out, N, columns, 96, BLOCK=64)

    for columns in (32, 33, 32):
        launch(pool[:, :32], pool[:, 32:64], columns)
    launch(pool[:, 64:], pool[:, 32:64], 32)
    launch(pool[:, 31:], pool[:, 32:64], 32)
    kernel = columns_kernel[(N // 64,)](torch.zeros(N * 3), pool, N, 32, 96, BLOCK=64)
    kernel[(N // 64, 1, 1)](pool[:, :32], pool[:, 32:64], N, 32, 96, 64)
    kernel[(N // 64, 1, 1)](pool[:, :32], pool[:, 31:64], N, 32, 96, 64)
    blocks = [launch["BLOCK"] for launch in gpu]
    assert blocks == [256, 64, 256, 256, 64, 256, 256, 64]


def test_a_tile_stays_where_a_hook_of_the_kernel_gets_it(gpu, tmp_path, monkeypatch):
    use(tmp_path, tiled())
    monkeypatch.setattr(scale_kernel, "pre_run_hooks", [lambda *_, **__: None])
    x = torch.zeros(N)
    scale_kernel[(N // 64,)](x, x, N, BLOCK=64)
    assert (gpu[-1]["BLOCK"], GRIDS[-1]) == (64, (64, 1, 1))


def test_a_tile_is_proved_for_what_works_in_place_and_for_what_does_not(gpu, tmp_path):
    use(tmp_path, tiled())
    x = torch.zeros(N)
    for out in (x, torch.zeros(N), x):
        scale_kernel[(N // 64,)](x, out, N, BLOCK=64)
    assert [launch["BLOCK"] for launch in gpu] == 3 * [256]


def test_a_compiled_kernel_can_be_copied(gpu, tmp_path):
    use(tmp_path, tiled())
    x = torch.zeros(N)
    kernel = copy.copy(scale_kernel[(N // 64,)](x, x, N, BLOCK=64))
    kernel[(32, 1, 1)](x, x, N)
    assert (gpu[-1]["BLOCK"], GRIDS[-1][0]) == (256, 8)


@triton.jit
def sums_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n), axis=0))


def test_a_folder_that_calls_a_block_a_tile_is_not_believed(gpu, tmp_path):
    use(tmp_path, tiled(sums_kernel))
    x = torch.zeros(N)
    sums_kernel[(N // 64,)](x, x, N, BLOCK=64)
    assert (gpu[-1]["BLOCK"], GRIDS[-1]) == (64, (64, 1, 1))
    assert whys() == ["ValueError: its code does not show that only the grid follows from BLOCK"]


def test_a_plain_launch_that_does_not_compile_with_it_runs_as_before(gpu, tmp_path):
    use(tmp_path, plain(params={**WARPS, "num_warps": 32}))
    run(scale_kernel, BLOCK=64)
    assert gpu[-1]["num_warps"] == 4
    assert whys()[0].startswith("CompileTimeAssertionFailure")


# ------------------------------------------------------------------------------ refused later


class Refusing:
    """Lets a launch with some option fail from the second one on, as the compiler or driver do."""

    def __init__(self, monkeypatch, error, **options):
        self.error, self.options, self.tries = error, options, 0
        original = JITFunction.run

        def run(kernel, *args, **kwargs):
            if not kwargs.get("warmup") and self.options.items() <= kwargs.items():
                self.tries += 1
                if self.tries > 1:
                    raise self.error
            return original(kernel, *args, **kwargs)

        monkeypatch.setattr(JITFunction, "run", run)


REFUSALS = [
    OutOfResources(300_000, 232_448, "shared memory"),
    RuntimeError("Triton Error [CUDA]: invalid argument"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=["resources", "driver"])
def test_a_plain_launch_that_is_refused_later_runs_as_before(gpu, tmp_path, monkeypatch, error):
    refusing = Refusing(monkeypatch, error, num_warps=8)
    use(tmp_path, plain())
    for _ in range(4):
        run(scale_kernel, BLOCK=64)
    assert [launch["num_warps"] for launch in gpu] == [8, 4, 4, 4]
    assert refusing.tries == 2
    assert whys() == ["", f"{type(error).__name__}: {error}"]


@pytest.mark.parametrize("error", REFUSALS, ids=["resources", "driver"])
def test_an_autotuned_launch_that_is_refused_later_is_timed(gpu, tmp_path, monkeypatch, error):
    Refusing(monkeypatch, error, BLOCK=256)
    kernel, timed = tuner(blocks=(64, 1024))
    use(tmp_path, entry(verified=True))
    for _ in range(3):
        run(kernel)
    assert len(timed) == 2
    assert [launch["BLOCK"] for launch in gpu] == [256, 64, 1024, 64, 64]
    assert whys() == ["", f"{type(error).__name__}: {error}"]


def test_an_error_of_the_program_is_its_own(gpu, tmp_path, monkeypatch):
    Refusing(monkeypatch, ZeroDivisionError("in a hook"), num_warps=8)
    use(tmp_path, plain())
    run(scale_kernel, BLOCK=64)
    with pytest.raises(ZeroDivisionError, match="in a hook"):
        run(scale_kernel, BLOCK=64)
    assert [launch["num_warps"] for launch in gpu] == [8]
    assert whys() == [""]


def test_a_choice_that_no_longer_compiles_is_given_up(gpu, tmp_path, monkeypatch):
    use(tmp_path, plain())
    run(scale_kernel, BLOCK=64)
    compiled = scale_kernel._do_compile

    def compile_few(key, signature, device, constants, options, *rest):
        if options.num_warps == 8:
            raise RuntimeError("PassManager::run failed")
        return compiled(key, signature, device, constants, options, *rest)

    monkeypatch.setattr(scale_kernel, "_do_compile", compile_few)
    scale_kernel[(1,)](torch.zeros(N), torch.zeros(N + 1)[1:], N, BLOCK=64)
    monkeypatch.setattr(
        scale_kernel, "device_caches", type(scale_kernel.device_caches)(scale_kernel.create_binder)
    )
    run(scale_kernel, BLOCK=64)
    assert [launch["num_warps"] for launch in gpu] == [8, 4, 4]


def test_withdrawn_or_replaced_folders_apply_no_longer(gpu, tmp_path):
    use(tmp_path, plain())
    run(scale_kernel, BLOCK=64)
    use(tmp_path, plain(params={**WARPS, "num_warps": 2}))
    run(scale_kernel, BLOCK=64)
    applying.withdraw()
    run(scale_kernel, BLOCK=64)
    assert [launch["num_warps"] for launch in gpu] == [8, 2, 4]


def test_withdrawing_puts_back_what_was_wrapped(tmp_path):
    originals = JITFunction.run, Autotuner.prune_configs, Autotuner.run
    use(tmp_path, plain())
    assert JITFunction.run is not originals[0]
    applying.withdraw()
    assert (JITFunction.run, Autotuner.prune_configs, Autotuner.run) == originals


def test_what_others_wrapped_since_passes_calls_on(gpu, tmp_path, monkeypatch):
    use(tmp_path, plain())
    ours = JITFunction.run
    monkeypatch.setattr(JITFunction, "run", lambda *args, **kwargs: ours(*args, **kwargs))
    applying.withdraw()
    run(scale_kernel, BLOCK=64)
    assert gpu[-1]["num_warps"] == 4
    monkeypatch.undo()
    assert JITFunction.run is ours
    applying.withdraw()
    assert JITFunction.run is not ours


def test_a_kernel_without_an_entry_is_asked_about_once(tmp_path, monkeypatch):
    use(tmp_path, plain())
    requests = []
    monkeypatch.setattr(applying._TunedChooser, "names", lambda *result: requests.append(result))
    run(lambda_grid(shift_kernel), BLOCK=64)
    run(lambda_grid(shift_kernel), BLOCK=64)
    assert len(requests) == 1


# ------------------------------------------------------------------------------ the whole


def test_the_environment_turns_it_off(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLKIT_APPLY", "0")
    kernel, timed = tuner()
    use(tmp_path, entry())
    run(kernel)
    assert len(timed) == 3
    assert applying.applied() == ()


def test_a_foreign_folder_is_refused_and_launches_stay_as_they_are(tmp_path):
    kernel, timed = tuner()
    with pytest.raises(InputError, match="is no tuned folder"):
        applying.apply(tmp_path)
    run(kernel)
    assert len(timed) == 3


def test_an_error_of_solkits_own_costs_no_launch(tmp_path, monkeypatch):
    monkeypatch.setattr(applying, "_digest_of", lambda _: 1 / 0)
    kernel, timed = tuner()
    use(tmp_path, entry(), plain())
    run(kernel)
    run(scale_kernel, BLOCK=64)
    assert len(timed) == 3
    assert whys() == ["ZeroDivisionError: division by zero"] * 2


def test_the_summary_names_what_was_applied_and_why_the_rest_was_not(tmp_path, capsys):
    kernel, _ = tuner()
    changed = entry(kernel=shift_kernel, program="0")
    use(tmp_path, entry(), changed, replace(entry(), kernel="other"))
    run(kernel)
    other, _ = tuner(kernel=shift_kernel)
    run(lambda_grid(other))
    applying._print_summary()
    assert capsys.readouterr().err == (
        f"solkit: {tmp_path}: applied to 1 kernels (scale_kernel); not applied: shift_kernel "
        "(its text, or that of a function it calls, is not the one that was tuned); "
        "other (not launched in this process)\n"
    )
