"""Kernels in packages: their autotuners, relative imports, and constants that are sizes."""

import textwrap

import pytest

from solkit.analysis.analyser import Analyser
from solkit.core import Configuration

LIBRARY = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"B": b}, num_warps=w) for b in (256, 512) for w in (2, 4, 8)], [])
@triton.jit
def double(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at) * 2)

@triton.autotune([triton.Config({"OTHER": 1})], [])
@triton.jit
def unused(x, OTHER: tl.constexpr):
    tl.store(x, OTHER)

def run(x):
    y = torch.empty_like(x)
    double[lambda meta: (x.numel() // meta["B"],)](x, y)
    return y
"""
FILE = """
import torch
from {} import run

def reference(x):
    return x * 2

def inputs(N=4096, device="cuda"):
    return torch.randn(N, device=device)

def kernel(x):
    return run(x)
"""


@pytest.fixture
def analyser():
    with Analyser("h100", workers=1, cache=False) as analyser:
        yield analyser


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "a_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "ops.py").write_text(LIBRARY)
    return folder


def test_configurations_of_a_kernel_in_a_package_are_those_that_are_launched(analyser, package):
    file = package.parent / "kernel.py"
    file.write_text(FILE.format("a_package.ops"))
    points = analyser.points(str(file), None, {}, 100).result()
    # the candidate as it is, then two blocks at three numbers of warps
    assert len(points) == 1 + 2 * 3
    assert {point.get("B") for point in points} == {None, 256, 512}
    configuration = Configuration(str(file), "kernel", {}, {"B": 512, "num_warps": 8})
    (kernel,) = analyser.submit(configuration).result().analysis.kernels
    assert (kernel.launch.grid, kernel.launch.num_warps) == ((8, 1, 1), 8)


def test_a_file_in_a_package_has_relative_imports(analyser, package):
    file = package / "bench.py"
    file.write_text(FILE.format(".ops"))
    assert analyser.describe(str(file)).result().candidate.name == "kernel"


@pytest.mark.parametrize("has_init", [True, False])
def test_a_package_may_be_called_as_an_installed_one_and_lack_its_init(
    analyser, tmp_path, has_init
):
    folder = tmp_path / "triton"
    (folder / "fast").mkdir(parents=True)
    if has_init:
        (folder / "__init__.py").write_text("")
        (folder / "fast" / "__init__.py").write_text("")
    (folder / "ops.py").write_text(LIBRARY)
    file = folder / "fast" / "bench.py"
    file.write_text(FILE.format("..ops"))
    assert analyser.describe(str(file)).result().candidate.name == "kernel"


def test_constants_of_a_launch_description_may_be_sizes(analyser, tmp_path):
    file = tmp_path / "described.py"
    text = """
    import triton, triton.language as tl

    @triton.jit
    def double(x, y, MODE: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + at, tl.load(x + at) * 2)

    LAUNCH = {
        "sizes": {"N": 4096, "D": 1024},
        "args": {"x": "fp32[N]", "y": "fp32[N]"},
        "outputs": ["y"],
        "constants": {"B": "D // 2", "MODE": "fast"},
        "grid": ["cdiv(N, B)"],
    }
    """
    file.write_text(textwrap.dedent(text))
    results = analyser.submit(Configuration(str(file), "double", {}, {})).result()
    (kernel,) = results.analysis.kernels
    assert kernel.launch.constants == {"MODE": "fast", "B": 512}
    assert kernel.launch.grid == (8, 1, 1)
