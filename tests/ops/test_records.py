"""Every record is one that the passes can use, and every operator that is traced has one."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch

import solkit.ops
from solkit.ops import OPERATORS, Family, Operator, Selects, operator
from solkit.roofline.work import constants
from solkit.roofline.work.costs import _base as costs
from solkit.roofline.work.liveness import _base as needs
from solkit.roofline.work.liveness import _in_place as writes

structure = sys.modules["solkit.roofline.work.zero_propagation"]
EMITTED = Path(__file__).with_name("emitted.txt").read_text(encoding="utf-8").split()
"""Operators that tracing emits: the micro problems, torch's samples, the zoo, KernelBench and
SOL-ExecBench, as ``python bench/works.py operators`` lists them."""


def files():
    return sorted(Path(solkit.ops.__file__).parent.glob("*.py"))


def test_no_operator_has_two_records():
    every = [record for family in solkit.ops._FAMILIES for record in family.OPERATORS]
    assert len(every) == len(OPERATORS) > 800


def test_records_are_read_without_torch():
    imported = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    assert imported <= {"solkit", *sys.stdlib_module_names}


@pytest.mark.parametrize(
    ("field", "rules", "unnamed"),
    [
        ("cost", costs._RULES, set()),
        ("needs", needs._RULES, set()),
        ("writes", writes._RULES, {"in place"}),  # torch's pointwise in-place forms as well
        ("zeros", structure._RULES, set()),
        ("limits", constants._RANGES, set()),
    ],
)
def test_records_name_the_rules_that_there_are(field, rules, unnamed):
    named = {getattr(record, field) for record in OPERATORS.values()} - {""}
    assert named == set(rules) | unnamed


def test_operators_that_are_traced_have_records():
    assert len(EMITTED) > 100
    assert [name for name in EMITTED if operator(name).family is Family.UNKNOWN] == []


def test_operators_that_torch_calls_pointwise_have_a_record_or_are_unknown_on_purpose():
    tagged = {
        name
        for name in dir(torch.ops.aten)
        if isinstance(packet := getattr(torch.ops.aten, name), torch._ops.OpOverloadPacket)
        and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())
    }
    unknown = {n for n in tagged if operator(f"aten.{n}").family is Family.UNKNOWN}
    polynomials = {n for n in unknown if "polynomial" in n or n in ("clip", "clip_")}
    # dir() lists what a test before this one asked for; rrelu draws its slopes while it trains
    assert unknown - polynomials <= {"special_zeta", "rrelu", "rrelu_"}


def test_an_operator_in_place_is_its_operator():
    assert operator("aten.mul_").in_place_of == "aten.mul"
    assert operator("aten.mul_").neutral == operator("aten.mul").neutral == ("other", 1)
    assert operator("aten.mul").in_place_of == ""


def test_nothing_is_known_of_an_operator_without_a_record():
    assert operator("mine.secret") == Operator(name="mine.secret")
    assert operator("mine.secret").selects is None


def test_what_an_index_names_is_a_table_with_deciding_arguments():
    for record in OPERATORS.values():
        if record.selects is Selects.NAMED:
            assert record.decides
        if record.lookups:
            assert record.selects is Selects.NAMED


def test_the_arguments_that_records_name_are_those_of_torch():
    wrong = []
    for record in OPERATORS.values():
        namespace, _, short = record.name.partition(".")
        packet = getattr(torch.ops.aten, short, None) if namespace == "aten" else None
        if packet is None:
            continue
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        arguments = {argument.name for schema in schemas for argument in schema.arguments}
        neutral = record.neutral[0].split() if record.neutral else ()
        named = {*record.factors, *record.decides, record.lookups, *neutral}
        wrong += [(record.name, name) for name in named - arguments - {""}]
    assert wrong == []
