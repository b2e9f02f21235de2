"""From a recording to an applied configuration: both see the same program and the same bucket."""

from __future__ import annotations

import call_kernels
import pytest
import recorded_kernels
import torch
import triton
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

import solkit
from solkit.adapters import fake_triton
from solkit.core.tuned import TunedEntry, TunedFolder, bucket_of_launch
from solkit.datasets.launch_recordings import read_launch_recording
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.integrations import applying
from solkit.roofline import devices


@pytest.fixture(autouse=True)
def launched(monkeypatch):
    """Options of the launches, on a fake H100."""
    options = []

    def launch_nothing(kernel, *args, grid, warmup, **kwargs):
        if not warmup:
            if callable(grid):
                grid({**dict(zip(kernel.arg_names, args, strict=False)), **kwargs})
            options.append(kwargs)

    active = fake_triton.fake_driver(devices.find("h100-sxm"))
    monkeypatch.setattr(JITFunction, "run", launch_nothing)
    monkeypatch.setattr(driver, "_active", active)
    monkeypatch.setattr(applying, "_live_device", lambda _: "h100-sxm")
    yield options
    applying.withdraw()


def add():
    x, y, out = torch.randn(1000), torch.ones(1000), torch.empty(1000)
    grid = lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)  # noqa: E731 - as launchers have it
    call_kernels.add_kernel[grid](x, y, out, 1000, BLOCK=128, ADD=True)


def helpers_of_modules():
    x = torch.randn(512, dtype=torch.float16)
    recorded_kernels.modules_kernel[(4,)](x, torch.empty_like(x), 512, BLOCK=128)


def outer_heuristics():
    recorded_kernels.even_kernel[(4,)](torch.empty(512), 512, BLOCK=128)


def passed_function():
    x = torch.randn(64)
    recorded_kernels.cubed[(1,)](x, torch.empty(64), recorded_kernels.scaled, BLOCK=64)


def booleans_and_views():
    mask = torch.ones(4, 64, dtype=torch.bool)
    recorded_kernels.rows_kernel[(2,)](
        mask, torch.empty(2, 64)[:, ::1], torch.tensor([1, 0]), 64, COLS=64, num_warps=2
    )


def own_list():
    kernel = triton.autotune(recorded_kernels.listed_kernel.configs, key=["n"], do_bench=bench)
    kernel(recorded_kernels.listed_kernel.fn)[lambda meta: (512 // meta["BLOCK"],)](
        torch.empty(512), 512
    )


def bench(call, **_):
    call()
    return [1.0] * 3


def record(folder, call):
    with solkit.recording(folder):
        call()
    (launch,) = read_launch_recording(folder).launches
    return launch


def tune(folder, launch, **changes):
    """A folder with another number of warps for a recorded launch."""
    params = {**launch.params, **changes}
    assert params != launch.params
    entry = TunedEntry(
        *(launch.launch.name, launch.launch.program.digest, launch.launcher),
        bucket_of_launch(launch.launch, launch.params),
        *(launch.params, params, None, True),
    )
    write_tuned_folder(folder, TunedFolder("h100-sxm", "", triton.__version__, (entry,)))


@pytest.mark.parametrize(
    "call", [add, helpers_of_modules, outer_heuristics, passed_function, booleans_and_views]
)
def test_a_plain_launch_gets_what_its_recording_was_tuned_to(tmp_path, launched, call):
    launch = record(tmp_path / "recorded", call)
    tune(tmp_path / "tuned", launch, num_warps=8)
    solkit.apply(tmp_path / "tuned")
    call()
    assert [choice.why for choice in solkit.applied()] == [""]
    assert launched[-1]["num_warps"] == 8


def test_an_autotuned_launch_gets_what_its_recording_was_tuned_to(tmp_path, launched):
    launch = record(tmp_path / "recorded", own_list)
    assert launch.launcher == "autotuner"
    tune(tmp_path / "tuned", launch, BLOCK=256, num_warps=8)
    solkit.apply(tmp_path / "tuned")
    launched.clear()
    own_list()
    assert [choice.why for choice in solkit.applied()] == [""]
    assert [(options["BLOCK"], options["EVEN"]) for options in launched] == [(256, True)]
