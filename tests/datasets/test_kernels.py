"""Which kernel files are meant."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from solkit.core import Candidate, KernelFile, Problem
from solkit.datasets.identifiers import kernel_id
from solkit.datasets.kernels import (
    INDUCTOR,
    ZOO,
    kernel_at_path,
    kernel_of_file,
    select_kernels,
    share_of_gpu,
)
from solkit.errors import InputError

KERNEL = '"""One way."""\n'


@pytest.fixture
def families(tmp_path):
    """Two families, of two files and one."""
    for family, names in (("softmax", ("online", "naive")), ("gemm", ("split_k",))):
        folder = tmp_path / "mine" / family
        folder.mkdir(parents=True)
        (folder / "problem.py").write_text(f'KIND = "{family} like"\n')
        for name in names:
            (folder / f"{name}.py").write_text(KERNEL)
    return tmp_path / "mine"


def labels_of(kernels):
    return [(k.name, k.family, k.kind, k.origin) for k in kernels]


def test_a_folder_of_families(families):
    assert labels_of(select_kernels([str(families)])) == [
        ("gemm/split_k", "gemm", "gemm like", "file"),
        ("softmax/naive", "softmax", "softmax like", "file"),
        ("softmax/online", "softmax", "softmax like", "file"),
    ]
    assert [k.family for k in select_kernels([str(families)], ["gemm"])] == ["gemm"]


def test_a_family_s_folder_holds_its_files_not_the_problem(families):
    expected = [(f"softmax/{n}", "softmax", "softmax like", "file") for n in ("naive", "online")]
    assert labels_of(select_kernels([str(families / "softmax")])) == expected


def test_a_file_of_a_family_has_the_family_s_problem(families):
    file = families / "softmax" / "online.py"
    (kernel,) = select_kernels([str(file)])
    assert labels_of([kernel]) == [("softmax/online", "softmax", "softmax like", "file")]
    assert kernel.path == file
    assert (kernel.source.name, kernel.source.text) == ("softmax/online.py", KERNEL)
    problem = (file.parent / "problem.py").read_bytes()
    assert kernel.problem.sha256 == hashlib.sha256(problem).hexdigest()
    own = hashlib.sha256(KERNEL.encode()).hexdigest()
    assert kernel.kernel_id == kernel_id(own, kernel.problem.sha256, "kernel")


FORM = "from problems import reference, inputs\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (FORM, ["form", "helper"]),
        ("def kernel(x): return x\n", ["form", "helper"]),
        ("class ModelNew: pass\n", ["form", "helper"]),
        ("class Model: pass\ndef get_inputs(): pass\n", ["form", "helper"]),
        ("LAUNCH = {}\n", ["form", "helper"]),
        ("from problems import *\n", ["form", "helper"]),
        ("def (\n", ["form", "helper"]),  # its error is reported where it is read
        ("def reference(x): return x\n", ["form"]),
        ("", ["form"]),
    ],
)
def test_a_folders_modules_without_a_form_of_kernel_files_are_passed_over(tmp_path, text, names):
    (tmp_path / "form.py").write_text(FORM)
    (tmp_path / "helper.py").write_text(text)
    if "def (" in text:
        with pytest.raises(InputError, match=r"helper\.py:1: "):
            select_kernels([str(tmp_path)])
    else:
        assert [kernel.name for kernel in select_kernels([str(tmp_path)])] == names


def test_lone_files(tmp_path):
    (tmp_path / "scale.py").write_text(FORM + 'KIND = "elementwise"\n')
    (tmp_path / "add.py").write_text(FORM + "KIND: str\n")
    assert labels_of(select_kernels([str(tmp_path)])) == [
        ("add", "add", "add", "file"),
        ("scale", "scale", "elementwise", "file"),
    ]
    (kernel,) = select_kernels([str(tmp_path / "scale.py")])
    assert kernel.source == kernel.problem


def test_lone_files_of_one_name_are_families_of_their_own(tmp_path):
    for folder, text in (("a", "KIND = 'norm'"), ("b", "KIND = 'norm'"), ("c", "KIND = 'scan'")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "scale.py").write_text(f"{FORM}{text}\n")
    a, b, c, other = select_kernels(
        [*(str(tmp_path / f) for f in "abc"), str(ZOO / "gelu" / "flat.py")]
    )
    assert a.family == b.family == f"scale-{a.problem.sha256[:8]}"  # the same problem
    assert (c.family, c.name) == (f"scale-{c.problem.sha256[:8]}",) * 2
    assert a.family != c.family
    assert other.family == "gelu"
    assert select_kernels([str(tmp_path / "c")])[0].family == "scale"


def test_one_s_own_families_of_a_name_of_the_zoo_s(families):
    mine = select_kernels([str(families), str(ZOO / "softmax")], [])
    names = {k.name for k in mine if k.origin == "file"}
    assert len({k.family for k in mine}) == 3
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"softmax", "gemm"}
    assert "softmax/online" not in names
    assert "gemm/split_k" in names


def test_which_files_build_extensions(families):
    assert not any(k.builds_extension for k in select_kernels([str(families)]))
    assert [k.name for k in select_kernels([str(ZOO / "histogram")]) if k.builds_extension] == [
        "histogram/cuda_shared_copies"
    ]


def test_what_is_named_twice_counts_once(families):
    file = str(families / "gemm" / "split_k.py")
    assert len(select_kernels([file, str(families), file])) == 3


@pytest.mark.slow
def test_the_zoo_is_the_zoo_however_it_is_named():
    every = select_kernels(["zoo"])
    assert {kernel.origin for kernel in every} == {"zoo"}
    assert {kernel.path.parent.parent for kernel in every} == {ZOO.resolve()}
    assert not [kernel.name for kernel in every if kernel.name.endswith("/problem")]
    folder = Path(every[0].path).parent
    for path in (folder, every[0].path):
        assert select_kernels([str(path)])[0] == every[0]
    assert select_kernels(["zoo"], ["softmax"]) == select_kernels([str(ZOO.resolve())], ["softmax"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "no kernel file"),
        ("nowhere.py", "a *.py file or a folder"),
        ("notes.txt", "no kernel file"),
        ("empty", "holds no kernel files"),
        ("broken.py", "broken.py:1: "),
        ("latin.py", "not UTF-8"),
    ],
)
def test_errors(tmp_path, name, text):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.py").write_text("def (\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    with pytest.raises(InputError) as error:
        select_kernels([str(tmp_path / name)])
    assert text in str(error.value)


def test_an_unknown_family_names_the_known_ones(families):
    with pytest.raises(InputError, match="no family 'conv'; expected some of: gemm, softmax"):
        select_kernels([str(families)], ["gemm", "conv"])


def test_each_graph_of_inductor_s_is_a_problem_of_its_own():
    first, second = (
        replace(*select_kernels([str(path)]), family="pointwise", origin="inductor")
        for path in sorted((INDUCTOR / "pointwise").glob("*.py"))[:2]
    )
    assert first.problem_id({}) == f"pointwise/graph={first.path.stem}"
    assert first.problem_id({}) != second.problem_id({})
    softmax = select_kernels([str(ZOO / "softmax")])
    assert {kernel.problem_id({"M": 8}) for kernel in softmax} == {"softmax/M=8"}


def test_parts_hold_each_kernel_once_and_problems_whole():
    kernels = select_kernels(["zoo", "inductor"])
    parts = [share_of_gpu(kernels, f"{place}/4") for place in (1, 2, 3, 4)]
    assert sorted(k.name for part in parts for k in part) == sorted(k.name for k in kernels)
    families = [{k.family for k in part if k.origin == "zoo"} for part in parts]
    assert sum(map(len, families)) == len(set().union(*families))
    assert min(map(len, parts)) > 0.9 * len(kernels) / 4
    assert share_of_gpu(kernels, "1/1") == kernels


@pytest.mark.parametrize("part", ["", "1", "0/2", "3/2", "a/b", "-1/2", "1/2/3"])
def test_a_part_that_there_is_not(part):
    with pytest.raises(InputError, match="expected I/N"):
        share_of_gpu((), part)


def test_a_part_that_nothing_falls_to(families):
    kernels = select_kernels([str(families)])
    with pytest.raises(InputError, match="part 3/3 is empty: there are 2 problems"):
        share_of_gpu(kernels, "3/3")


def test_a_candidate_with_a_reference_of_its_own(tmp_path):
    (tmp_path / "mine.py").write_text(KERNEL)
    (tmp_path / "task.py").write_text("KIND = 'norm'\n")
    kernel = kernel_at_path(tmp_path / "mine.py", "run", tmp_path / "task.py")
    assert labels_of([kernel]) == [("task/mine", "task", "norm", "file")]
    own, other = (
        hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("mine.py", "task.py")
    )
    assert kernel.kernel_id == kernel_id(own, other, "run")


def test_a_kernel_is_the_same_alone_and_among_others(families):
    kernels = select_kernels([str(families)])
    assert [kernel_at_path(kernel.path) for kernel in kernels] == list(kernels)


def described(problem, candidate):
    reported_problem = Problem("p", str(problem), "native", "reference", {}, ({},))
    return KernelFile(reported_problem, Candidate("run", str(candidate), {}))


def test_a_loaded_file_is_the_kernel_that_a_collection_knows(families):
    file = families / "softmax" / "online.py"
    (known_kernel,) = select_kernels([str(file)])
    for problem in (file, file.parent / "problem.py"):
        kernel = kernel_of_file(described(problem, file))
        assert replace(kernel, entry_point="kernel") == known_kernel
        assert kernel.kernel_id == kernel_id(
            known_kernel.source.sha256, known_kernel.problem.sha256, "run"
        )
    with pytest.raises(InputError, match="cannot read"):
        kernel_of_file(described(file, families / "gone.py"))


def test_a_problem_folder_is_known_by_its_sources(tmp_path):
    candidate, folder = tmp_path / "solution.json", tmp_path / "folder"
    candidate.write_text('{"not": "Python"}')
    (folder / "solutions").mkdir(parents=True)
    (folder / "definition.json").write_text("{}")
    (folder / "blob.safetensors").write_text("large")
    first = kernel_of_file(described(folder, candidate))
    assert {file.text for file in first.files} >= {'{"not": "Python"}', "{}"}
    assert all(hashlib.sha256(f.text.encode()).hexdigest() == f.sha256 for f in first.files)
    assert labels_of([first]) == [("solution.json", "p", "p", "file")]
    (folder / "blob.safetensors").write_text("other")
    assert kernel_of_file(described(folder, candidate)) == first
    (folder / "definition.json").write_text("{ }")
    second = kernel_of_file(described(folder, candidate))
    (folder / "definition.json").rename(folder / "d.json")
    third = kernel_of_file(described(folder, candidate))
    assert len({item.kernel_id for item in (first, second, third)}) == 3


def test_a_solution_is_the_same_kernel_by_its_path_and_as_loaded(tmp_path):
    candidate, folder = tmp_path / "mine.py", tmp_path / "folder"
    candidate.write_text(KERNEL)
    folder.mkdir()
    definition = folder / "definition.json"
    definition.write_text('{"name": "p"}')
    loaded = kernel_of_file(described(definition, candidate))
    assert kernel_at_path(candidate, "run", folder) == loaded
    assert kernel_at_path(candidate, "run", definition) == loaded
    definition.write_text("{}")
    with pytest.raises(InputError, match=r"definition\.json is no definition with a name"):
        kernel_at_path(candidate, "run", folder)
