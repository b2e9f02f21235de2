"""Files in which an entry point runs a further program where it fits."""

from __future__ import annotations

import inspect

import pytest
from rewriting import brief

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._nodes import render_module
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.compiler_hints import Eviction
from solkit.tuner.proposers.rewriter.entry_points import entry_point, with_program
from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants

NATIVE = '''
"""A file."""
import math

SPACE = {"BLOCK": [16, 32]}


def _helper(x):
    return x + 100


def kernel(x, scale=2, *, shift=0, BLOCK=16):
    return ["original", _helper(x), scale, shift, BLOCK]


def valid(params, shape):
    return params["BLOCK"] > 0
'''
PROGRAM = '''
"""A program as a compiler writes it."""
import math

SPACE = {"XBLOCK": [1, 2]}


def _helper(x):
    return -x


def valid(params, shape):
    return params["XBLOCK"] > 0


def kernel(x, scale, *, XBLOCK=1):
    return ["program", _helper(x), scale, XBLOCK]
'''
MODEL = """
class Module:
    pass


def kernel(x):
    return ["original", x]


class ModelNew(Module):
    def __init__(self, width, bias=True):
        self.width = width

    def forward(me, x, mask=None):
        return kernel(x + me.width)
"""
MODEL_PROGRAM = """
def kernel(x, width, *, XBLOCK=1):
    return ["program", x, width, XBLOCK]


class ModelNew:
    def forward(self, x, mask=None, **params):
        return kernel(x, self.width, **params)
"""
SOLUTION = """
def run(x, y, out):
    out.copy_([("original", x, y)])
"""
SOLUTION_PROGRAM = """
def kernel(x, y, *, XBLOCK=1):
    return [[("program", x, y, XBLOCK)]]
"""


LAUNCHES = """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 8})], key=["n"])
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def kernel(x):
    y = torch.empty_like(x)
    add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
"""
LAUNCHING_PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def plus(x, y, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < 100) + 1, mask=i < 100)


def kernel(x):
    y = torch.empty((100,), dtype=x.dtype, device=x.device)
    plus[(triton.cdiv(100, 32),)](x, y, XBLOCK=32)
    return y
"""


class Out(list):
    def copy_(self, values):
        self[:] = values


def run(text):
    space = {}
    exec(compile(text, "joined.py", "exec"), space)
    return space


def joined(original, program, condition, params=None, built=""):
    return with_program(original, params or {}, program, (built, condition))


def test_a_call_that_fits_runs_the_program_and_another_the_original():
    kernel = run(joined(NATIVE, PROGRAM, "x == 3 and scale == 2", {"BLOCK": 32}))["kernel"]
    assert kernel(3) == ["program", -3, 2, 1]
    assert kernel(3, XBLOCK=2) == ["program", -3, 2, 2]
    assert kernel(4) == ["original", 104, 2, 0, 32]
    assert kernel(3, 5, shift=7) == ["original", 103, 5, 7, 32]


def test_rewrites_leave_the_originals_launches_as_they_are():
    text = joined(LAUNCHES, LAUNCHING_PROGRAM, "x.shape == (100,)")
    (streamed,) = Eviction().variants(parse_kernel(canonical_form(text)), Facts(brief("")))
    assert "evict_first" in streamed.source
    tuned = parse_kernel(lifted_constants(parse_kernel(streamed.source)))
    assert tuned is not None
    params = [param.name.value for param in tuned.launcher.params.kwonly_params]
    assert "XBLOCK" in params
    assert "BLOCK" not in params
    before = LAUNCHES.replace("def kernel", "def kernel_before").rstrip().split("\n\n")
    assert all(part in render_module(tuned.tree) for part in before)


@pytest.mark.parametrize(
    "body",
    [
        "kernel = x\n    kernel = abs(kernel)\n    return kernel",
        "kernel = x\n    kernel += len(f'{kernel}') * 0\n    return kernel",
        "kernel, x = x, 0\n    for kernel in (kernel, kernel):\n        pass\n    return kernel",
        "kernel = x\n\n    def f():\n        return kernel\n    kernel = f()\n    return kernel",
        "kernel = x\n    kernel = (lambda kernel=kernel: kernel)()\n    return kernel",
        "kernel = x\n    kernel = [kernel for _ in 'a'][0]\n    return kernel",
    ],
)
def test_a_local_name_may_be_the_entry_points(body):
    text = NATIVE.replace("return x + 100", body)
    kernel = run(joined(text, PROGRAM, "x == 3", {"BLOCK": 32}))["kernel"]
    assert kernel(4) == ["original", 4, 2, 0, 32]


def test_a_model_that_a_kernel_builds_is_no_entry_point():
    text = MODEL.replace("def kernel(x):", "def launch(x):").replace(
        "return kernel", "return launch"
    )
    text += "\n\ndef kernel(x):\n    return ModelNew(2).forward(x)\n"
    entry = entry_point(text, "k.py", {})
    assert entry is not None
    assert entry.init is None
    own = run(
        joined(text, PROGRAM.replace("x, scale, *,", "x, *,").replace("scale, X", "X"), "x == 3")
    )
    assert own["kernel"](3) == ["program", -3, 1]
    assert own["kernel"](4) == ["original", 6]


def test_the_space_is_the_programs():
    space = run(joined(NATIVE, PROGRAM, "True"))
    assert space["SPACE"] == {"XBLOCK": [1, 2]}
    assert space["valid"]({"XBLOCK": 1}, {})


def test_what_else_the_original_calls_so_keeps_its_meaning():
    text = NATIVE.replace(
        'return ["original", _helper(x)', 'return ["original", valid({"BLOCK": x}, 1)'
    )
    kernel = run(joined(text, PROGRAM, "x == 3", {"BLOCK": 32}))["kernel"]
    assert kernel(4) == ["original", True, 2, 0, 32]


def test_the_entry_point_keeps_its_parameters_but_for_those_that_were_tuned():
    kernel = run(joined(NATIVE, PROGRAM, "True", {"BLOCK": 16}))["kernel"]
    assert str(inspect.signature(kernel)) == "(x, scale=2, *, shift=0, XBLOCK=1)"
    entry = entry_point(NATIVE, "k.py", {"BLOCK": 16})
    assert entry is not None
    assert str(entry.signature) == "(x, scale=2, *, shift=0)"


def test_a_default_is_what_it_was():
    text = NATIVE.replace("scale=2", "scale=_helper(5)")
    kernel = run(joined(text, PROGRAM, "x == 3", {"BLOCK": 32}))["kernel"]
    assert kernel(4) == ["original", 104, 105, 0, 32]


def test_a_parameter_that_was_tuned_may_have_a_name_of_the_programs():
    text = NATIVE.replace("BLOCK", "XBLOCK")
    kernel = run(joined(text, PROGRAM, "x == 3", {"XBLOCK": 32}))["kernel"]
    assert kernel(3, XBLOCK=2) == ["program", -3, 2, 2]
    assert kernel(4) == ["original", 104, 2, 0, 32]


def test_a_name_of_the_originals_gives_way_where_it_is_bound_and_read_alone():
    own = "import cmath as math\nfrom operator import neg as _helper"
    text = NATIVE.replace("import math", own).replace("def _helper(x)", "def other(_helper)")
    text = text.replace("return x + 100", "global valid\n    return math.sqrt(_helper)")
    text = text.replace("_helper(x), scale", "dict(_helper=_helper(x)), other(_helper=-4), scale")
    kernel = run(joined(text, PROGRAM, "x == 3", {"BLOCK": 32}))["kernel"]
    assert kernel(3) == ["program", -3, 2, 1]
    assert kernel(4) == ["original", {"_helper": -4}, 2j, 2, 0, 32]


def test_a_condition_calls_pythons_own_functions():
    own = "def len(x):\n    return 7\n\n\ndef _helper"
    text = NATIVE.replace("x + 100", "len(x)").replace("def _helper", own)
    kernel = run(joined(text, PROGRAM, "len(x) == 7"))["kernel"]
    assert kernel("abcd") == ["original", 7, 2, 0, 16]


def test_a_model_that_was_built_otherwise_runs_the_original():
    text = joined(
        MODEL, MODEL_PROGRAM, "x == 3 and mask is None", built="width == 8 and bias is True"
    )
    model = run(text)["ModelNew"]
    assert model(8).forward(3) == ["program", 3, 8, 1]
    assert model(8).forward(3, XBLOCK=4) == ["program", 3, 8, 4]
    assert model(8).forward(4) == ["original", 12]
    assert model(8).forward(3, mask=1) == ["original", 11]
    assert model(8, bias=False).forward(3) == ["original", 11]
    assert model(9).forward(3) == ["original", 12]


def test_a_condition_may_have_a_thousand_parts():
    condition = " and ".join(["x == 3", *(f"self.width != {n}" for n in range(5000, 6000))])
    model = run(joined(MODEL, MODEL_PROGRAM, condition))["ModelNew"]
    assert model(8).forward(3) == ["program", 3, 8, 1]
    assert model(8).forward(4) == ["original", 12]
    assert model(5999).forward(3) == ["original", 6002]


def test_a_model_without_an_init_of_its_own_gets_one():
    text = MODEL.replace("class ModelNew(Module):", "class Base(Module):").replace(
        "    def forward", "\n\nclass ModelNew(Base):\n    def forward"
    )
    entry = entry_point(text, "k.py", {})
    assert entry is not None
    assert str(entry.init) == "(*args, **kwargs)"
    model = run(joined(text, MODEL_PROGRAM, "x == 3", built="len(args) == 1 and args[0] == 8"))
    assert model["ModelNew"](8).forward(3) == ["program", 3, 8, 1]
    assert model["ModelNew"](9).forward(3) == ["original", 12]


def test_a_solution_writes_what_it_is_given():
    solution = run(joined(SOLUTION, SOLUTION_PROGRAM, "x == 1"))["run"]
    outs = Out(), Out()
    solution(1, 2, outs[0], XBLOCK=4)
    solution(3, 2, outs[1])
    assert outs == ([("program", 1, 2, 4)], [("original", 3, 2)])


@pytest.mark.parametrize(
    "original",
    [
        NATIVE.replace("import math", "import _helper.inner").replace("def _helper", "def other"),
        NATIVE.replace("scale=2", "XBLOCK=2").replace("scale, shift", "XBLOCK, shift"),
        NATIVE.replace("scale=2", "len=2").replace("scale, shift", "len, shift"),
        NATIVE.replace("scale=2", "_helper=2").replace("scale, shift", "_helper, shift"),
        MODEL.replace("mask=None", "XBLOCK=None"),
        MODEL.replace("width, bias", "type, bias").replace("= width", "= type"),
        "def kernel(",
        "def other(x):\n    pass\n",
    ],
)
def test_a_file_in_which_a_name_would_stand_for_two_things_is_refused(original):
    assert joined(original, PROGRAM, "True") == ""


def test_a_function_that_takes_any_keyword_is_no_entry_point():
    assert entry_point("def kernel(x, **options):\n    pass\n", "k.py", {}) is None
    assert entry_point("def launch(x):\n    pass\n", "k.py", {}) is None


def test_a_default_that_is_no_literal_is_an_ellipsis():
    entry = entry_point("def kernel(x, kind=torch.half):\n    pass\n", "k.py", {})
    assert entry is not None
    assert entry.signature.parameters["kind"].default is ...
