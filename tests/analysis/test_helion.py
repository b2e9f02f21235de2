"""Helion kernels: the Triton code that Helion generates is captured; its configurations rank."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda
from solkit.adapters.helion_configs import params_of_config
from solkit.analysis.autotuned_configs import find_launched_space
from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.errors import KernelFileError, ParamsError
from solkit.kernelfiles.seeding import seeded_workload
from solkit.roofline import devices

M, N = 512, 1024
FILE = f"""
import torch, helion
import helion.language as hl


@helion.kernel({{}})
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for rows, cols in hl.tile(x.size()):
        out[rows, cols] = x[rows, cols] * 2
    return out


def reference(x):
    return x * 2


def inputs(device="cuda"):
    return torch.randn({M}, {N}, device=device)


def kernel(x):
    return doubled(x)
"""
LINE = FILE.splitlines().index("        out[rows, cols] = x[rows, cols] * 2") + 1


def write(folder, decorator=""):
    path = folder / "rows.py"
    path.write_text(FILE.replace("{}", decorator))
    return str(path)


needs_helion = pytest.mark.skipif(
    importlib.util.find_spec("helion") is None, reason="Helion is not installed"
)


def loaded_file(path):
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path, None)
        find_launched_space(loaded)
    return loaded


def analysis_of(loaded, params):
    return analyse(seeded_workload(loaded, {}, params), devices.find("h100"), params)


def test_lists_are_numbered_and_what_is_unset_is_said():
    config = {"block_sizes": [64, 32], "loop_orders": [[1, 0]], "num_warps": 4}
    assert params_of_config(config, [*config, "maxnreg"]) == {
        "block_sizes_0": 64,
        "block_sizes_1": 32,
        "loop_orders_0_0": 1,
        "loop_orders_0_1": 0,
        "num_warps": 4,
        "maxnreg": "None",
    }


def test_a_file_whose_language_is_not_installed_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "helion", None)
    with pytest.raises(KernelFileError, match=r"pip install 'solkit\[helion\]'"):
        kernelfiles.load(write(tmp_path), None)


@needs_helion
def test_the_generated_kernel_is_captured_and_its_lines_are_the_files(in_child, tmp_path):
    path = write(tmp_path, "config=helion.Config(block_sizes=[4, 256], num_warps=2)")

    def child():
        loaded = loaded_file(path)
        fixed = analysis_of(loaded, {})
        tiled = analysis_of(loaded, {"block_sizes_0": 8, "block_sizes_1": 128})
        point = next(iter(loaded.space({}).shuffled(1)))
        drawn = analysis_of(loaded, point)
        with pytest.raises(ParamsError, match="block_sizes_9"):
            analysis_of(loaded, {"block_sizes_9": 8})
        return fixed, tiled, point, drawn

    fixed, tiled, point, drawn = in_child(child)
    for result in (fixed, tiled, drawn):
        assert result.kernels, result.notes
        (kernel,) = result.kernels
        assert (result.status, kernel.error) == (AnalysisStatus.COMPLETE, None)
        assert result.outputs == f"1 output float32[{M}, {N}]"
        assert kernel.demand.dram_read_bytes == kernel.demand.dram_write_bytes == 4 * M * N
    (one,), (other,), (third,) = fixed.kernels, tiled.kernels, drawn.kernels
    assert (one.launch.name, one.launch.num_warps) == ("_helion_doubled", 2)
    assert torch.Size(one.launch.grid).numel() == M * N // (4 * 256)
    assert torch.Size(other.launch.grid).numel() == M * N // (8 * 128)
    assert {access.line for access in one.facts.requests.accesses} == {f"rows.py:{LINE}"}
    assert third.launch.num_warps == point["num_warps"]


@needs_helion
def test_operators_of_the_generated_host_code_have_the_line_of_the_call(in_child, tmp_path):
    decorator = "config=helion.Config(block_sizes=[4, 256])"
    path = tmp_path / "rows.py"
    path.write_text(
        Path(write(tmp_path, decorator)).read_text().replace("empty_like", "zeros_like")
    )
    call = FILE.splitlines().index("    return doubled(x)") + 1
    kernels = in_child(lambda: analysis_of(loaded_file(str(path)), {})).kernels
    (zeros,) = [kernel.launch for kernel in kernels if kernel.launch.library]
    assert zeros.line == f"rows.py:{call}"


@needs_helion
@pytest.mark.slow
def test_listed_configurations_are_the_space_and_the_first_is_shown(in_child, tmp_path):
    listed = "helion.Config(block_sizes=[4, 256]), helion.Config(block_sizes=[16, 64])"
    path = write(tmp_path, f"configs=[{listed}]")

    def child():
        loaded = loaded_file(path)
        own = loaded.description.candidate.params
        assert (own["block_sizes_0"], own["block_sizes_1"]) == (4, 256)
        return list(loaded.space({}).shuffled(1)), analysis_of(loaded, own)

    points, result = in_child(child)
    assert {(p["block_sizes_0"], p["block_sizes_1"]) for p in points} == {(4, 256), (16, 64)}
    assert torch.Size(result.kernels[0].launch.grid).numel() == M * N // (4 * 256)
    assert any("2 configurations" in note for note in result.notes)
