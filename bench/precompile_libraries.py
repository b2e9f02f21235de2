"""Kernels of libraries compiled ahead, and how many of them a second process finds; no GPU.

    python bench/precompile_libraries.py --work /tmp/ahead --json precompile_libraries.json

Needs ``liger-kernel`` and ``fla-core``; a library that is missing is left out. Three processes a
library: its operators run on a fake H100, whose launches are recorded and whose driver alone is
made up; `solkit precompile` compiles the recording; the operators run again with an empty cache.
A library that stands in the JSON is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEVICE = "h100-sxm"


def liger_kernel() -> None:
    import torch
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.rope import LigerRopeFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    def tensor(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)

    x, wide = tensor(512, 1024), tensor(512, 2816)
    weight, cosine = tensor(1024), torch.randn(1, 512, 64, dtype=torch.bfloat16)
    LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "llama", False).sum().backward()
    LigerLayerNormFunction.apply(x, weight, tensor(1024), 1e-5).sum().backward()
    for gate in (LigerSiLUMulFunction, LigerGELUMulFunction):
        gate.apply(wide, wide * 1).sum().backward()
    target = torch.randint(0, 8192, (256,))
    LigerCrossEntropyFunction.apply(tensor(256, 8192), target, None, -100)[0].backward()
    query, key = tensor(2, 16, 512, 64), tensor(2, 4, 512, 64)
    sum(out.sum() for out in LigerRopeFunction.apply(query, key, cosine, cosine)).backward()


def fla() -> None:
    import torch
    from fla.modules.activations import swiglu
    from fla.modules.l2norm import l2norm_fwd
    from fla.modules.layernorm import rms_norm
    from fla.ops.utils.cumsum import chunk_local_cumsum

    def tensor(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.bfloat16)

    rms_norm(tensor(64, 512), tensor(512), None)
    l2norm_fwd(tensor(512, 64))
    chunk_local_cumsum(torch.randn(2, 512, 4), 64)
    swiglu(tensor(512, 1024), tensor(512, 1024))


LIBRARIES: dict[str, Callable[[], None]] = {"liger_kernel": liger_kernel, "fla": fla}


def fake_gpu() -> None:
    """Let Triton believe in a GPU whose launches do nothing; torch's tensors stay the CPU's."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.driver import driver

    from solkit.adapters import fake_triton
    from solkit.adapters.fake_cuda.torch_cuda import fake_torch_cuda
    from solkit.integrations import applying
    from solkit.roofline import devices

    device = devices.find(DEVICE)
    fake_torch_cuda(device)
    active = fake_triton.fake_driver(device)
    active.launcher_cls = lambda *_: lambda *_: None
    driver._default = driver._active = active
    applying._live_device = lambda _: DEVICE

    def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        tuner.fn.run(*args, **{**meta, **config.all_kwargs()})
        return [1.0] * 3

    Autotuner._bench = bench


def run_library(name: str, folder: Path, records: bool) -> dict[str, Any]:
    import solkit
    from solkit.integrations import applying

    fake_gpu()
    if not records:
        solkit.apply(folder)
    with solkit.recording(folder) if records else contextlib.nullcontext():
        LIBRARIES[name]()
    watch = applying._STATE.watch
    return {} if watch is None else {"found": watch.hits, "compiled_after_all": watch.compiled}


def run_part(part: str, name: str, folder: Path, cache: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--part", part, "--library", name, "--work", str(folder)]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{name}, {part}: {ended.stderr[-1500:]}")
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def measure(name: str, work: Path) -> dict[str, Any]:
    from solkit.integrations.precompiling import precompile

    folder = work / name
    run_part("record", name, folder, work / f"{name}_first")
    begun_s = time.monotonic()
    result = precompile(folder, DEVICE)
    wall_s = time.monotonic() - begun_s
    whys = {kernel.kernel: kernel.why for kernel in result.kernels if kernel.why}
    row = {"kernels": len({k.kernel for k in result.kernels}), "compiled": len(result.keys)}
    served = run_part("serve", name, folder, work / f"{name}_second")
    return {**row, "wall_s": wall_s, "not_compiled": whys, **served}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=("record", "serve"))
    parser.add_argument("--library", choices=LIBRARIES)
    options = parser.parse_args()
    if options.part:
        result = run_library(options.library, options.work, options.part == "record")
        print(json.dumps(result))
        return
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    for name in LIBRARIES:
        if name in results or importlib.util.find_spec(name) is None:
            continue
        results[name] = measure(name, options.work)
        options.json.write_text(json.dumps(results, indent=1))
        print(name, results[name], flush=True)


if __name__ == "__main__":
    main()
