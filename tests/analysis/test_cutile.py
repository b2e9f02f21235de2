"""cuTile kernels: launches are captured, compiled for any GPU and followed by their tile IR."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from solkit import kernelfiles
from solkit.adapters import fake_cuda
from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.errors import KernelFileError
from solkit.kernelfiles.seeding import seeded_workload
from solkit.roofline import devices

M, N = 512, 1024
FILE = f"""
import torch
import cuda.tile as ct


@ct.kernel
def doubled(x, y, scale: float, B: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, index=(row, 0), shape=(B, {N}))
    ct.store(y, index=(row, 0), tile=tile * scale)


def reference(x):
    return x * 2


def inputs(device="cuda"):
    return torch.randn({M}, {N}, device=device)


def kernel(x, *, B=4):
    y = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (x.shape[0] // B,), doubled, (x, y, 2.0, B))
    return y
"""
LINE = FILE.splitlines().index(f"    tile = ct.load(x, index=(row, 0), shape=(B, {N}))") + 1


def has_cutile():
    try:
        return importlib.util.find_spec("cuda.tile") is not None
    except ModuleNotFoundError:  # of the namespace
        return False


needs_cutile = pytest.mark.skipif(not has_cutile(), reason="cuTile is not installed")


def analysed(path, name):
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(str(path))
    return analyse(seeded_workload(loaded, {}, {}), devices.find(name), {})


@needs_cutile
@pytest.mark.quick("h100")
@pytest.mark.parametrize("name", ["a100", "h100", "b200", "rtx_5090"])
def test_a_launch_is_compiled_and_followed(in_child, tmp_path, name):
    path = tmp_path / "rows.py"
    path.write_text(FILE)
    analysis = in_child(analysed, path, name, device=name)
    assert analysis.status is AnalysisStatus.COMPLETE, analysis.notes
    (kernel,) = analysis.kernels
    assert kernel.facts.launch.name == "doubled"
    assert kernel.facts.launch.grid == (M // 4, 1, 1)
    assert kernel.facts.launch.constants == {"B": 4}
    moved = {access.argument: access for access in kernel.facts.requests.accesses}
    assert {key: access.requested_bytes for key, access in moved.items()} == {
        "x": 4 * M * N,
        "y": 4 * M * N,
    }
    assert moved["x"].line == f"rows.py:{LINE}"
    assert kernel.facts.instructions.of("global_load", "tma") > 0
    assert kernel.demand.dram_read_bytes == kernel.demand.dram_write_bytes == 4 * M * N
    assert kernel.facts.registers > 0


@needs_cutile
def test_a_kernel_that_cutile_refuses_names_its_line(in_child, tmp_path):
    path = tmp_path / "rows.py"
    path.write_text(FILE.replace("index=(row, 0), tile", "index=(row,), tile"))
    (kernel,) = in_child(analysed, path, "h100").kernels
    assert "rows.py:" in kernel.error


@needs_cutile
def test_without_the_compiler_nothing_is_said_about_the_kernel(in_child, tmp_path):
    path = tmp_path / "rows.py"
    path.write_text(FILE)

    def child():
        import cuda.tile._compile as compiler

        def missing():
            raise FileNotFoundError("'tileiras' compiler not found")

        compiler._find_compiler_bin = missing
        return analysed(path, "h100")

    analysis = in_child(child)
    (kernel,) = analysis.kernels
    assert kernel.error is None
    assert any("tileiras" in note and "solkit[cutile]" in note for note in analysis.notes)


@needs_cutile
def test_an_error_of_the_users_code_is_not_blamed_on_the_language(in_child, tmp_path):
    path = tmp_path / "rows.py"
    path.write_text(FILE.replace("y = torch.empty_like(x)", "y = x.shape[7]"))
    analysis = in_child(analysed, path, "h100")
    assert analysis.failure == "crashed"
    assert not any("uses cuTile" in note for note in analysis.notes)


@needs_cutile
def test_a_launch_with_too_few_arguments_is_the_users_error(in_child, tmp_path):
    path = tmp_path / "rows.py"
    path.write_text(FILE.replace("(x, y, 2.0, B)", "(x, y, B)"))
    analysis = in_child(analysed, path, "h100")
    assert any("doubled takes 4 arguments (x, y, scale, B), got 3" in n for n in analysis.notes)


def test_a_file_that_needs_cutile_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "rows.py"
    path.write_text(FILE)
    monkeypatch.setitem(sys.modules, "cuda.tile", None)
    with pytest.raises(KernelFileError, match=r"pip install 'solkit\[cutile\]'"):
        kernelfiles.load(str(path))


def test_another_module_of_the_namespace_names_no_extra(tmp_path):
    path = tmp_path / "rows.py"
    path.write_text("import cuda.no_such_module\n")
    with pytest.raises(KernelFileError) as caught:
        kernelfiles.load(str(path))
    assert "solkit[cutile]" not in str(caught.value)
