"""CuTe DSL kernels: its own host code launches them on the fake GPU; their PTX is followed."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from solkit import kernelfiles
from solkit.adapters import fake_cuda, fake_cute
from solkit.analysis.candidate import analyse
from solkit.core import AnalysisStatus
from solkit.errors import KernelFileError
from solkit.kernelfiles.seeding import seeded_workload
from solkit.roofline import devices

ROWS, COLUMNS = 256, 512
FILE = f"""
import torch
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def scaled_sum(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    columns = x.shape[1]
    at = block * 128 + thread
    out[at // columns, at % columns] = factor * x[at // columns, at % columns] + y[0, at % columns]


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32):
    blocks = cute.size(x) // 128
    scaled_sum(x, y, out, factor).launch(grid=(blocks, 1, 1), block=(128, 1, 1))


def reference(x, y):
    return 3 * x + y


def inputs(device="cuda"):
    return torch.randn({ROWS}, {COLUMNS}, device=device), torch.randn(1, {COLUMNS}, device=device)


compiled = {{}}


def kernel(x, y):
    out = torch.empty_like(x)
    args = [from_dlpack(t).mark_layout_dynamic(leading_dim=1) for t in (x, y, out)]
    if x.shape not in compiled:
        compiled[x.shape] = cute.compile(launch, *args, 3.0)
    compiled[x.shape](*args, 3.0)
    return out
"""

needs_cute = pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None, reason="CuTe DSL is not installed"
)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("kernel_cutlass_body_packmod_Product_object_at__tensor000", "body"),
        ("kernel_cutlass_fused_types_gemm_object_at__x", "fused_types_gemm"),
        ("kernel_cutlass_vector_add_tensorptrf32gmemo1_0", "vector_add"),
    ],
)
def test_kernels_are_named_as_their_functions(monkeypatch, kernel, name):
    monkeypatch.setitem(sys.modules, "pack.mod", sys)
    assert fake_cute._shown_name(kernel) == name


def test_a_file_whose_language_is_not_installed_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "sums.py"
    path.write_text(FILE)
    monkeypatch.setitem(sys.modules, "cutlass", None)
    with pytest.raises(KernelFileError, match=r"pip install 'solkit\[cute\]'"):
        kernelfiles.load(str(path), None)


# TVM-FFI's functions take PyTorch's tensors as they are
BY_TVM_FFI = FILE.replace(
    "*args, 3.0)\n    comp", '*args, 3.0, options="--enable-tvm-ffi")\n    comp'
)
BY_TVM_FFI = BY_TVM_FFI.replace("](*args, 3.0)", "](x, y, out, 3.0)")


@needs_cute
@pytest.mark.slow
@pytest.mark.parametrize("text", [FILE, BY_TVM_FFI], ids=["dlpack", "tvm_ffi"])
def test_launches_of_its_host_code_are_followed(in_child, tmp_path, text):
    path = tmp_path / "sums.py"
    path.write_text(text)

    def child():
        with fake_cuda.fake_tensors():
            loaded = kernelfiles.load(str(path), None)
        return analyse(seeded_workload(loaded, {}, {}), devices.find("h100"), {})

    result = in_child(child)
    assert result.status is AnalysisStatus.COMPLETE, result.notes
    (kernel,) = result.kernels
    assert kernel.launch.name == "scaled_sum"
    assert (kernel.launch.grid, kernel.launch.num_warps) == ((ROWS * COLUMNS // 128, 1, 1), 4)
    requests = kernel.facts.requests
    assert requests.guesses == ()
    assert requests.operations == {"fp32": 2 * ROWS * COLUMNS}
    expected = {"argument 0": 4 * ROWS * COLUMNS, "argument 1": 4 * COLUMNS}
    expected["argument 2"] = 4 * ROWS * COLUMNS
    assert {a.argument: a.unique_bytes for a in requests.accesses} == expected
    assert {a.line.partition(":")[0] for a in requests.accesses} == {"sums.py"}
    assert (kernel.facts.spills, kernel.facts.shared_bytes, kernel.error) == (0, 0, None)
