"""Tuned folders on a real GPU: autotuned, plain and compiled kernels of an unedited program."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from solkit.core.tuned import TunedEntry, TunedFolder, bucket_of_launch
from solkit.datasets.launch_recordings import read_launch_recording
from solkit.datasets.tuned_folder import write_tuned_folder
from solkit.processes.startup import shim_environment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

PROGRAM = """
import sys, torch, triton
import triton.language as tl

def configs():
    return [triton.Config({"BLOCK": 2**n}, num_warps=w) for n in range(6, 12) for w in (2, 4, 8)]

@triton.autotune(configs(), key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def plain_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 3 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def tiled_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 5 * tl.load(x + at, mask=at < n), mask=at < n)

def compiled(x):
    return torch.softmax(torch.nn.functional.gelu(x), -1)

def main():
    x = torch.randn(512, 2048, device="cuda")
    n = x.numel()
    outs = [torch.empty_like(x) for _ in range(3)]
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    run = torch.compile(compiled)
    for _ in range(3):
        tuned_kernel[grid](x, outs[0], n)
        plain_kernel[grid](x, outs[1], n, BLOCK=256)
        again = tiled_kernel[(n // 64,)](x, outs[2], n, BLOCK=64)
        y = run(x)
    torch.testing.assert_close(outs[0], 2 * x)
    torch.testing.assert_close(outs[1], 3 * x)
    torch.testing.assert_close(outs[2], 5 * x)
    outs[2].zero_()
    again[(n // 64, 1, 1)](x, outs[2], n, 64)
    torch.testing.assert_close(outs[2], 5 * x)
    outs[2].copy_(x)
    tiled_kernel[(n // 64,)](outs[2], outs[2], n, BLOCK=64)  # in place
    torch.testing.assert_close(outs[2], 5 * x)
    pool = torch.randn(n + 64, device="cuda")
    before = pool.clone()
    again[(n // 64, 1, 1)](pool[:n], pool[n:], 64, 64)  # of one storage, apart
    torch.testing.assert_close(pool[n:], 5 * before[:64])
    torch.testing.assert_close(pool[:n], before[:n])
    torch.testing.assert_close(y, compiled(x))
    if "solkit.integrations.applying" in sys.modules:
        import json, solkit
        timed = getattr(tuned_kernel, "configs_timings", {})
        rows = [(c.kernel, c.launcher, dict(c.params), c.why) for c in solkit.applied()]
        print(json.dumps({"rows": rows, "timed": len(timed)}))

if __name__ == "__main__":
    main()
"""


def start(tmp_path, **variables):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    own = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), **variables}
    ran = subprocess.run(
        [sys.executable, str(path)],
        env=shim_environment(**own),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran


def tuned_entry(record):
    """Another configuration that surely works, for a recorded launch."""
    in_use = record.params
    params = {**in_use, "num_warps": 8 if in_use.get("num_warps") != 8 else 4}
    if record.launcher == "autotuner":
        params = {**in_use, "BLOCK": 1024, "num_warps": 8}
    if record.tiles and record.launch.name == "tiled_kernel":
        params = {**params, "BLOCK": 1024}
    return TunedEntry(
        *(record.launch.name, record.launch.program.digest, record.launcher),
        bucket_of_launch(record.launch, record.params),
        *(in_use, params, None, True, record.calls),
        tiles=record.tiles,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The launches of the program."""
    folder = tmp_path_factory.mktemp("recorded")
    start(folder, SOLKIT_RECORD=str(folder / "launches"))
    return read_launch_recording(folder / "launches").launches


@pytest.mark.parametrize("threads", ["1", "4"])
def test_each_launcher_gets_its_configuration_and_outputs_stay_right(recorded, tmp_path, threads):
    import triton

    from solkit.roofline import nvml

    launchers = {record.launcher for record in recorded}
    assert launchers == {"autotuner", "inductor", "jit"}
    entries = tuple(map(tuned_entry, recorded))
    device = nvml.live_device(0).key
    write_tuned_folder(tmp_path, TunedFolder(device, "", triton.__version__, entries))
    variables = {"TORCHINDUCTOR_COMPILE_THREADS": threads, "SOLKIT_APPLY": str(tmp_path)}
    ran = start(tmp_path, **variables)
    data = json.loads(ran.stdout.splitlines()[-1])
    assert {row[1] for row in data["rows"] if not row[3]} == launchers, data["rows"]
    blocks = {row[2].get("BLOCK") for row in data["rows"] if row[0] == "tiled_kernel"}
    assert blocks == {1024}, data["rows"]
    assert (
        data["timed"] == 0
    )  # nothing was run for it, and the tuner's own cache has no made-up time
    assert "applied to" in ran.stderr
    assert start(tmp_path, **{**variables, "SOLKIT_APPLY": "0"}).stdout == ""
