"""Tune launches of Liger-Kernel in place, with `solkit.tune_call`.

    python bench/tune_calls.py --gpu-seconds 8 --json calls_h200.json    # needs a GPU

Needs ``pip install liger-kernel``. Each of the library's own launchers is called unchanged. The
final compares the launch as the library makes it with the best that was found, on other inputs, in
a new process. Where nothing is shown to be faster, the library's choice is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from liger_kernel.ops.dyt import liger_dyt_fwd
from liger_kernel.ops.geglu import geglu_forward
from liger_kernel.ops.layer_norm import layer_norm_forward
from liger_kernel.ops.rms_norm import rms_norm_forward
from liger_kernel.ops.softmax import _softmax_forward
from liger_kernel.ops.swiglu import swiglu_forward

import solkit
from solkit.integrations.calls import CallSettings
from solkit.report.tuning import as_json


def rows(*shape):
    """Random, on the GPU."""
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


CALLS = {
    "dyt 8192 x 4096": lambda: liger_dyt_fwd(rows(8192, 4096), rows(1), rows(4096), rows(4096)),
    "geglu 4096 x 14336": lambda: geglu_forward(rows(4096, 14336), rows(4096, 14336)),
    "rms_norm 8192 x 4096": lambda: rms_norm_forward(
        rows(8192, 4096), rows(4096), 1e-6, 0.0, "llama", None
    ),
    "layer_norm 16384 x 1024": lambda: layer_norm_forward(
        rows(16384, 1024), rows(1024), rows(1024), 1e-6
    ),
    "swiglu 16384 x 4096": lambda: swiglu_forward(rows(16384, 4096), rows(16384, 4096)),
    "softmax 8192 x 2048": lambda: _softmax_forward(rows(8192, 2048)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpu-seconds", type=float, default=8.0)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after so long")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    begun_s, results = time.monotonic(), {}
    for name, call in CALLS.items():
        if time.monotonic() - begun_s > 60 * options.minutes:
            break
        start_s = time.monotonic()
        result = solkit.tune_call(call, tuning=CallSettings(options.gpu_seconds))
        torch.cuda.empty_cache()
        results[name] = {**as_json(result), "wall_s": time.monotonic() - start_s}
        ratio = results[name]["speedup"] or {"value": 1.0, "low": 1.0, "high": 1.0}
        print(
            f"{name}: {result.verdict.value}, {ratio['value']:.3f} times as fast "
            f"({ratio['low']:.3f} to {ratio['high']:.3f}); {result.measured} measured, "
            f"{result.failed} failed, {result.gpu_s:.1f} GPU s, {result.stopped.value}; "
            f"{dict(result.default.params)} -> {dict(result.params)}",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
