"""SOL-ExecBench's problem folders: what is read, how inputs are made, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from folders import (
    DEFINITION,
    SCALE,
    on_cpu,
    sol_folder,
    solution,
    study,
    workload,
    write_json,
    write_safetensors,
)

import solkit
from solkit import kernelfiles
from solkit.adapters import fake_cuda, nvrtc
from solkit.core import AnalysisStatus, Tolerance
from solkit.errors import InputError, KernelFileError, ShapeError, UnsupportedError
from solkit.kernelfiles import _drawing
from solkit.measure.checking.trials import Trials

TRITON = """
import torch, triton, triton.language as tl
from helper import BLOCK

@triton.jit
def scale(x, y, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * factor, at < n)

def run(x, factor, y):
    scale[(triton.cdiv(x.numel(), BLOCK),)](x, y, factor, x.numel(), BLOCK)
"""


# ----------------------------------------------------------------------------------- problems


@pytest.mark.slow
def test_a_folder_is_described_and_each_workload_is_a_shape(tmp_path):
    folder = sol_folder(tmp_path / "p", [workload("a", M=8), workload("b", M=16)])
    loaded = solkit.load(folder)
    assert loaded.candidate is None
    assert (loaded.name, loaded.problem.format) == ("scale", "sol-execbench")
    assert loaded.problem.path == str(Path(folder, "definition.json"))
    assert loaded.problem.shapes == ({"M": 8}, {"M": 16})
    cases = study(folder).cases
    assert [case.work.dram_read_bytes for case in cases] == [8 * 32 * 4, 16 * 32 * 4]
    assert [case.work.dram_write_bytes for case in cases] == [8 * 32 * 4, 16 * 32 * 4]


@pytest.mark.slow
def test_the_definition_itself_names_the_problem_too(tmp_path):
    folder = sol_folder(tmp_path, [workload("a", M=8)])
    assert solkit.load(Path(folder, "definition.json")).problem == solkit.load(folder).problem


def test_workloads_of_equal_sizes_are_told_apart_by_uuid(tmp_path):
    tripled = {"x": {"type": "random"}, "factor": {"type": "scalar", "value": 9.0}}
    folder = sol_folder(tmp_path, [workload("a", M=8), workload("b", tripled, M=8)])
    problem = solkit.load(folder).problem
    assert problem.shapes == ({"M": 8, "uuid": "a"}, {"M": 8, "uuid": "b"})
    assert problem.whole_shape({"uuid": "b"}) == {"M": 8, "uuid": "b"}
    assert on_cpu(folder, shape={"uuid": "b"}).args[1] == 9.0
    with pytest.raises(ShapeError, match=r"no workload has the uuid 'c'"):
        on_cpu(folder, shape={"uuid": "c"})


def test_sizes_asked_for_take_their_own_workload_or_make_one(tmp_path):
    ninefold = {"x": {"type": "random"}, "factor": {"type": "scalar", "value": 9.0}}
    folder = sol_folder(tmp_path, [workload("a", M=8), workload("b", ninefold, M=16)])
    assert on_cpu(folder, shape={"M": 16}).args[1] == 9.0
    other = on_cpu(folder, shape={"M": 5})
    assert (tuple(other.args[0].shape), other.args[1]) == ((5, 32), 3.0)
    with pytest.raises(ShapeError, match=r"its sizes are: M"):
        on_cpu(folder, shape={"N": 5})
    with pytest.raises(ShapeError, match=r"M=-1 is not a valid size"):
        on_cpu(folder, shape={"M": -1})


def test_axes_may_follow_from_others_by_expression(tmp_path):
    folder = sol_folder(
        tmp_path,
        [workload("a", {}, M=6)],
        axes={
            "M": {"type": "var"},
            "half": {"type": "expr", "expression": "M // 2"},
            "area": {"type": "expr", "expression": "(half + 1) ** 2"},
        },
        inputs={"x": {"shape": ["half", "area", "7"], "dtype": "bfloat16"}},
        outputs={"y": {"shape": ["half"], "dtype": "bfloat16"}},
        reference="def run(x):\n    return x.sum((1, 2))\n",
    )
    assert tuple(on_cpu(folder).args[0].shape) == (3, 16, 7)


@pytest.mark.slow
def test_a_workload_may_give_axes_that_the_definition_lacks(tmp_path):
    folder = sol_folder(tmp_path, [workload("a", M=8, joint=0), workload("b", M=8, joint=1)])
    assert [case.shape for case in study(folder).cases] == [
        {"M": 8, "joint": 0},
        {"M": 8, "joint": 1},
    ]


@pytest.mark.slow
def test_the_tolerance_is_the_workloads_own(tmp_path):
    tight = {**workload("a", M=8), "tolerance": {"max_atol": 1e-5, "max_rtol": 1e-4}}
    folder = sol_folder(tmp_path, [tight, workload("b", M=16)])
    tolerances = [case.tolerance for case in study(folder).cases]
    assert tolerances == [Tolerance(1e-4, 1e-5, matched=0.99), Tolerance(1e-2, 1e-2, matched=0.99)]


def test_a_reference_that_fails_is_blamed_at_its_own_line(tmp_path):
    text = "def run(x, factor):\n    y = x\n    return y @ missing\n"
    folder = sol_folder(tmp_path, [workload("a", M=8)], reference=text)
    with pytest.raises(
        InputError, match=r"definition\.json\[reference\]:3: calling run\(\) raised"
    ):
        study(folder)


def test_a_reference_may_hold_triton_kernels(tmp_path):
    text = TRITON.replace("from helper import BLOCK", "BLOCK = 64").replace(
        "factor, y):", "factor):"
    )
    text = text.replace("    scale[", "    y = torch.empty_like(x)\n    scale[") + "    return y\n"
    folder = sol_folder(tmp_path, [workload("a", M=8)], reference=text)
    assert study(folder).cases[0].work.dram_write_bytes == 8 * 32 * 4


# ------------------------------------------------------------------------------------- inputs


def test_inputs_are_drawn_as_their_names_say(tmp_path):
    names = {
        "attention_mask": ["M", "M"],
        "q_norm_weight": ["M"],
        "final_layernorm_bias": ["M"],
        "text_mask": ["M", "N"],
        "rope_cos": ["M", "N"],
        "rstd": ["M", "N"],
        "A_log": ["M", "N"],
        "attn_weights": ["M", "N"],
        "gate_proj": ["M", "N"],
        "hidden": ["M", "N"],
    }
    folder = sol_folder(
        tmp_path,
        [workload("a", {}, M=64)],
        inputs={name: {"shape": shape, "dtype": "float32"} for name, shape in names.items()},
        reference=f"def run({', '.join(names)}):\n    return hidden\n",
    )
    fields = dict(zip(names, on_cpu(folder).args, strict=True))
    lowest = torch.finfo(torch.float32).min
    assert torch.equal(fields["attention_mask"] == lowest, torch.ones(64, 64).triu(1) > 0)
    assert fields["attention_mask"].tril().count_nonzero() == 0
    assert torch.equal(fields["q_norm_weight"], torch.ones(64))
    assert torch.equal(fields["final_layernorm_bias"], torch.zeros(64))
    assert set(fields["text_mask"].unique().tolist()) == {0.0, 1.0}
    assert fields["rope_cos"].abs().max() <= 1
    assert fields["rstd"].min() >= 0.1
    assert -5 <= fields["A_log"].min() <= fields["A_log"].max() <= -1
    assert torch.allclose(fields["attn_weights"].sum(-1), torch.ones(64))
    assert fields["gate_proj"].std().item() == pytest.approx(32**-0.5, rel=0.1)
    assert fields["hidden"].std().item() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("int32", -1024, 1023), ("bool", 0, 1), ("float8_e4m3fn", -2, 2)],
)
def test_other_dtypes_are_drawn_from_the_benchmarks_ranges(tmp_path, dtype, low, high):
    folder = sol_folder(
        tmp_path,
        [workload("a", {}, M=256)],
        inputs={"x": {"shape": ["M", "N"], "dtype": dtype}},
        reference="def run(x):\n    return x\n",
    )
    drawn = on_cpu(folder).args[0]
    assert str(drawn.dtype) == f"torch.{dtype}"
    values = drawn.to(torch.float32)
    assert low <= values.min() < low + 0.1 * (high - low) + 1e-6
    assert high - 0.1 * (high - low) - 1e-6 < values.max() <= high


def test_four_bit_floats_are_rounded_and_packed_low_half_first():
    values = torch.tensor([[0.2, -0.3, 1.0, -6.0, 2.4, 2.6, -0.0, 4.9]])
    # codes of e2m1: 0, -0.5, 1, -6, 2, 3, -0 (stored as 0), 4
    codes = [0, 8 + 1, 2, 8 + 7, 4, 5, 0, 6]
    packed = _drawing._round_and_pack_fp4(values).view(torch.uint8)
    assert packed.tolist() == [[low + 16 * high for low, high in zip(codes[::2], codes[1::2])]]


def test_a_function_beside_the_reference_may_make_the_inputs(tmp_path):
    text = (
        "import torch\n"
        "def make(sizes, device):\n"
        "    table = torch.arange(sizes['M'], device=device) // 2\n"
        "    return {'table': table, 'x': torch.randn(64, sizes['N'], device=device)}\n"
        "def run(x, table):\n    return x[table]\n"
    )
    folder = sol_folder(
        tmp_path,
        [workload("a", {"x": {"type": "custom"}, "table": {"type": "custom"}}, M=8)],
        inputs={
            "x": {"shape": ["64", "N"], "dtype": "float32"},
            "table": {"shape": ["M"], "dtype": "int64"},
        },
        reference=text,
        custom_inputs_entrypoint="make",
    )
    work = study(folder).cases[0].work
    assert work.dram_read_bytes == 4 * 32 * 4 + 8 * 8  # four rows, each asked for twice; the table


ROWS = {
    "axes": {name: {"type": "var"} for name in ("M", "num_kv_indices", "num_pages")},
    "inputs": {
        "cache": {"shape": ["num_pages", "16"], "dtype": "float32"},
        "kv_indptr": {"shape": ["M"], "dtype": "int32"},
        "kv_indices": {"shape": ["num_kv_indices"], "dtype": "int32"},
    },
    "outputs": {"y": {"shape": ["16"], "dtype": "float32"}},
    "reference": (
        "def run(cache, kv_indptr, kv_indices):\n"
        "    assert kv_indices.shape[0] == kv_indptr[-1].item()\n"
        "    first, last = kv_indptr[0].item(), kv_indptr[1].item()\n"
        "    return cache[kv_indices[first:last].long()].sum(0)\n"
    ),
}


def rows_folder(folder, blob):
    stored = {
        n: {"type": "safetensors", "path": f"blob/{blob}", "tensor_key": n}
        for n in ("kv_indptr", "kv_indices")
    }
    inputs = {"cache": {"type": "random"}, **stored}
    return sol_folder(folder, [workload("a", inputs, M=3, num_kv_indices=6, num_pages=100)], **ROWS)


@pytest.mark.slow
def test_a_page_table_in_a_file_decides_what_is_read(tmp_path):
    folder = rows_folder(tmp_path, "table.safetensors")
    stored = {"kv_indptr": [0, 4, 6], "kv_indices": [7, 7, 7, 9, 1, 2]}
    write_safetensors(tmp_path / "blob" / "table.safetensors", stored)
    work = study(folder).cases[0].work
    # pages 7 and 9 and four of the six indices; offsets that Python reads count as nothing
    assert work.dram_read_bytes == 2 * 16 * 4 + 4 * 4
    assert work.hard_read_bytes > 0
    assert on_cpu(folder).args[2].tolist() == stored["kv_indices"]


def test_the_flashinfer_data_set_may_hold_the_file(tmp_path, monkeypatch):
    folder = rows_folder(tmp_path / "p", "data/trace/t.safetensors")
    stored = {"kv_indptr": [0, 4, 6], "kv_indices": [7, 7, 7, 9, 1, 2]}
    write_safetensors(tmp_path / "trace" / "t.safetensors", stored)
    monkeypatch.setenv("FLASHINFER_TRACE_DIR", str(tmp_path / "trace"))
    assert on_cpu(folder).args[1].tolist() == stored["kv_indptr"]


def test_without_the_file_a_bound_says_what_stands_in_for_it(tmp_path):
    folder = rows_folder(tmp_path, "absent.safetensors")
    work = study(folder).cases[0].work
    # offsets 0, 3, 6 over pages 0 to 5: three pages, three indices
    assert work.dram_read_bytes == 3 * 16 * 4 + 3 * 4
    assert work.hard_read_bytes == 0
    assert "Input kv_indptr is spread evenly: absent.safetensors is not here." in work.assumptions
    with pytest.raises(KernelFileError, match=r"is not here, and holds input kv_indptr"):
        on_cpu(folder)  # a measurement takes no substitutes


def test_a_pointer_of_git_lfs_is_no_file(tmp_path):
    folder = rows_folder(tmp_path, "lfs.safetensors")
    (tmp_path / "blob").mkdir()
    (tmp_path / "blob" / "lfs.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(KernelFileError, match=r"is not here"):
        on_cpu(folder)


def test_a_safetensors_file_without_the_tensor_lists_its_own(tmp_path):
    folder = rows_folder(tmp_path, "t.safetensors")
    write_safetensors(tmp_path / "blob" / "t.safetensors", {"other": [1]})
    with pytest.raises(KernelFileError, match=r"holds no tensor 'kv_indptr'; it has: other"):
        on_cpu(folder)


# ---------------------------------------------------------------------------------- solutions


def test_a_solution_in_destination_passing_style_is_given_zeroed_outputs(tmp_path):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    text = "def run(x, factor, y):\n    assert not y.any()\n    y += x * factor\n"
    mine = write_json(tmp_path / "s.json", solution({"main.py": text}, "main.py::run"))
    loaded = on_cpu(folder, mine)
    (want,), (got,) = loaded.run_reference(), loaded.run_kernel()
    assert torch.equal(got, want)
    assert torch.equal(loaded.with_destinations().run_kernel()[0], want)


@pytest.mark.parametrize(
    ("head", "gets_outputs"),
    [
        ("run(x, factor, y): y.copy_", True),
        ("run(x, factor, y=None): return ", True),  # both are possible: the benchmark's default
        ("run(x, factor): return ", False),
        ("run(x, factor=2.0, *, block=64): return ", False),
        ("run(*args): print", True),
        ("run(*args): return ", False),
    ],
)
def test_an_entry_point_tells_whether_it_gets_outputs_if_its_record_does_not(
    tmp_path, head, gets_outputs
):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    text = f"def {head}(1)\n"
    mine = write_json(tmp_path / "s.json", solution({"main.py": text}, "main.py::run"))
    assert (on_cpu(folder, mine).destinations is not None) is gets_outputs


@pytest.mark.parametrize("returned", ["x * factor", "(x * factor,)", "{'y': x * factor}"])
def test_a_solution_may_return_its_outputs(tmp_path, returned):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    text = f"def run(x, factor):\n    return {returned}\n"
    spec = solution({"main.py": text}, "main.py::run", destination_passing_style=False)
    loaded = on_cpu(folder, write_json(tmp_path / "s.json", spec))
    assert torch.equal(loaded.run_kernel()[0], loaded.run_reference()[0])
    kinds = {"x": torch.Tensor, "(": tuple, "{": dict}
    assert type(loaded.kernel.returned(*loaded.args)) is kinds[returned[0]]


def test_outputs_by_name_come_in_the_definitions_order(tmp_path):
    both = dict.fromkeys(("y", "z"), DEFINITION["outputs"]["y"])
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)], outputs=both)
    text = "def run(x, factor):\n    return {'z': x, 'y': x * factor}\n"
    spec = solution({"main.py": text}, "main.py::run", destination_passing_style=False)
    loaded = on_cpu(folder, write_json(tmp_path / "s.json", spec))
    returned = loaded.kernel.returned(*loaded.args)
    assert list(returned) == ["y", "z"]
    assert torch.equal(returned["z"], loaded.args[0])


@pytest.mark.slow
def test_the_launches_of_a_triton_solution_are_analysed(tmp_path):
    folder = sol_folder(tmp_path / "p", [workload("a", M=10)])
    sources = {"kernel.py": TRITON, "helper.py": "BLOCK = 64\n"}
    mine = write_json(tmp_path / "s.json", solution(sources, "kernel.py::run"))
    result = study(folder, mine)
    analysis = result.cases[0].analysis
    assert (result.kernel.candidate.name, result.kernel.candidate.path) == ("run", mine)
    assert analysis.status is AnalysisStatus.COMPLETE
    assert [kernel.launch.grid for kernel in analysis.kernels] == [(5, 1, 1)]


def test_sources_without_content_stand_beside_the_solution(tmp_path):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    (tmp_path / "main.py").write_text("def run(x, factor, y):\n    y.copy_(x * factor)\n")
    mine = write_json(tmp_path / "s.json", solution({"main.py": ""}, "main.py::run"))
    loaded = on_cpu(folder, mine)
    assert torch.equal(loaded.run_kernel()[0], loaded.run_reference()[0])
    (tmp_path / "main.py").unlink()
    with pytest.raises(KernelFileError, match=r"source 'main.py' has no content, and there is no"):
        on_cpu(folder, mine)


@pytest.mark.parametrize(
    "text", [SCALE, "def run(x, factor, y):\n    y.copy_(x * factor)\n"], ids=["returns", "writes"]
)
def test_a_plain_python_file_is_a_solution(tmp_path, text):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    (tmp_path / "mine.py").write_text(text)
    loaded = on_cpu(folder, str(tmp_path / "mine.py"))
    assert torch.equal(loaded.run_kernel()[0], loaded.run_reference()[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "module", "extra"),
    [
        ("cutile", "cuda.tile", "cutile"),
        ("cute_dsl", "cutlass.cute", "cute"),
        ("tilelang", "tilelang", "tilelang"),
        ("helion", "helion", "helion"),
        ("tlx", "triton.language.extra.tlx", ""),
    ],
)
def test_a_solution_names_what_brings_a_language_that_is_not_installed(
    tmp_path, monkeypatch, language, module, extra
):
    def refuse(name, *_):
        if name.split(".")[0] == module.split(".")[0]:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return None

    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=refuse), *sys.meta_path])
    for name in [name for name in sys.modules if name.startswith(module)]:
        monkeypatch.delitem(sys.modules, name)
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    text = f"import {module}\ndef run(x, factor, y):\n    y.copy_(x)\n"
    mine = solution({"main.py": text}, "main.py::run", languages=[language])
    loaded = kernelfiles.load(write_json(tmp_path / "mine.json", mine), folder)
    with fake_cuda.fake_tensors():
        kernel = loaded.workload({"M": 4}).kernel
    advice = rf" \(pip install 'solkit\[{extra}\]'\)" if extra else "$"
    with pytest.raises(UnsupportedError, match=rf"imports {module}, which .* here{advice}"):
        kernel()


@pytest.mark.parametrize("language", ["python", "triton"])
def test_a_solution_of_before_languages_names_one(tmp_path, language):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    mine = solution({"main.py": SCALE}, "main.py::run", language=language)
    del mine["spec"]["languages"]
    mine["spec"]["destination_passing_style"] = False
    loaded = on_cpu(folder, write_json(tmp_path / "s.json", mine))
    assert torch.equal(loaded.run_kernel()[0], loaded.run_reference()[0])


CUDA = {
    "scale.h": """#pragma once
template <typename T> __device__ T scaled(T x, float by) { return x * by; }
void launch(const float* x, float by, float* y, int n);
""",
    "kernel.cu": """#include "scale.h"
__global__ void scale(const float* x, float by, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = scaled(x[i], by);
}
void launch(const float* x, float by, float* y, int n) {
  scale<<<(n + 127) / 128, 128>>>(x, by, y, n);
}
""",
    "main.cpp": """#include <torch/extension.h>
#include "scale.h"
void run(torch::Tensor x, double factor, torch::Tensor y) {
  launch(x.data_ptr<float>(), factor, y.data_ptr<float>(), x.numel());
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
""",
}


@pytest.mark.slow
def test_launches_of_cuda_sources_are_followed_without_a_gpu(tmp_path):
    try:
        nvrtc.find_toolkit()
    except UnsupportedError as error:
        pytest.skip(str(error))
    folder = sol_folder(tmp_path / "p", [workload("a", M=100)])
    spec = solution(CUDA, "main.cpp::run", languages=["cuda_cpp"])
    case = study(folder, write_json(tmp_path / "s.json", spec)).cases[0]
    assert case.analysis.status is AnalysisStatus.COMPLETE, case.analysis
    (kernel,) = case.analysis.kernels
    blocks = -(-case.work.dram_write_bytes // 4 // 128)
    assert (kernel.launch.name, kernel.launch.grid) == ("scale", (blocks, 1, 1))
    assert kernel.launch.num_warps == 4


def test_cuda_sources_are_built_by_pytorch_with_the_solutions_flags(tmp_path, monkeypatch):
    import torch.utils.cpp_extension as cpp_extension

    requests = {}

    class Built:
        @staticmethod
        def run(x, factor, y):
            y.copy_(x * factor)

    monkeypatch.setattr(cpp_extension, "load", lambda **inputs: requests.update(inputs) or Built)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    sources = {"kernel.cu": "// kernel", "kernel.h": "// header", "main.cpp": "// binding"}
    spec = solution(
        sources,
        "main.cpp::run",
        languages=["cuda_cpp"],
        compile_options={"cuda_cflags": ["-O2"], "ld_flags": []},
    )
    loaded = on_cpu(folder, write_json(tmp_path / "s.json", spec))
    assert not requests  # a failure to build is the candidate's: it is built when it is called
    assert torch.equal(loaded.run_kernel()[0], loaded.run_reference()[0])
    assert [Path(file).name for file in requests["sources"]] == ["kernel.cu", "main.cpp"]
    assert requests["extra_cuda_cflags"] == ["-O2"]
    assert Path(requests["build_directory"], "kernel.h").read_text() == "// header"


# ------------------------------------------------------------------------------------- checks


def checked(tmp_path, got, **tolerance):
    want = torch.linspace(-2, 2, 100).reshape(10, 10)
    folder = sol_folder(tmp_path, [{**workload("a", M=10), "tolerance": tolerance}])
    on_cpu(folder).check(got(want), want)


def one_wrong(want):
    return want + torch.nn.functional.one_hot(torch.tensor(5), 100).reshape(10, 10)


def test_most_elements_must_be_close_and_none_beyond_the_cap(tmp_path):
    checked(tmp_path, one_wrong)  # 99 of 100
    with pytest.raises(AssertionError, match=r"99 % of y is within .*of which 99.5 % must be"):
        checked(tmp_path, one_wrong, required_matched_ratio=0.995)
    with pytest.raises(AssertionError):  # as some of the benchmark's own workloads spell it
        checked(tmp_path, one_wrong, required_match_ratio=0.995)
    with pytest.raises(AssertionError, match=r"y is off by 1, over the cap of 0.5"):
        checked(tmp_path, one_wrong, max_error_cap=0.5)


def test_an_exact_solution_passes_on_inputs_that_the_author_never_saw(tmp_path):
    """The benchmark's comparison wants finite outputs, and of the author's size."""
    loaded = kernelfiles.load(sol_folder(tmp_path, [workload("a", M=64)]))
    trials = Trials(lambda shape: loaded.workload(shape, device="cpu"), 3)
    all_trials = [*trials.own_trials(), *trials.common_trials((), 0)]
    assert {"infinities", "large"} <= {trial.name for trial in all_trials}
    for trial in all_trials:
        standard = trial.standard(trial.workload.tolerance)
        assert standard.judge([out.clone() for out in trial.want]).errors == (), trial.name
        assert standard.judge([1.5 * out + 1 for out in trial.want]).errors, trial.name


def test_outputs_must_be_finite_and_not_all_zero_and_of_the_same_form(tmp_path):
    with pytest.raises(AssertionError, match=r"y has infinities or NaN"):
        checked(tmp_path, lambda want: want / 0)
    with pytest.raises(AssertionError, match=r"y is all zero"):
        checked(tmp_path, torch.zeros_like, max_atol=9.0)
    with pytest.raises(AssertionError, match=r"where the reference has"):
        checked(tmp_path, lambda want: want.half())


def test_equal_negative_infinities_may_be_allowed(tmp_path):
    want = torch.tensor([1.0, -torch.inf])
    for allowed in (True, False):
        spec = {**workload("a", M=2), "tolerance": {"allow_negative_inf": allowed}}
        check = on_cpu(sol_folder(tmp_path, [spec])).check
        if allowed:
            check(want.clone(), want)
        else:
            with pytest.raises(AssertionError, match=r"infinities"):
                check(want.clone(), want)


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": {"x": {"shape": ["M"], "dtype": "float33"}}}, r"inputs\.x\.dtype: .*'float32'"),
        (
            {"inputs": {"x": {"shape": ["K"], "dtype": "int8"}}},
            "x has axis 'K'; the axes are: M, N",
        ),
        (
            {"axes": {"M": {"type": "vary"}, "N": {"type": "var"}}},
            r"axes\.M: .*'const', 'var', 'expr'",
        ),
        ({"outputs": {"x": {"shape": ["M"], "dtype": "int8"}}}, "x is both an input and an output"),
        ({"reference": "def go(x): ..."}, r"reference has no function run\(<inputs>\)"),
        ({"reference": "def run(x:\n"}, r"\[reference\]:1: importing it raised SyntaxError"),
        ({"reference": "def run(x): ..."}, r"the definition makes 2 positional"),
    ],
)
def test_a_definition_at_fault_is_told_by_its_member(tmp_path, changes, message):
    folder = sol_folder(tmp_path, [workload("a", M=4)], **changes)
    with pytest.raises(InputError, match=message) as fault:
        on_cpu(folder)
    assert "definition.json" in str(fault.value)


def test_a_workload_at_fault_is_told_by_its_line(tmp_path):
    bad = workload("b", {"x": {"type": "file"}}, M=4)
    folder = sol_folder(tmp_path, [workload("a", M=4), bad])
    with pytest.raises(KernelFileError, match=r"workload\.jsonl:2: inputs\.x: .*'random'"):
        solkit.load(folder)


@pytest.mark.parametrize(
    ("sources", "entry", "spec", "message"),
    [
        ({"main.py": "x"}, "main.py", {}, "expected FILE::FUNCTION"),
        ({"main.py": "x"}, "other.py::run", {}, "names 'other.py'; the sources are: main.py"),
        ({"../main.py": "x"}, "main.py::run", {}, "leaves the solution's folder"),
        ({"main.py": "x"}, "main.py::run", {"languages": ["rust"]}, r"spec\.languages.*'triton'"),
        (
            {"main.py": "x"},
            "main.py::run",
            {"languages": ["triton", "cuda_cpp"]},
            r"C\+\+ and Python cannot be mixed",
        ),
        ({"main.py": "y = 1"}, "main.py::run", {}, "has no function run"),
    ],
)
def test_a_solution_at_fault_is_told_by_its_member(tmp_path, sources, entry, spec, message):
    folder = sol_folder(tmp_path / "p", [workload("a", M=4)])
    mine = write_json(tmp_path / "s.json", solution(sources, entry, **spec))
    with pytest.raises(KernelFileError, match=message):
        on_cpu(folder, mine)


def test_a_folder_that_is_no_problem_says_what_one_holds(tmp_path):
    with pytest.raises(KernelFileError, match=r"definition\.json and workload\.jsonl"):
        solkit.load(tmp_path)


# --------------------------------------------------------------------------------- parameters

TUNED = """
SPACE = {"ADDED": [0.0, 1.0]}

def valid(params, sizes):
    return params["ADDED"] < sizes["M"]

def kernel(x, factor, y, *, ADDED=0.0):
    y.copy_(x * factor + ADDED)

def run(x, factor, y, **params):
    kernel(x, factor, y, **params)
"""


def test_a_solution_may_hand_parameters_on(tmp_path):
    folder = sol_folder(tmp_path / "p", [workload("a", M=8), workload("b", M=1)])
    (tmp_path / "mine.py").write_text(TUNED)
    loaded = kernelfiles.load(str(tmp_path / "mine.py"), folder)
    assert loaded.description.candidate.params == {"ADDED": 0.0}
    assert [dict(point) for point in loaded.space({"M": 8}).walk()] == [
        {"ADDED": 0.0},
        {"ADDED": 1.0},
    ]
    assert [dict(point) for point in loaded.space({"M": 1}).walk()] == [{"ADDED": 0.0}]
    workload_ = loaded.workload({"M": 8}, {"ADDED": 1.0}, "cpu")
    assert torch.allclose(workload_.run_kernel()[0], workload_.args[0] * 3 + 1)
    with pytest.raises(InputError, match="no autotuned kernel has a parameter WIDTH"):
        loaded.workload({"M": 8}, {"WIDTH": 1}, "cpu")


def test_a_default_is_no_output_to_be_written(tmp_path):
    folder = sol_folder(tmp_path / "p", [workload("a", M=8)])
    (tmp_path / "mine.py").write_text(
        "def run(x, factor, extra=0):\n    return x * factor + extra\n"
    )
    run = on_cpu(folder, str(tmp_path / "mine.py"))
    assert torch.equal(run.run_kernel()[0], run.args[0] * 3)


def test_inputs_have_the_definitions_names(tmp_path):
    folder = sol_folder(tmp_path, [workload("a", M=8)])
    assert on_cpu(folder).names() == ["x"]  # the factor is no tensor
    lambdas = {"lambda": {"shape": ["M"], "dtype": "float32"}}
    odd = sol_folder(
        tmp_path / "odd",
        [workload("a", {}, M=8)],
        inputs=lambdas,
        reference="def run(x):\n    return x\n",
    )
    assert on_cpu(odd).names() == ["argument 1"]
