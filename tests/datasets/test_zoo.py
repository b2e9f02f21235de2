"""Every file of the zoo loads and has something to choose; of each kind some are run on the CPU."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is there on Linux only")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import zoo  # noqa: E402

KINDS = {
    *("attention", "convolution", "elementwise", "indexing", "layout", "matmul", "norm"),
    *("quantisation", "reduction", "scan", "softmax", "sparse", "update"),
}
FEWEST_FAMILIES, FEWEST_PROBLEMS, FEWEST_CONTESTED = 35, 6, 60

# Of each kind but quantisation to fp8, which the interpreter gets wrong; quick ones.
INTERPRETED = """
    adam_step/flat attention_decode/head_per_program average_pool2d/pixels_by_channels
    bias_activation/tiles_2d csr_spmv/rows_tile first_order_scan/chunked_scan gather_rows/tiles
    gemm/split_k_atomic layer_norm/whole_row logsumexp/online_row permute/block_pointers
    quantise_rows/two_pass variance/shifted_moments
""".split()


FEW = ("gemm", "layer_norm", "softmax")
ALL = pytest.param((), marks=pytest.mark.slow)  # to load and list all takes a while


@pytest.fixture(autouse=True, scope="module")
def listed_once():
    """List the valid configurations of a file at a shape once for all tests."""
    listed, known_values = zoo.Implementation.configurations, {}

    def configurations(file, shape):
        key = named(file), str(shape)
        if key not in known_values:
            known_values[key] = listed(file, shape)
        return known_values[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.Implementation, "configurations", configurations)
        yield


@pytest.fixture(scope="module", params=[FEW, ALL], ids=["few", "all"])
def every(request):
    """The files of a few families, and all."""
    return zoo.read(request.param)


def named(item):
    return f"{item.family}/{item.name}"


@pytest.mark.slow
def test_there_are_enough():
    every = zoo.read()
    problems = {(item.family, str(shape)) for item in every for shape in item.shapes}
    assert len({item.family for item in every}) >= FEWEST_FAMILIES
    count = Counter(family for family, _ in problems)
    assert {family: n for family, n in count.items() if n < FEWEST_PROBLEMS} == {}
    assert {item.kind for item in every} == KINDS
    contested = sum(count.contested for count in zoo.counts(every, "kind").values())
    assert contested >= FEWEST_CONTESTED


def test_every_file_says_what_it_is(every):
    assert {item.kind for item in every} <= KINDS
    assert [named(item) for item in every if len(item.doc.strip()) < 20] == []


def test_all_files_of_a_family_are_of_one_problem(every):
    problems = defaultdict(list)
    for item in every:
        reported_problem = item.loaded.description.problem
        problems[item.family].append(
            (
                reported_problem.shapes,
                reported_problem.sizes,
                reported_problem.tolerance,
                reported_problem.outputs,
            )
        )
    assert [
        name for name, problem in problems.items() if any(items != problem[0] for items in problem)
    ] == []


def test_no_value_is_listed_twice(every):
    spaces = {named(item): item.listed for item in every}
    assert {n for n, s in spaces.items() if any(len(set(v)) < len(v) for v in s.values())} == set()


def test_every_file_has_valid_configurations_and_its_default_wherever_there_are_any(every):
    useless, wrong = [], []
    for item in every:
        default = item.default
        valid = [item.configurations(shape) for shape in item.shapes]
        if not any(valid):
            useless.append(named(item))
        wrong += [
            (named(item), shape)
            for shape, chosen in zip(item.shapes, valid)
            if chosen and default not in chosen
        ]
    assert (useless, wrong) == ([], [])


@pytest.mark.slow
def test_some_of_each_kind_compute_their_references(interpreted):
    meant = [e for e in zoo.read() if {e.family, named(e)} & set(INTERPRETED)]
    assert {item.kind for item in meant} == KINDS
    command = ["--interpret", *INTERPRETED]
    code, text = interpreted(ROOT / "bench", "interpreting:printed", "zoo:main", command)
    assert code == 0, text
    assert f"{len(meant)} configurations, 0 errors" in text


def test_the_tables():
    few = zoo.read(("softmax", "gemm"))
    softmax = [item for item in few if item.family == "softmax"]
    rows = zoo.kinds(few).splitlines()
    assert [row.split(" | ")[0] for row in rows] == [
        "| kind",
        "| ---",
        "| matmul",
        "| softmax",
        "| all",
    ]
    files, problems = len(softmax), len(softmax[0].shapes)
    assert rows[3].startswith(f"| softmax | 1 | {files} | {problems} | ")
    count = sum(len(item.configurations(shape)) for item in softmax for shape in item.shapes)
    assert zoo.families(few).splitlines()[-1] == (
        f"| softmax | `softmax` | {files} | {problems} | {count:,} |"
    )


def test_the_docs_name_every_family(every):
    page = (ROOT / "docs" / "lab" / "zoo.md").read_text(encoding="utf-8")
    assert {item.family for item in every if f"`{item.family}`" not in page} == set()
