"""FlashInfer-Bench's data sets: what is read, what differs from SOL-ExecBench, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from folders import flashinfer_set, on_cpu, solution, study, workload, write_json, write_safetensors

import solkit
from solkit.core import AnalysisStatus, Tolerance
from solkit.errors import KernelFileError, ShapeError
from solkit.kernelfiles import _flashinfer_bench

# ----------------------------------------------------------------------------------- problems


@pytest.mark.slow
def test_a_definition_finds_the_workloads_of_its_data_set(tmp_path):
    file = flashinfer_set(tmp_path, [workload("a", M=8), workload("b", M=16)])
    result = solkit.load(file).problem
    assert (result.name, result.format, result.path) == ("scale", "flashinfer-bench", file)
    assert result.shapes == ({"M": 8}, {"M": 16})
    cases = study(file).cases
    assert [case.work.dram_bytes for case in cases] == [2 * 8 * 32 * 4, 2 * 16 * 32 * 4]
    assert {case.tolerance for case in cases} == {Tolerance(1e-2, 1e-2)}


def test_a_data_set_with_one_definition_is_that_problem(tmp_path):
    file = flashinfer_set(tmp_path, [workload("a", M=8)])
    assert solkit.load(tmp_path).problem.path == file


def test_a_solution_alone_finds_its_data_set_and_workloads_of_a_file_each(tmp_path):
    file = flashinfer_set(tmp_path, [])
    for name in ("a", "b"):
        sizes = workload(name, M=8 if name == "a" else 16)
        trace = {"definition": "scale", "workload": sizes}
        write_json(tmp_path / "workloads" / "scale" / f"scale_{name}.json", trace)
    mine = solution({"main.py": "def run(x, factor):\n    return x * factor\n"}, "main.py::run")
    loaded = solkit.load(write_json(tmp_path / "solutions" / "scale" / "s.json", mine))
    assert (loaded.problem.path, loaded.candidate.name) == (file, "run")
    assert loaded.problem.shapes == ({"M": 8}, {"M": 16})
    lost = write_json(tmp_path / "lost" / "s.json", {**mine, "definition": "another"})
    with pytest.raises(KernelFileError, match=r"solution for 'another'.*--solution"):
        solkit.load(lost)


@pytest.mark.slow
def test_of_several_definitions_the_solution_says_which(tmp_path):
    flashinfer_set(tmp_path, [workload("a", M=8)])
    other = flashinfer_set(tmp_path, [workload("b", M=4)], name="other")
    with pytest.raises(KernelFileError, match=r"holds 2 definitions.*scale/other.json"):
        solkit.load(tmp_path)
    text = "def run(x, factor, y):\n    y.copy_(x * factor)\n"
    mine = solution({"main.py": text}, "main.py::run", definition="other")
    path = write_json(tmp_path / "solutions" / "s.json", mine)
    assert solkit.load(path, reference=tmp_path).problem.path == other
    with pytest.raises(KernelFileError, match=r"is a solution for 'other', not for 'scale'"):
        solkit.load(path, reference=tmp_path / "definitions" / "scale" / "scale.json")


def test_without_workloads_the_sizes_must_be_given_and_constraints_complete_them(tmp_path):
    file = flashinfer_set(
        tmp_path,
        [],
        axes={"batch": {"type": "var"}, "offsets": {"type": "var"}, "total_q": {"type": "var"}},
        inputs={
            "x": {"shape": ["total_q"], "dtype": "float16"},
            "qo_indptr": {"shape": ["offsets"], "dtype": "int32"},
            "first_expert": {"shape": None, "dtype": "int32"},
        },
        outputs={"y": {"shape": ["batch"], "dtype": "float16"}},
        constraints=["offsets == batch + 1", "total_q == qo_indptr[-1].item()"],
        reference=(
            "def run(x, qo_indptr, first_expert):\n"
            "    return x.reshape(len(qo_indptr) - 1, -1).sum(1)\n"
        ),
    )
    with pytest.raises(ShapeError, match=r"gives batch, total_q a size; give it with --shape ba"):
        on_cpu(file)
    new_on_cpu = on_cpu(file, shape={"batch": 4, "total_q": 20})
    assert new_on_cpu.args[1].tolist() == [0, 5, 10, 15, 20]
    assert new_on_cpu.args[2] == 0
    assert new_on_cpu.assumptions == (
        "Input qo_indptr is spread evenly: no workload says what it holds.",
        "Input first_expert is 0: no workload says what it is.",
    )


def test_a_reference_runs_without_gradients(tmp_path):
    text = (
        "import torch\ndef run(x, factor):\n    assert not torch.is_grad_enabled()\n    return x\n"
    )
    loaded = on_cpu(flashinfer_set(tmp_path, [workload("a", M=4)], reference=text))
    assert loaded.run_reference()[0] is loaded.args[0]


def test_a_reference_is_called_by_name_where_its_definition_lists_another_order(tmp_path):
    text = "def run(factor, x):\n    return x * factor\n"
    loaded = on_cpu(flashinfer_set(tmp_path, [workload("a", M=4)], reference=text))
    assert torch.equal(loaded.run_reference()[0], 3.0 * loaded.args[0])


def test_names_say_nothing_of_the_distribution_but_for_probabilities(tmp_path):
    names = {"norm_weight": ["M", "N"], "probs": ["M", "N"]}
    file = flashinfer_set(
        tmp_path,
        [workload("a", {}, M=64)],
        op_type="sampling",
        inputs={name: {"shape": shape, "dtype": "float32"} for name, shape in names.items()},
        reference="def run(norm_weight, probs):\n    return probs\n",
    )
    weight, probs = on_cpu(file).args
    assert weight.std().item() == pytest.approx(1.0, rel=0.1)
    assert torch.allclose(probs.sum(-1), torch.ones(64))


@pytest.mark.slow
def test_files_are_named_relative_to_the_data_set(tmp_path):
    stored = {"type": "safetensors", "path": "./blob/w/t.safetensors", "tensor_key": "table"}
    file = flashinfer_set(
        tmp_path,
        [workload("a", {"x": {"type": "random"}, "table": stored}, M=3)],
        inputs={
            "x": {"shape": ["N", "N"], "dtype": "float32"},
            "table": {"shape": ["M"], "dtype": "int32"},
        },
        reference="def run(x, table):\n    return x[table.long()]\n",
    )
    write_safetensors(tmp_path / "blob" / "w" / "t.safetensors", {"table": [5, 5, 8]})
    work = study(file).cases[0].work
    assert work.dram_read_bytes == 2 * 32 * 4 + 3 * 4
    assert not work.guesses


# ---------------------------------------------------------------------------------- solutions


def test_a_solution_of_several_files_may_import_relatively(tmp_path):
    file = flashinfer_set(tmp_path, [workload("a", M=4)])
    sources = {
        "src/main.py": "from .parts import scaled\ndef run(x, _, y):\n    y.copy_(scaled(x))\n",
        "src/parts.py": "def scaled(x):\n    return 3.0 * x\n",
    }
    mine = write_json(tmp_path / "s.json", solution(sources, "src/main.py::run"))
    loaded = on_cpu(file, mine)
    assert torch.equal(loaded.run_kernel()[0], loaded.run_reference()[0])


@pytest.mark.quick("None-run of")
@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("torch", "run of a CUDA extension: no function run is defined"),
        ("tvm-ffi", "run of kernel.cu: what tvm-ffi builds is not followed"),
        (None, "run of kernel.cu: what tvm-ffi builds is not followed"),
    ],
)
def test_cuda_is_bound_as_it_says_without_a_gpu(tmp_path, binding, message):
    file = flashinfer_set(tmp_path, [workload("a", M=4)])
    spec = {"language": "cuda", "binding": binding}
    mine = solution({"kernel.cu": "// CUDA"}, "kernel.cu::run", **spec)
    path = write_json(tmp_path / "s.json", mine)
    analysis = study(file, path).cases[0].analysis
    assert analysis.status is AnalysisStatus.NOT_CAPTURED
    assert message in analysis.notes[0]


def test_an_unknown_language_is_told_with_the_known_ones(tmp_path):
    file = flashinfer_set(tmp_path, [workload("a", M=4)])
    mine = solution({"main.py": "x"}, "main.py::run", language="mojo")
    with pytest.raises(KernelFileError, match=r"spec\.language: .*'tilelang'.* got 'mojo'"):
        solkit.load(write_json(tmp_path / "s.json", mine), reference=file)


# ------------------------------------------------------------------------------------- checks


def test_an_element_is_wrong_that_is_off_absolutely_and_relatively(tmp_path):
    check = on_cpu(flashinfer_set(tmp_path, [workload("a", M=4)])).check
    want = torch.tensor([0.0, 100.0])
    check(want + torch.tensor([0.009, 0.9]), want)
    with pytest.raises(AssertionError, match=r"50 % of y"):
        check(want + torch.tensor([0.011, 0.9]), want)
    with pytest.raises(AssertionError, match=r"infinities or NaN"):
        check(want / 0, want)


def test_a_mixture_of_experts_may_be_wrong_in_one_of_twenty(tmp_path):
    want = torch.ones(100)
    got = want.clone()
    got[:5] = 2
    on_cpu(flashinfer_set(tmp_path, [workload("a", M=4)], op_type="moe")).check(got, want)
    got[5] = 2
    with pytest.raises(AssertionError, match=r"94 % of y"):
        on_cpu(flashinfer_set(tmp_path, [workload("a", M=4)], op_type="moe")).check(got, want)


def test_samples_must_lie_in_what_top_k_and_top_p_leave():
    inputs = {
        "probs": torch.tensor([[0.5, 0.3, 0.15, 0.05]] * 2),
        "top_k": torch.tensor([3, 2]),
        "top_p": torch.tensor([0.7, 1.0]),
    }
    _flashinfer_bench._check_samples(torch.tensor([1, 1]), inputs)
    with pytest.raises(AssertionError, match=r"outside of the top k"):
        _flashinfer_bench._check_samples(torch.tensor([1, 2]), inputs)
    with pytest.raises(AssertionError, match=r"outside top p"):
        _flashinfer_bench._check_samples(torch.tensor([2, 1]), inputs)  # 0.5 + 0.3 come before it
    with pytest.raises(AssertionError, match=r"outside of 0 to 3"):
        _flashinfer_bench._check_samples(torch.tensor([4, 0]), inputs)


def test_paths_beneath_definitions_alone_are_problems(tmp_path):
    path = Path(write_json(tmp_path / "scale.json", {}))
    with pytest.raises(KernelFileError, match=r"is not a problem"):
        solkit.load(path)
