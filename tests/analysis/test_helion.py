"""Helion kernels: the Triton code that Helion generates is captured; its configurations rank."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture(scope="module")
def helion_analyses(in_child, tmp_path_factory):
    """Analyses of three files and of parameters: one child, since to load Helion takes seconds."""
    fixed, host, listed = (tmp_path_factory.mktemp(name) for name in ("fixed", "host", "listed"))
    path = write(fixed, "config=helion.Config(block_sizes=[4, 256], num_warps=2)")
    zeroed = Path(write(host, "config=helion.Config(block_sizes=[4, 256])"))
    zeroed.write_text(zeroed.read_text().replace("empty_like", "zeros_like"))
    two = "helion.Config(block_sizes=[4, 256]), helion.Config(block_sizes=[16, 64])"
    several = write(listed, f"configs=[{two}]")

    def child():
        loaded = loaded_file(path)
        fixed = analysis_of(loaded, {})
        tiled = analysis_of(loaded, {"block_sizes_0": 8, "block_sizes_1": 128})
        point = next(iter(loaded.space({}).shuffled(1)))
        drawn = analysis_of(loaded, point)
        with pytest.raises(ParamsError, match="block_sizes_9"):
            analysis_of(loaded, {"block_sizes_9": 8})
        file = loaded_file(several)
        own = file.description.candidate.params
        return SimpleNamespace(
            fixed=fixed,
            tiled=tiled,
            drawn=drawn,
            point=point,
            zeroed=analysis_of(loaded_file(str(zeroed)), {}),
            own=own,
            points=list(file.space({}).shuffled(1)),
            first=analysis_of(file, own),
        )

    return in_child(child)


@needs_helion
@pytest.mark.slow
def test_the_generated_kernel_is_captured_and_its_lines_are_the_files(helion_analyses):
    analyses = [helion_analyses.fixed, helion_analyses.tiled, helion_analyses.drawn]
    for result in analyses:
        assert result.kernels, result.notes
        (kernel,) = result.kernels
        assert (result.status, kernel.error) == (AnalysisStatus.COMPLETE, None)
        assert result.outputs == f"1 output float32[{M}, {N}]"
        assert kernel.demand.dram_read_bytes == kernel.demand.dram_write_bytes == 4 * M * N
    (one,), (other,), (third,) = (analysis.kernels for analysis in analyses)
    assert (one.launch.name, one.launch.num_warps) == ("_helion_doubled", 2)
    assert torch.Size(one.launch.grid).numel() == M * N // (4 * 256)
    assert torch.Size(other.launch.grid).numel() == M * N // (8 * 128)
    assert {access.line for access in one.facts.requests.accesses} == {f"rows.py:{LINE}"}
    assert third.launch.num_warps == helion_analyses.point["num_warps"]


@needs_helion
@pytest.mark.slow
def test_operators_of_the_generated_host_code_have_the_line_of_the_call(helion_analyses):
    call = FILE.splitlines().index("    return doubled(x)") + 1
    launches = [kernel.launch for kernel in helion_analyses.zeroed.kernels]
    (zeros,) = [launch for launch in launches if launch.library]
    assert zeros.line == f"rows.py:{call}"


@needs_helion
@pytest.mark.slow
def test_listed_configurations_are_the_space_and_the_first_is_shown(helion_analyses):
    own, points, first = helion_analyses.own, helion_analyses.points, helion_analyses.first
    assert (own["block_sizes_0"], own["block_sizes_1"]) == (4, 256)
    assert {(p["block_sizes_0"], p["block_sizes_1"]) for p in points} == {(4, 256), (16, 64)}
    assert torch.Size(first.kernels[0].launch.grid).numel() == M * N // (4 * 256)
    assert any("2 configurations" in note for note in first.notes)
