"""Captured calls become kernel files; the kernels are a user's, the tensors on the CPU."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from itertools import product
from pathlib import Path

import call_kernels
import numpy as np
import pytest
import spaces
import torch
import triton

import solkit
from solkit.analysis.analyser import Analyser
from solkit.core import Configuration, Depth, KernelProgram, TuneSettings
from solkit.core.kernel_programs import KernelFunction
from solkit.datasets.kernels import kernel_at_path
from solkit.errors import InputError, UnsupportedError
from solkit.integrations import launch_spaces
from solkit.integrations.calls import CallSettings, call_file
from solkit.measure.benches import RecordedBench

HERE = Path(__file__).parent
N = 1000


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=":")


def added(block=128):
    x, y, out = torch.randn(N), torch.full((N,), 3.0), torch.empty(N)
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)]
    return launch, (x, y, out, N), {"BLOCK": block, "ADD": True}


def written(path, launch, args, kwargs=None, **fields):
    call_file(launch, path, args, kwargs, **fields)
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_call_becomes_a_kernel_file(tmp_path):
    module = written(tmp_path / "call.py", *added())
    assert {name: sorted(item) for name, item in module.SPACE.items()} == {
        "num_warps": [1, 2, 4, 8, 16],
        "num_stages": [3],  # it has no product, so no loads that stages prefetch
        "BLOCK": [32, 64, 128, 256, 512],
    }
    assert [item[0] for item in module.SPACE.values()] == [4, 3, 128]  # its own first
    assert module.OUTPUTS == ("out_ptr",)
    assert module.LAUNCHES[0]["choices"][(32,)] == ((32,), {})
    assert module.LAUNCHES[0]["choices"][(512,)] == ((2,), {})
    x, y, out = module.inputs(device="cpu")
    assert x.shape == y.shape == out.shape == (N,)
    assert torch.all(y == 3.0)
    assert x.std() == pytest.approx(1.0, abs=0.1)


def test_the_file_is_analysed_without_a_gpu(tmp_path):
    path = tmp_path / "call.py"
    call_file(added()[0], path, *added()[1:])
    with Analyser("h100", cache=False) as analyser:
        points = analyser.points(str(path), None, {}, 1000).result()
        configurations = [Configuration(str(path), "kernel", {}, point) for point in points[:3]]
        results = [item.analysis for item in analyser.analysed(configurations, Depth.CAPTURED)]
    assert len(points) == 5 * 5
    launches = [result.kernels[0].launch for result in results]
    assert {launch.name for launch in launches} == {"add_kernel"}
    assert all(launch.grid[0] * launch.constants["BLOCK"] >= N for launch in launches)


@pytest.mark.slow
def test_candidates_compute_what_the_call_does(tmp_path):
    """By Triton's interpreter, for every block."""
    path = tmp_path / "call.py"
    call_file(added()[0], path, *added()[1:])
    code = (
        "import sys, torch, importlib.util\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        f"spec = importlib.util.spec_from_file_location('call', {str(path)!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "x, y, out = module.inputs(device='cpu')\n"
        "for block in module.SPACE['BLOCK']:\n"
        "    out.zero_(); module.kernel(x, y, out, BLOCK=block)\n"
        "    assert torch.equal(out, x + 2 * y), block\n"
        "print('same')\n"
    )
    env = {"TRITON_INTERPRET": "1", "PATH": "/usr/bin:/bin"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if "numpy" in result.stderr:
        pytest.skip("this triton's interpreter needs an older numpy")
    assert result.stdout == "same\n", result.stderr


def test_what_follows_from_the_sizes_stays(tmp_path):
    x = torch.randn(16, 100)
    grid = lambda _: (16,)  # noqa: E731
    fields = {"COLS": 100, "BLOCK_N": 128}
    module = written(
        tmp_path / "call.py", call_kernels.rows_kernel[grid], (x, x.clone(), 100), fields
    )
    assert set(module.SPACE) == {"num_warps", "num_stages"}
    assert module.LAUNCHES[0]["choices"] == {(): ((16,), {})}


def test_a_block_of_its_own_choice_varies_though_no_grid_reads_it(tmp_path):
    x = torch.randn(16, 100)
    launch = call_kernels.rows_kernel[lambda _: (16,)]
    fields = {"COLS": 100, "BLOCK_N": 512}
    module = written(tmp_path / "call.py", launch, (x, x.clone(), 100), fields)
    assert sorted(module.SPACE["BLOCK_N"]) == [128, 256, 512, 1024, 2048]


def test_a_fixed_grid_leaves_blocks_alone(tmp_path):
    launch, args, kwargs = call_kernels.add_kernel[(8,)], added()[1], added()[2]
    module = written(tmp_path / "call.py", launch, args, kwargs)
    assert set(module.SPACE) == {"num_warps", "num_stages"}


@pytest.mark.parametrize(
    ("text", "hip", "has_stages"),
    [
        ("return tl.load(x)", None, False),
        ("for k in range(n): acc += tl.load(x + k)", None, False),
        ("for k in range(n): acc += tl.load(x + k)", "6.4", True),
        ("return tl.load(x)", "6.4", False),
        ("for k in range(n): acc = tl.dot(a, b, acc)", None, True),
        ("for k in range(n): acc += descriptor.load([k])", None, True),
    ],
)
def test_stages_vary_where_triton_can_make_any(monkeypatch, text, hip, has_stages):
    """The machine code of the others is the same for any number of stages (Triton 3.6 to 3.9)."""
    monkeypatch.setattr(torch.version, "hip", hip)
    called = KernelFunction(f"def called(x, n):\n    {text}\n")
    program = KernelProgram("k", {"k": KernelFunction("def k(x): called(x)"), "c": called})
    assert launch_spaces._has_stages(program) is has_stages


def test_a_function_that_launches_counts_as_a_call(tmp_path):
    launch, args, kwargs = added()
    module = written(tmp_path / "call.py", lambda: launch(*args, **kwargs, num_warps=8), ())
    assert module.SPACE["num_warps"][0] == 8


def test_an_autotuned_kernel_is_taken_without_its_tuner(tmp_path):
    x = torch.randn(N)
    launch = call_kernels.tuned_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)]
    module = written(tmp_path / "call.py", launch, (x, x.clone(), N))
    assert module.SPACE["BLOCK"][0] in (64, 128)
    assert type(module.tuned_kernel).__name__ == "JITFunction"


def test_integers_keep_their_values_or_their_range(tmp_path):
    few, many = torch.arange(N), torch.randint(3, 90, (100_000,))
    args = few, many, torch.empty(N), N
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)]
    module = written(tmp_path / "call.py", launch, args, {"BLOCK": 128, "ADD": True})
    x, y, _ = module.inputs(device="cpu")
    assert torch.equal(x, few)
    assert (y.shape, int(y.min()), int(y.max())) == ((100_000,), 3, 89)


def test_one_tensor_given_twice_stays_one(tmp_path):
    x, out = torch.randn(N), torch.empty(N)
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)]
    module = written(tmp_path / "call.py", launch, (x, x, out, N), {"BLOCK": 64, "ADD": True})
    first, second, _ = module.inputs(device="cpu")
    assert first is second


def test_layouts_are_kept(tmp_path):
    x = torch.randn(50, 20).t()
    args = x, torch.randn(1000), torch.empty(1000), N
    launch = call_kernels.add_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)]
    module = written(tmp_path / "call.py", launch, args, {"BLOCK": 64, "ADD": True})
    assert module.inputs(device="cpu")[0].stride() == (1, 20)


ADD, FOUR = call_kernels.add_kernel[(1,)], torch.ones(4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: None, InputError, "launches no Triton kernel"),
        (
            lambda: call_kernels.add_kernel[(1,)](1, 2, 3, 4, 16, True),
            UnsupportedError,
            "no tensor",
        ),
        (
            lambda: call_kernels.add_kernel[(1,)](torch.ones(4), object(), torch.ones(4), 4, 16, 1),
            UnsupportedError,
            "the argument y_ptr is a object",
        ),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call_file(call, tmp_path / "call.py")


def test_of_several_kernels_one_must_be_named(tmp_path):
    launch, args, kwargs = added()
    x = torch.randn(16, 100)

    def both():
        launch(*args, **kwargs)
        call_kernels.rows_kernel[(16,)](x, x.clone(), 100, COLS=100, BLOCK_N=128)

    with pytest.raises(InputError, match=r"several kernels.*add_kernel, rows_kernel"):
        call_file(both, tmp_path / "call.py")
    with pytest.raises(InputError, match=r"no 'other'.*add_kernel, rows_kernel"):
        call_file(both, tmp_path / "call.py", kernel="other")
    assert call_file(both, tmp_path / "call.py", kernel="rows_kernel").name == "rows_kernel"


def test_a_call_is_tuned(tmp_path):
    """On a recording of the file that it becomes: 4 times as fast at BLOCK=512."""
    launch, args, kwargs = added()
    path = tmp_path / "call.py"
    torch.manual_seed(0)
    module = written(path, launch, args, kwargs)
    kernel, chance = kernel_at_path(path), np.random.default_rng(0)
    ids = {"kernel_id": kernel.kernel_id, "problem_id": kernel.problem_id({}), "shape": {}}
    points = [
        dict(zip(module.SPACE, items, strict=True)) for items in product(*module.SPACE.values())
    ]
    rows = [
        spaces.row(n, params, 512.0 / params["BLOCK"], chance, bound_ms=None, **ids)
        for n, params in enumerate(points)
    ]
    own = {"num_warps": 4, "num_stages": 3, "BLOCK": 128}
    settings = TuneSettings(params=own, stop_at=9.0)
    how = CallSettings(60.0, path=path, bench=RecordedBench(rows), settings=settings)
    result = solkit.tune_call(launch, *args, tuning=how, **kwargs)
    assert result.default.params == own
    assert result.params["BLOCK"] == 512
    assert result.speedup == pytest.approx(4.0, rel=0.01)


def test_a_kernel_of_a_script_is_copied(tmp_path):
    script = tmp_path / "script.py"
    text = (HERE / "call_kernels.py").read_text()
    script.write_text(text + "\nprint('side effect')\nBUFFER = object()\n")
    spec = importlib.util.spec_from_file_location("__main__", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    launch = module.add_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)]
    call_file(launch, tmp_path / "call.py", *added()[1:])
    copied = (tmp_path / "call.py").read_text()
    assert "def add_kernel(" in copied
    assert "SCALE = tl.constexpr(2.0)" in copied
    assert "side effect" not in copied
    assert "BUFFER" not in copied


def test_a_reference_that_only_launches_is_bounded_by_its_bytes(tmp_path):
    path = tmp_path / "call.py"
    call_file(added()[0], path, *added()[1:])
    result = solkit.bound(str(path), device="h100")
    assert result.time_ms == pytest.approx(3 * 4 * N / 3.35e12 * 1e3, rel=0.2)
    (scored,) = solkit.score(str(path), device="h100", measure=False).results
    assert scored.work.unmodelled == ("launch.add_kernel",)


def test_what_a_launch_changes_in_place_is_read_and_written(tmp_path):
    path = tmp_path / "call.py"
    launch, (x, y, *_), constants = added()
    call_file(launch, path, (x, y, x, N), constants)
    result = solkit.bound(str(path), device="h100")  # reads x and y, writes x
    assert result.time_ms == pytest.approx(3 * 4 * N / 3.35e12 * 1e3, rel=0.2)
