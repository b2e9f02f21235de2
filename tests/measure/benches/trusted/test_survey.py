"""What is known of a kernel file before anything runs."""

from __future__ import annotations

import json
import re

import pytest
from torch.utils import cpp_extension

from solkit.adapters import nvrtc
from solkit.adapters.fake_cuda.extensions import WhenImported
from solkit.datasets.facts import facts_from_json
from solkit.errors import UnsupportedError
from solkit.measure.benches.trusted.survey import compile_ahead
from solkit.processes import jobs as worker
from solkit.roofline import devices

SCALE = """
import torch

SHAPES = [{"N": 1024}, {"N": 64, "dtype": "float16"}, {"N": 4096}]
SPACE = {"BLOCK": [32, 64, 2048], "num_warps": [1, 2]}

def inputs(N=1024, dtype=torch.float32, device="cuda"):
    return torch.randn(N, dtype=dtype, device=device)

def reference(x):
    if len(x) == 4096:
        raise ValueError("not so many")
    return x * 2

def valid(params, shape):
    return params["BLOCK"] <= shape["N"] and shape["dtype"] == "float32"

def kernel(x, *, BLOCK=64, num_warps=2):
    return x * 2
"""

DOUBLE = """
import torch, triton
import triton.language as tl

SHAPES = [{"N": 4096}]
SPACE = {"BLOCK": [1024, 3]}

def inputs(N=4096, device="cuda"):
    return torch.randn(N, device=device)

def reference(x):
    return x * 2

@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)

def kernel(x, *, BLOCK=1024):
    y = torch.empty_like(x)
    double[(x.numel() // BLOCK,)](x, y, BLOCK)
    return y
"""


@pytest.fixture
def survey(tmp_path):
    def survey(function, *arguments, text=SCALE):
        path, answer = tmp_path / "scale.py", tmp_path / "answer"
        path.write_text(text)
        arguments = str(path), *arguments, devices.find("h100-sxm"), str(answer)
        worker.call(f"solkit.measure.benches.trusted.survey:{function}", *arguments)
        return json.loads(answer.read_text())

    return survey


def test_the_valid_configurations_of_each_shape(survey):
    small, half, large = survey("survey_space")
    assert (small["shape"], small["default"]) == (
        {"N": 1024, "dtype": "float32"},
        {"BLOCK": 64, "num_warps": 2},
    )
    assert small["valid"] == [{"BLOCK": b, "num_warps": w} for b in (32, 64) for w in (1, 2)]
    assert half["valid"] == []
    assert len(large["valid"]) == 6


def test_values_that_a_space_names_twice_are_tried_once(survey):
    space = 'SPACE = {"BLOCK": [64, 64, 32, 64.0], "num_warps": [1]}'
    small, _, _ = survey("survey_space", text=SCALE.replace(re.findall("SPACE.*", SCALE)[0], space))
    blocks = [params["BLOCK"] for params in small["valid"]]
    assert [(type(block), block) for block in blocks] == [(int, 64), (int, 32), (float, 64.0)]


@pytest.mark.slow
def test_of_a_huge_space_some_configurations_are_drawn(survey):
    space = 'SPACE = {"BLOCK": range(1, 10**9), "num_warps": [1, 2]}'
    huge = SCALE.replace(re.findall("SPACE.*", SCALE)[0], space).replace("<=", ">=")
    small, *_ = survey("survey_space", text=huge.replace('shape["dtype"] == "float32"', "True"))
    assert len({tuple(params.values()) for params in small["valid"]}) == 20_000
    assert max(params["BLOCK"] for params in small["valid"]) > 10**8


def test_the_bound_of_each_shape_and_why_there_is_none(survey):
    shapes = {"N": 1024}, {"N": 64, "dtype": "float16"}, {"N": 4096}
    small, half, large = (survey("survey_bound", None, shape) for shape in shapes)
    assert [item["shape"] for item in (small, half, large)] == [
        {"N": 1024, "dtype": "float32"},
        {"N": 64, "dtype": "float16"},
        {"N": 4096, "dtype": "float32"},
    ]
    assert (small["read_bytes"], small["write_bytes"]) == (4096, 4096)
    assert (half["read_bytes"], half["write_bytes"]) == (128, 128)
    assert small["operations"] == {"fp32": 1024}
    assert 0 < small["hard_bound_ms"] <= small["bound_ms"]
    assert "not so many" in large["error"]


def test_a_kernel_that_a_program_launches_is_bounded_and_timed_as_there(survey):
    says = '{"graph": True, "reuse_bytes": {"x": shape["N"] * 1024}}'
    say = f"def deployed(shape):\n    return {says}\n"
    shapes = {"N": 1024}, {"N": 65536}  # of which the second finds 64 MiB between two uses
    cold = survey("survey_bound", None, {"N": 1024})
    warm, far = (survey("survey_bound", None, shape, text=SCALE + say) for shape in shapes)
    assert (warm["protocol"], warm["l2"], warm["launched"]) == ("warm-graph", "warm", "graph")
    assert warm["resident"] == ["x"]
    assert warm["hard_bound_ms"] < cold["hard_bound_ms"]
    assert (far["protocol"], far["resident"]) == ("cold-graph", [])


def test_what_compiling_ahead_tells(tmp_path):
    path, answer = tmp_path / "double.py", tmp_path / "answer"
    path.write_text(DOUBLE)
    how = [{"BLOCK": 1024}, {"BLOCK": 3}], 100.0, devices.find("h100-sxm"), str(answer)
    inputs = str(path), None, {"N": 4096}, *how
    worker.call("solkit.measure.benches.trusted.survey:compile_ahead", *inputs)
    right, wrong = map(json.loads, answer.read_text().splitlines())
    (facts,) = facts_from_json(right[2])
    assert (right[1], facts.launch.name, facts.launch.grid) == ("", "double", (4, 1, 1))
    assert facts.registers > 0
    assert facts.instructions is not None
    load, store = facts.requests.accesses
    assert load.requested_bytes == store.requested_bytes == 4 * 4096
    assert "power of 2" in wrong[1]
    assert wrong[2] == ""
    worker.call("solkit.measure.benches.trusted.survey:compile_ahead", *inputs, False)
    again = json.loads(answer.read_text().splitlines()[2])
    assert (again[1], again[2]) == ("", "")  # compiled without facts


EXTENSION = '''
import torch
from torch.utils.cpp_extension import load_inline

SHAPES = [{"N": 1000}]
DECLARED = "at::Tensor scale(const at::Tensor& x, int threads, bool known);"
SPACE = {"THREADS": [32, 256], "KNOWN": [True, False]}
CUDA = """
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
at::Tensor scale(const at::Tensor& x, int threads, bool known) {
  at::Tensor out = at::empty_like(x);
  if (!known) threads = somewhere_else(threads);
  if (threads > 0) twice<<<(x.numel() + threads - 1) / threads, threads>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel());
  return out;
}
"""

def inputs(N=1000, device="cuda"):
    return torch.randn(N, device=device)

def reference(x):
    return x * 2

def kernel(x, *, THREADS=32, KNOWN=True):
    return load_inline("twice", DECLARED, CUDA, functions=["scale"]).scale(x, THREADS, KNOWN)
'''


@pytest.fixture
def ahead(tmp_path, in_child):
    """What compiling two configurations ahead tells; an error to raise in place of building."""
    path, answer = tmp_path / "twice.py", tmp_path / "answer"
    path.write_text(EXTENSION)
    choices = [{"THREADS": 256, "KNOWN": True}, {"THREADS": 32, "KNOWN": False}]

    def child(error):
        built = []

        def build(name, cpp_sources, cuda_sources, functions):
            built.append((name, cpp_sources, "twice<<<" in cuda_sources, functions))
            if error:
                raise RuntimeError(error)

        cpp_extension.load_inline = build
        WhenImported()  # as if it were imported now
        device = devices.find("h100-sxm")
        compile_ahead(str(path), None, {"N": 1000}, choices, 600.0, device, str(answer))
        return built

    def ahead(error=""):
        built = in_child(child, error)
        return built, [json.loads(line) for line in answer.read_text().splitlines()]

    return ahead


@pytest.mark.slow
def test_extensions_are_built_and_their_launches_told(ahead):
    pytest.importorskip("triton", reason="triton is there on Linux only")
    built, (known_value, unknown) = ahead()
    declared = "at::Tensor scale(const at::Tensor& x, int threads, bool known);"
    # the first choice is called twice: torch finds what it has built, this stand-in is asked again
    assert built == [("twice", declared, True, ["scale"])] * 3
    assert known_value[1] == unknown[1] == ""
    assert unknown[2] == ""  # how many threads is not known: it is tried live
    try:
        nvrtc.find_toolkit()
    except UnsupportedError as error:
        assert known_value[2] == ""
        pytest.skip(str(error))
    (facts,) = facts_from_json(known_value[2])
    launch = facts.launch
    assert (launch.name, launch.grid, launch.num_warps) == ("twice", (4, 1, 1), 8)
    assert 0 < facts.registers < 32


@pytest.mark.slow
def test_an_extension_that_does_not_build(ahead):
    _, results = ahead("cuda.cu(3): error: no such type")
    assert [line[1:] for line in results] == [["cuda.cu(3): error: no such type", "", False]] * 2


@pytest.mark.slow
def test_what_the_machine_failed_may_be_told_last_of_many_lines(ahead):
    """What is kept of a log is its first errors, cut to 500 characters."""
    long = "".join(f"cuda.cu({n}): error: {'no such type ' * 40}\n" for n in range(3))
    log = f"Error building extension 'twice': [1/2] nvcc\n{long}"
    _, results = ahead(f"{log}nvcc error   : 'cicc' died due to signal 9 (Kill signal)")
    assert [(len(error), is_ours) for _, error, _, is_ours in results] == [(500, True)] * 2
    _, results = ahead(log)
    assert [is_ours for *_, is_ours in results][-2:] == [False] * 2
