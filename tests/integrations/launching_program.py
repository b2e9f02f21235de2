"""A program that launches kernels of its libraries, on a fake H100: python launching_program.py.

Everything is Triton's own but the driver, so its cache is filled and asked as on a GPU. With
``ON_GPU`` in the environment it runs on one, and compiles a function with torch.compile as well.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver

import solkit
from solkit.adapters import fake_triton
from solkit.roofline import devices

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "tuner"):
    sys.path.insert(0, str(folder))

DEVICE = "cuda" if "ON_GPU" in os.environ else "cpu"

import call_kernels  # noqa: E402 - beside this file
import recorded_kernels  # noqa: E402


@triton.jit
def own_kernel(out_ptr, n, BLOCK: triton.language.constexpr):
    offsets = triton.language.arange(0, BLOCK)
    triton.language.store(out_ptr + offsets, recorded_kernels.scale(1.0), mask=offsets < n)


def launch() -> None:
    """Launch kernels that are plain, autotuned, under heuristics, a closure and the script's."""
    torch.set_default_device(DEVICE)
    x, out = torch.randn(4096), torch.empty(4096)
    call_kernels.add_kernel[(8,)](x, x, out, 1000, BLOCK=128, ADD=True, num_warps=2)
    call_kernels.add_kernel[(8,)](x[1:], x, out[3:], 1024, BLOCK=128, ADD=True)
    call_kernels.tuned_kernel[lambda meta: (1000 // meta["BLOCK"],)](x, out, 1000)
    recorded_kernels.listed_kernel[lambda meta: (512 // meta["BLOCK"],)](out, 512)
    half = torch.randn(512, dtype=torch.float16)
    recorded_kernels.modules_kernel[(4,)](half, torch.empty_like(half), 512, BLOCK=128)
    recorded_kernels.cubed[(1,)](x, out, recorded_kernels.scaled, BLOCK=64)
    own_kernel[(1,)](out, 1, BLOCK=16)
    if DEVICE == "cuda":
        torch.compile(lambda x: torch.softmax(x.view(4, 1024), 1) * 2 + 1)(x)


def fake_gpu(name: str) -> None:
    active = fake_triton.fake_driver(devices.find(name))
    active.launcher_cls = lambda *_: lambda *_: None
    driver._default = driver._active = active

    def bench(tuner, *args, config, **meta):
        tuner.fn.run(*args, **{**meta, **config.all_kwargs()})
        return [1.0]

    Autotuner._bench = bench


if __name__ == "__main__":
    if DEVICE == "cpu":
        fake_gpu("h100-sxm")
    if "RECORD" in os.environ:
        with solkit.recording(os.environ["RECORD"]):
            launch()
    else:
        from solkit.integrations import applying

        if DEVICE == "cpu":
            applying._live_device = lambda _: "h100-sxm"
        solkit.apply(os.environ["FOLDER"])
        launch()
        print(applying._STATE.watch.sentence())
