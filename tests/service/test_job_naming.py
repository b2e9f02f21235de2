"""Jobs are called by their kernels, and searches have a curve."""

from __future__ import annotations

import json
import re

import pytest

from solkit.service.curves import best_time_curve, sparkline
from solkit.service.job_naming import job_headline, job_title, kernel_names
from solkit.service.store import Point, Status, new_job

TRITON = """
import triton
import triton.language as tl

@triton.jit
def _rounded(x):
    return x + 0.5

@triton.autotune(configs=[], key=["n"])
@triton.jit(do_not_specialize=["n"])
def scaled_copy(x_ptr, y_ptr, n):
    tl.store(y_ptr, _rounded(tl.load(x_ptr)))

@gluon.jit
def other_copy(x_ptr): pass

def kernel(x): ...
"""
CUDA = 'SRC = r"""\n__global__ void __launch_bounds__(256, 2) add_rows(const float* x) {}\n"""\n'
TEMPLATE = 'SRC = r"""\ntemplate <int N>\n__global__ __launch_bounds__(N)\nvoid fold(int n);\n"""\n'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (TRITON, ["scaled_copy", "other_copy"]),
        (CUDA, ["add_rows"]),
        (TEMPLATE, ["fold"]),
        ('"""Softmax of rows.\n\nMore."""\nimport torch\n', ["Softmax of rows"]),
        ("import torch\nclass Model:\n    pass\n", ["Model"]),
        ("import torch\ndef reference(x):\n    return <b>\n", ["reference"]),
        ("/home/user/norms/rmsnorm.py", ["rmsnorm"]),
        ("\n\n", []),
    ],
)
def test_a_source_is_called_by_its_kernels(text, names):
    assert kernel_names(text) == names


def new_job_of(kind, result=None, **request):
    job = new_job("me", kind, "cpu", "digest", json.dumps(request))
    return job if result is None else type(job)(**{**vars(job), "result": json.dumps(result)})


def test_a_title_has_the_kernels_and_the_shape():
    assert job_title(new_job_of("tune", source=TRITON, problem=CUDA, shape={"M": 8})) == (
        "scaled_copy, other_copy M=8"
    )
    rivals = {"base": {"source": CUDA}, "candidates": [{"source": TEMPLATE}]}
    assert job_title(new_job_of("compare", **rivals)) == "add_rows, fold"
    assert (
        job_title(new_job_of("bound", problem="\n", shapes=[{"M": 1}, {"M": 2}]))
        == "bound M=1 and 1 more"
    )
    many = [{"source": f"@jit\ndef k{at}(): pass\n"} for at in range(5)]
    assert job_title(new_job_of("rank", candidates=many)) == "k0, k1, k2 and 2 more"


def test_the_answer_of_a_search_is_its_verdict():
    fields = {"best": None, "sol_ms": None, "measured": 3, "gpu_s": 1.0, "stopped": "budget"}
    faster = {"verdict": "faster", "speedup": {"value": 1.254}, **fields}
    assert job_headline(new_job_of("tune", faster)) == "faster, 1.25 times as fast"
    keep = {"verdict": "keep", "speedup": None, **fields}
    assert job_headline(
        type(new_job_of("tune"))(**{**vars(new_job_of("tune", keep)), "id": "other"})
    ) == ("keep what you have")
    assert job_headline(new_job_of("tune")) == ""
    assert new_job_of("tune").status is Status.QUEUED


def test_a_curve_steps_down_to_the_best_time():
    points = [Point(0, 10), Point(1, 10, 5.0, 2.0), Point(4, 10, 3.0, 2.0), Point(8, 10, 3.0, 2.0)]
    drawn = best_time_curve(points)
    assert "from 5.00 ms to 3.00 ms in 8.0 GPU s" in drawn
    assert "speed of light 2.00 ms" in drawn
    path = re.search(r'class="best" d="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H([\d.]+)', drawn)
    start, high, turn, low, end = map(float, path.groups())
    # seconds 1, 4 and 8 of 10, from 62 to 348
    assert (start, turn, end) == pytest.approx((90.6, 176.4, 290.8))
    assert high < low  # SVG counts from the top: the better time is lower
    assert "script" not in drawn
    assert "style=" not in drawn  # the page's policy forbids it


def test_nothing_is_drawn_without_times():
    assert best_time_curve([]) == best_time_curve([Point(0, 10), Point(1, 10)]) == ""
    assert sparkline([Point(1, 10, 5.0)]) == ""
    level = best_time_curve([Point(1, 0, 5.0), Point(2, 0, 5.0)])  # one time: no range, no budget
    assert 'class="best"' in level
