from __future__ import annotations

import ctypes
import os
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.driver import driver as triton_driver
from triton.runtime.jit import JITFunction

from solkit.adapters import fake_triton, launch_recording, live_triton, triton_compiler
from solkit.roofline import devices

H100 = devices.find("h100")
COMPILING = JITFunction._do_compile  # before any test has patched it


@triton.jit
def copy_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def assembly_kernel(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wrong = tl.inline_asm_elementwise(
        "no.such.instruction $0, $1;", "=r,r", [at], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(x + at, wrong)


def launch(block=64, grid=(4,)):
    x = torch.randn(256, device="cuda")
    copy_kernel[grid](x, torch.empty_like(x), BLOCK=block)


def captured(run, params=None):
    with launch_recording.recording_launches(params or {}) as seen:
        run()
    return seen


def test_nothing_is_recorded_outside_and_inner_recordings_are_apart(in_child):
    def nested():
        launch()
        with launch_recording.recording_launches({}) as outer:
            launch(64)
            with launch_recording.recording_launches({}) as inner:
                launch(128)
        launch()
        return [[c.launch.constants["BLOCK"] for c in s.launches] for s in (outer, inner)]

    assert in_child(nested) == [[64], [128]]


def test_an_empty_grid_launches_nothing(in_child):
    assert in_child(lambda: len(captured(lambda: launch(grid=(0,))).launches)) == 0


def test_launches_alike_share_what_must_be_compiled(in_child):
    def share():
        first, second = captured(lambda: [launch(grid=(n,)) for n in (1, 2)]).launches
        return first.kernel is second.kernel

    assert in_child(share)


def test_the_interpreter_is_switched_off_and_caches_of_others_are_private(in_child):
    def environment():
        return triton.knobs.runtime.interpret, os.environ["FLAGGEMS_CACHE_DIR"]

    interpreting, folder = in_child(environment)
    assert not interpreting
    assert not Path(folder).is_relative_to(Path.home() / ".flaggems")


def test_a_second_compile_comes_from_the_cache(in_child, tmp_path):
    def twice():
        triton.knobs.cache.dir = str(tmp_path)
        (one,) = captured(launch).launches
        return [triton_compiler.compile_for(one.kernel, H100) for _ in range(2)]

    first, second = in_child(twice)
    assert first.seconds > 0
    assert second.seconds == 0
    assert (first.registers, first.error) == (second.registers, None)


def test_a_cache_is_filled_with_what_a_launch_needs(in_child, tmp_path, monkeypatch):
    source = "int cuInit(unsigned flags) { return 0; }"  # stands for the driver
    driver = tmp_path / "driver"
    driver.mkdir()
    build = ["cc", "-shared", "-x", "c", "-", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1"]
    subprocess.run(build, input=source, text=True, cwd=driver, check=True)
    (driver / "libcuda.so").symlink_to("libcuda.so.1")
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", str(driver))

    def fill():
        triton.knobs.cache.dir = str(tmp_path / "cache")
        ctypes.CDLL(str(driver / "libcuda.so.1"))
        (one,) = captured(launch).launches
        filled = triton_compiler.fill_cache(one.kernel, H100)
        return filled, triton_compiler.compile_for(one.kernel, H100)

    filled, compiled = in_child(fill)
    assert filled == replace(compiled, seconds=filled.seconds)
    assert len(list((tmp_path / "cache").glob("*/*.cubin"))) == 1
    launchers = list((tmp_path / "cache").glob("*/__triton_launcher*.so"))
    assert len(launchers) == (1 if triton.__version__.startswith("3.6.") else 0)


@pytest.mark.slow
def test_filling_a_cache_says_what_does_not_compile(in_child, tmp_path):
    def fill():
        triton.knobs.cache.dir = str(tmp_path)
        (one,) = captured(
            lambda: assembly_kernel[(1,)](torch.empty(64, device="cuda"), 64)
        ).launches
        return triton_compiler.fill_cache(one.kernel, H100).error

    assert "no.such.instruction" in in_child(fill) or "ptxas" in in_child(fill)


def test_ptxas_errors_are_short_and_its_dump_stays_off_the_console(in_child, capfd):
    def fail():
        x = torch.zeros(64, dtype=torch.int32, device="cuda")
        (one,) = captured(lambda: assembly_kernel[(1,)](x, BLOCK=64)).launches
        return triton_compiler.compile_for(one.kernel, H100)

    compiled = in_child(fail)
    assert compiled.error.startswith("ptxas")
    assert "Unknown modifier '.such'" in compiled.error
    assert len(compiled.error) < 300
    assert compiled.registers is None
    assert "ptxas" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("ptx", "result"),
    [
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", True),
        ("mma.sync.aligned.m16n8k16.row.col.f32", True),
        ("tcgen05.mma.cta_group::1.kind::f16", True),
        ("fma.rn.f32 %f1, %f2, %f3, %f4;\nwgmma.fence.sync.aligned;", False),
    ],
)
def test_tensor_core_instructions(ptx, result):
    assert triton_compiler.uses_tensor_cores(ptx) is result


@pytest.mark.parametrize(
    ("version", "warned"), [("3.5.1", 1), ("3.7.0+git", 0), ("3.9.1", 0), ("4.0", 1)]
)
def test_untested_versions_are_named(monkeypatch, version, warned):
    monkeypatch.setattr(triton, "__version__", version)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        triton_compiler.warn_if_untested()
    assert len(caught) == warned
    assert all(version in str(warning.message) for warning in caught)


def loading_driver():
    """A driver that loads kernels, with figures of its own, and launches nothing."""
    driver = fake_triton.fake_driver(H100)
    driver.launcher_cls = lambda *_: lambda *_: None
    driver.utils.load_binary = lambda *_: (0, 0, 42, 7, 1024)
    return driver


def test_live_launches_carry_what_the_driver_says(in_child):
    def live():
        JITFunction._do_compile = COMPILING
        triton_driver._active = loading_driver()
        launch()
        with live_triton.recording() as seen:
            launch(grid=(4, 2))
            launch(grid=(4, 2))
            launch(block=128)
        launch()
        return seen

    first, second = in_child(live)
    facts = first.facts
    assert (facts.registers, facts.spills, facts.shared_bytes) == (42, 7, 0)
    assert (first.launch.name, first.launch.grid, first.launch.count) == (
        "copy_kernel",
        (4, 2, 1),
        2,
    )
    assert (second.launch.constants, second.launch.count) == ({"BLOCK": 128}, 1)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def tuned_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


TUNING = type(tuned_kernel).run


def test_live_launches_leave_out_those_of_the_autotuner(in_child):
    def live():
        JITFunction._do_compile, type(tuned_kernel).run = COMPILING, TUNING
        triton_driver._active = loading_driver()
        timings = iter((2.0, 1.0))
        tuned_kernel._do_bench = lambda call, **_: (call(), [next(timings)] * 3)[1]
        x = torch.randn(256, device="cuda")
        with live_triton.recording() as seen:
            tuned_kernel[(2,)](x, torch.empty_like(x))
        return seen

    (only,) = in_child(live)
    assert (only.launch.constants, only.launch.count) == ({"BLOCK": 128}, 1)


def test_live_and_captured_launches_are_described_alike(in_child):
    def both():
        captured_launch = captured(launch).launches[0].launch
        JITFunction._do_compile = COMPILING
        copy_kernel.device_caches.clear()
        triton_driver._active = loading_driver()
        with live_triton.recording() as seen:
            launch()
        return captured_launch, seen[0].launch

    offline, live = in_child(both)
    assert offline == live


def test_fake_caches_lie_in_one_folder(in_child):
    folders = {in_child(lambda: os.environ["FLAGGEMS_CACHE_DIR"]) for _ in range(2)}
    assert len(folders) == 1
