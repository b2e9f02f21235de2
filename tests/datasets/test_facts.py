"""Facts at rest, and their names."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from solkit.core import (
    Access,
    Depth,
    Facts,
    InstructionCount,
    InstructionMix,
    Launch,
    Outcome,
    Requests,
    Reuse,
    SharedAccess,
    Stream,
    Verdict,
)
from solkit.datasets.facts import (
    depth_reached,
    facts_from_json,
    facts_id,
    facts_key,
    facts_to_json,
    tools_made_with,
)

LOAD = Access("load", "async", "x", "k.py:1", 4, 16, 16, 500, 512, 16)
FACTS = Facts(
    Launch(
        "k", (264, 2, 1), 4, 3, 2, {"B": 64, "W": 0.1, "CAUSAL": True, "N": None}, {"x": "*fp32"}, 5
    ),
    Depth.LOWERED,
    registers=32,
    spills=0,
    shared_bytes=1024,
    tensor_cores=False,
    instructions=InstructionMix(
        (
            InstructionCount("tensor", "HGMMA.64x128x16.F32", 1, 2, 0, 0, 65536),
            InstructionCount("fp32", "", 0, 7, 1, 0, 64),
        ),
        loops=1,
        lines={"k.py:1": 9},
    ),
    requests=Requests(
        accesses=(LOAD, replace(LOAD, path="global", argument="y", vector_bytes=4)),
        operations={"fp32": 256},
        l1_wavefronts=9,
        l2_read_bytes=1536,
        l2_write_bytes=416,
        steps=1 / 3,
        imbalance=1.1,
        shared=(SharedAccess("load", "k.py:2", 4, 16, 8),),
        guesses=("This was guessed.",),
        reuse=Reuse((Stream(1000, (2**20, 2**21), (5, 6), 7, (8, 9), 10, 11),), (Stream(3),), (4,)),
    ),
    notes=("That was not read.",),
    estimated=("registers",),
)
BROKEN = Facts(Launch("broken", (1, 1, 1), 4, 2), error="it does not compile")


def test_what_was_written_is_read_exactly():
    assert facts_from_json(facts_to_json((FACTS, BROKEN))) == (FACTS, BROKEN)
    assert facts_from_json(facts_to_json(())) == ()
    (back,) = facts_from_json(facts_to_json([FACTS]))
    assert isinstance(back.launch.grid, tuple)
    assert back.depth is Depth.LOWERED
    assert back.requests.steps == 1 / 3


def test_it_is_strict_json_whatever_a_constant_is():
    def strict(text):
        return json.loads(text, parse_constant=pytest.fail)

    launch = replace(FACTS.launch, constants={"LOW": float("-inf"), "HIGH": float("inf")})
    text = facts_to_json([replace(FACTS, launch=launch)])
    assert strict(text)["launches"][0]["launch"]["constants"] == {
        "LOW": "-Infinity", "HIGH": "Infinity",
    }  # fmt: skip
    assert facts_from_json(text)[0].launch == launch


def test_records_are_columns_and_defaults_are_left_out():
    (launch,) = json.loads(facts_to_json([FACTS]))["launches"]
    assert launch["requests"]["accesses"]["argument"] == ["x", "y"]
    assert launch["requests"]["reuse"]["writes"] == {"cold_bytes": [3]}
    assert "unevenness" not in launch["requests"]
    assert json.loads(facts_to_json([BROKEN]))["launches"][0].keys() == {"launch", "error"}


def test_what_a_later_version_adds_is_passed_over():
    data = json.loads(facts_to_json([FACTS]))
    data["launches"][0]["colour"] = "red"
    data["launches"][0]["requests"]["accesses"]["colour"] = ["red", "blue"]
    assert facts_from_json(json.dumps(data)) == (FACTS,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "no facts"),
        ('{"launches":[]}', "no facts"),
        ('{"version":1,"launches":[{"depth":"compiled"}]}', "launch"),
        ('{"version":1,"launches":[{"launch":{},"depth":"deep"}]}', "no facts|depth|deep"),
        ('{"version":99,"launches":[]}', "99 are newer than"),
    ],
)
def test_what_is_no_facts_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        facts_from_json(text)


def test_the_key_names_all_that_facts_follow_from():
    fields = {
        "kernel_id": "0123456789abcdef", "params": {"B": 64, "W": 1}, "shape": {"N": 8},
        "compute_capability": (9, 0), "sm_count": 132, "triton_version": "3.6.0",
        "tools": ("torch 2.11.0",), "depth": Depth.COMPILED,
    }  # fmt: skip
    others = {
        "kernel_id": "0", "params": {"B": 64, "W": 1.0}, "shape": {"N": 9},
        "compute_capability": (10, 0), "sm_count": 114, "triton_version": "3.7.1",
        "tools": ("CUDA 13.0",), "depth": Depth.LOWERED,
    }  # fmt: skip
    key = facts_key(**fields)
    assert key == facts_key(**{**fields, "params": {"W": 1, "B": 64}})
    assert len({key, *(facts_key(**{**fields, name: others[name]}) for name in fields)}) == 9


def test_estimates_of_another_version_have_another_key_and_compiled_facts_keep_theirs(monkeypatch):
    fields = {
        "kernel_id": "0123456789abcdef", "params": {"B": 64}, "shape": {"N": 8},
        "compute_capability": (9, 0), "sm_count": 132, "triton_version": "3.6.0",
    }  # fmt: skip
    before = {depth: facts_key(**fields, depth=depth) for depth in Depth}
    monkeypatch.setattr("solkit.datasets.facts.LOWERED_VERSION", 1 << 20)
    changed = {depth for depth in Depth if facts_key(**fields, depth=depth) != before[depth]}
    assert changed == {Depth.LOWERED}


def test_only_keys_of_what_is_followed_in_ptx_change_with_it(monkeypatch):
    fields = {
        "kernel_id": "0123456789abcdef", "params": {"B": 64}, "shape": {"N": 8},
        "compute_capability": (9, 0), "sm_count": 132, "triton_version": "3.6.0",
    }  # fmt: skip
    tools = {
        "triton": (), "Inductor": ("torch 2.11.0",), "cuTile": ("cuda-tile 1.1.0",),
        "CUDA C++": ("CUDA 13.0",), "TileLang": ("tilelang 0.1.15",),
        "CuTe DSL": ("nvidia-cutlass-dsl 4.8.0",),
    }  # fmt: skip
    pairs = [(name, depth) for name in tools for depth in Depth]
    keys = [facts_key(**fields, tools=tools[name], depth=depth) for name, depth in pairs]
    monkeypatch.setattr("solkit.datasets.facts.PTX_VERSION", 1 << 20)
    later = [facts_key(**fields, tools=tools[name], depth=depth) for name, depth in pairs]
    changed = [what for what, one, other in zip(pairs, keys, later, strict=True) if one != other]
    assert changed == [(name, Depth.COMPILED) for name in ("CUDA C++", "TileLang", "CuTe DSL")]


def test_cuda_that_is_lowered_has_the_key_of_what_is_compiled():
    fields = {"compute_capability": (9, 0), "sm_count": 132, "triton_version": "3.6.0"}
    row = Outcome(
        "k", "f", "elementwise", "zoo", "f/N=8", "h100-sxm", {}, Verdict.CORRECT,
        datetime(2026, 1, 1, tzinfo=timezone.utc), "random", 0.5, 0.25, cuda_version="13.0",
        **fields,
    )  # fmt: skip
    keys = [facts_id(row, CUDA, depth) for depth in (Depth.LOWERED, Depth.COMPILED)]
    assert keys[0] == keys[1]
    triton = [facts_id(row, "@triton.jit", depth) for depth in (Depth.LOWERED, Depth.COMPILED)]
    assert triton[0] != triton[1]
    assert depth_reached(CUDA, Depth.CAPTURED) is Depth.CAPTURED


INDUCTOR = "from torch._inductor.runtime import triton_helpers"
CUDA = "__global__ void f() {}"


@pytest.mark.parametrize(
    ("source", "torch", "cuda", "tools"),
    [
        ("import torch\nimport triton", "2.11.0", "13.0", ()),
        (INDUCTOR, "2.11.0+cu130", "13.0", ("torch 2.11.0",)),
        (INDUCTOR, "2.11.0", None, ("torch 2.11.0",)),
        (INDUCTOR, None, None, ("torch unknown",)),
        ("f = torch.compile(g)", "2.12.0.dev20260101+cpu", None, ("torch 2.12.0.dev20260101",)),
        (CUDA, "2.11.0", "13.0", ("CUDA 13.0",)),
        (CUDA, "2.11.0", None, ("CUDA unknown",)),
        (INDUCTOR + CUDA, "2.11.0", "13.0", ("torch 2.11.0", "CUDA 13.0")),
    ],
)
def test_code_follows_other_tools_than_triton_where_they_made_it(source, torch, cuda, tools):
    assert tools_made_with(source, torch, cuda) == tools
