"""What a launch records: arguments, the text of all that runs, and what its names mean."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import promote_to_tensor as promoted

from solkit.adapters.launch_records import program_digest
from solkit.analysis.triton.capture import capture
from solkit.analysis.triton.recipes import Recipes
from solkit.core import CAPTURED_VERSION, Binding, Depth, Facts
from solkit.datasets import facts as facts_module
from solkit.datasets.facts import facts_from_json, facts_key, facts_to_json
from solkit.kernelfiles import Workload

SCALE = tl.constexpr(3)
TABLE = tl.constexpr((1, 2.5))
FIXED = "424d0a6fb49cce536699b324a57ac1bd71f9ad8b2f3df2eda158e85fb18595df"
"""The key of these compiled facts before captured ones had a version."""


@triton.jit
def square(value):
    return value * value


def make_kernel(shift):
    offset = tl.constexpr(shift)

    @triton.jit
    def kernel(src, rows, dst, scratch, n, PICK: tl.constexpr, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        row = tl.load(rows + at, at < n)
        value = PICK(promoted(tl.load(src + row, at < n))) * SCALE + offset
        tl.store(scratch + at, triton_helpers.promote_to_tensor(value) * TABLE[1], at < n)
        tl.store(dst + at, value.to(tl.float16), at < n)

    return kernel


KERNEL = make_kernel(7)


def launcher(src, rows, *, BLOCK=64):
    dst = torch.empty(100, dtype=torch.float16, device=src.device)
    scratch = torch.empty_like(src)
    KERNEL[(2,)](src[1:], rows, dst, scratch[:100], 100, square, BLOCK=BLOCK)
    return dst


def workload(kernel=launcher, **params):
    src = torch.empty(128, device="cuda")
    rows = torch.arange(100, device="cuda") * 1
    return Workload((src, rows), {}, None, partial(kernel, **params))


def captured_launches(**params):
    return [captured.launch for captured in capture(workload(**params), {}).launches]


def test_a_program_has_one_digest_wherever_it_is_defined():
    assert program_digest(make_kernel(7)) == program_digest(make_kernel(7))
    assert program_digest(make_kernel(7)) != program_digest(make_kernel(8))  # its closure differs
    assert program_digest(KERNEL) != program_digest(KERNEL, (square,))
    assert len(program_digest(KERNEL)) == 64


@pytest.fixture(scope="module")
def launch(in_child):
    (launch,) = in_child(captured_launches)
    return launch


def test_arguments_are_values_and_layouts_with_their_roles(launch):
    tensors = {name: bound.tensor for name, bound in launch.arguments.items() if bound.tensor}
    assert {name: (t.role, t.place) for name, t in tensors.items()} == {
        "src": ("input", 0),
        "rows": ("input", 1),
        "dst": ("output", 0),
        "scratch": ("temporary", -1),
    }
    assert {name for name, t in tensors.items() if t.is_written} == {"dst", "scratch"}
    src = tensors["src"]
    assert (src.dtype, src.shape, src.strides) == ("fp32", (127,), (1,))
    assert (src.offset_elements, src.alignment_bytes, src.storage_bytes) == (1, 4, 512)
    assert (tensors["dst"].dtype, tensors["dst"].element_bytes) == ("fp16", 2)
    assert launch.arguments["n"] == Binding("scalar", 100)
    assert launch.arguments["BLOCK"] == Binding("constant", 64)


def swap(src, rows):
    buffers = [src.new_empty(128), torch.empty_like(src)]
    for step in range(3):
        read, written = (src, *buffers)[step], buffers[step % 2]
        KERNEL[(2,)](read, rows, written, rows, 100, square, BLOCK=64)
    return buffers[0]


def test_equal_launches_keep_the_storages_of_each_parameter_the_first_ones_first(in_child):
    (launch,) = in_child(lambda: [c.launch for c in capture(workload(swap), {}).launches])
    assert launch.count == 3
    source, rows, first = (launch.arguments[name].tensor.storage for name in ("src", "rows", "dst"))
    (second,) = {0, 1, 2, 3} - {source, rows, first}
    assert launch.storages == {
        "src": (source, first, second),
        "rows": (rows,),
        "dst": (first, second),
        "scratch": (rows,),
    }


def test_the_program_holds_all_that_runs_wherever_it_is_defined(launch):
    program = launch.program
    assert set(program.functions) == {
        "make_kernel.<locals>.kernel",
        "square",
        "promote_to_tensor",
    }
    entry = program.functions[program.entry]
    assert entry.source.startswith("def kernel(src, rows, dst")
    names = entry.names
    assert launch.arguments["PICK"].text == "square"
    called = Binding("function", text="promote_to_tensor")
    assert names["promoted"] == names["triton_helpers.promote_to_tensor"] == called
    assert names["SCALE"].value == 3
    assert names["offset"].value == 7  # of the closure
    assert [item.value for item in names["TABLE"].items] == [1, 2.5]
    assert names["tl.float16"] == Binding("type", text="fp16")
    assert names["tl.load"].text.endswith(".load")
    assert "value" not in names


def test_replayed_launches_record_the_same(in_child):
    def replay():
        recipes = Recipes(lambda params: workload(**params))
        return [
            (recipes.capture({"BLOCK": block}).launches[0].launch, *captured_launches(BLOCK=block))
            for block in (64, 128, 32)
        ]

    for replayed, real in in_child(replay):
        assert replayed.arguments == real.arguments
        assert replayed.program == real.program


def test_captured_facts_keep_the_record_and_others_do_not(launch):
    (back,) = facts_from_json(facts_to_json([Facts(launch, Depth.CAPTURED)]))
    assert back.launch.arguments == launch.arguments
    assert back.launch.program == launch.program
    bare = replace(launch, arguments={}, program=None)
    assert json.loads(facts_to_json([Facts(launch)]))["launches"][0]["launch"]["storages"]
    assert facts_to_json([Facts(launch)]) == facts_to_json([Facts(bare)])
    assert bare == launch
    assert "program" not in json.loads(facts_to_json([Facts(launch)]))["launches"][0]["launch"]


def test_captured_records_have_a_version_of_their_own(monkeypatch):
    results = ("k", {}, {}, (9, 0), 132, "3.6.0", ())
    captured, compiled = (facts_key(*results, depth) for depth in (Depth.CAPTURED, Depth.COMPILED))
    monkeypatch.setattr(facts_module, "CAPTURED_VERSION", CAPTURED_VERSION + 1)
    assert facts_key(*results, Depth.CAPTURED) != captured
    assert facts_key(*results, Depth.COMPILED) == compiled
    assert compiled == FIXED
