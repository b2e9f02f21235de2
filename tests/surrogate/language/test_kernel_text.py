"""What is read of kernel files, and texts that mean the same."""

from __future__ import annotations

import random

import pytest
from few_kernels import source

from solkit.surrogate.language.kernel_text import Writer, find_name_spans, kernel_text

CUDA = '''
SPACE = {"THREADS": [128]}
SOURCE = """
// a note on one line
__global__ void add(float* x) {  /* and one
over two */
    x[threadIdx.x] += THREADS;

}
// %s
"""

def kernel(x, *, THREADS=128):
    """Notes."""
    return launch(SOURCE, x, THREADS)
''' % ("x" * 200)

PURE = """
def f(first, second):
    total = first * 2
    other = second + 1
    third = total + other
    fourth = other * 7
    total = total - 1
    fifth = third * fourth
    for turn in range(3):
        fifth = fifth + turn
        third = third - other
    return (total, other, third, fourth, fifth)
"""


def test_what_does_not_run_on_the_gpu_is_left_out():
    text = kernel_text(source(3, slow=True))
    assert "def work3(x, out, N, PART3: tl.constexpr):" in text
    assert "tl.erf(value)" in text
    for gone in ("SPACE", "def inputs", "def reference", "Notes", "a comment", "import"):
        assert gone not in text


def test_cuda_follows_without_its_comments():
    text = kernel_text(CUDA)
    assert "x[threadIdx.x] += THREADS;" in text
    assert "SOURCE = '...'" in text
    for gone in ("a note", "over two", "Notes", "xxxx", "\n\n"):
        assert gone not in text


@pytest.mark.parametrize("text", ["no Python (", "(" * 5000, ""])
def test_what_is_no_python_is_read_as_it_is(text):
    assert kernel_text(text) == text


@pytest.mark.parametrize("seed", range(40))
def test_a_variant_computes_the_same(seed):
    written, names = Writer(renamed=0.6, moved=0.7, lifted=0.0).variant(PURE, random.Random(seed))
    before, after = {}, {}
    exec(PURE, before)
    exec(written, after)
    assert after[names.get("f", "f")](5, 11) == before["f"](5, 11)


def test_variants_differ_and_follow_from_the_seed():
    text = kernel_text(source(0, slow=False))
    results = [Writer().variant(text, random.Random(seed))[0] for seed in range(10)]
    assert len(set(results)) == 10
    assert Writer().variant(text, random.Random(3))[0] == results[3]


def test_names_that_mean_something_stay():
    text = kernel_text(source(0, slow=False))
    for seed in range(20):
        written, names = Writer(renamed=1.0).variant(text, random.Random(seed))
        assert not {"tl", "num_warps", "torch", "range"} & set(names)
        assert "tl.load(" in written
        assert "num_warps=" in written


def test_numbers_become_names():
    written, _ = Writer(renamed=0, moved=0, lifted=1.0).variant("a = 128 + b1\n", random.Random(0))
    assert "128" not in written
    assert "b1" in written


def test_places_are_whole_names():
    assert find_name_spans("N = NN + N", ["N", "M"]) == {"N": [(0, 1), (9, 10)], "M": []}
