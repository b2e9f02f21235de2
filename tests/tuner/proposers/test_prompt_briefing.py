from __future__ import annotations

from pathlib import Path

import hostile_answers as answers
import pytest
from model_fakes import brief_of

from solkit.core import Tried, Verdict
from solkit.errors import InputError
from solkit.pipeline import score
from solkit.tuner.proposers.prompt_briefing import messages_for


def text_of(brief, entry="def kernel"):
    return messages_for(brief, entry)[1].content


def test_the_rules_name_the_entry_and_what_may_be_imported():
    system, user = messages_for(brief_of(answers.PARENT), "class ModelNew")
    assert (system.role, user.role) == ("system", "user")
    assert "`class ModelNew`" in system.content
    assert "torch, triton, math" in system.content
    assert "$" not in system.content


def test_a_brief_without_analysis_has_source_and_ceilings():
    text = text_of(brief_of(answers.PARENT))
    assert answers.PARENT.rstrip() in text
    assert "tensor.bf16: 1.07 PFLOP/s at 1980 MHz (4096 FLOP/clk/SM" in text
    assert "M=64, N=128" in text
    assert "Not known." in text


def test_what_was_tried_is_listed_on_one_line_each():
    tried = (
        Tried("llm", "first\n# a heading", Verdict.WRONG, why="off by one"),
        Tried("retile", "second", Verdict.CORRECT, gap=1.5, gain=1.25),
    )
    text = text_of(brief_of(answers.PARENT, tried=tried, advice=("Use more warps.",)))
    assert "- llm: first # a heading; verdict wrong; off by one" in text
    line = "- retile: second; verdict correct; 1.50 times the least time; 1.25 times as fast"
    assert line in text
    assert "- Use more warps." in text


def test_nothing_in_a_source_closes_its_fence_or_is_filled_in():
    source = answers.PARENT + '\nx = """\n````\n$advice\n"""\n'
    text = text_of(brief_of(source))
    assert "`````python\n" in text
    assert "\n$advice\n" in text


def test_a_reference_of_its_own_is_shown():
    text = text_of(brief_of(answers.GOOD, reference="class Model: ..."))
    assert "# The file with the problem" in text
    assert "class Model: ..." in text


def test_the_same_brief_makes_the_same_messages():
    brief = brief_of(answers.PARENT)
    assert messages_for(brief, "def kernel") == messages_for(brief, "def kernel")


def test_an_unknown_version_names_the_known():
    with pytest.raises(InputError, match="there are: v1"):
        messages_for(brief_of(answers.PARENT), "def kernel", "v0")


def test_an_analysed_kernel_is_described_by_its_facts():
    """On no GPU: bound, gap, launches, registers and accesses come from analysis alone."""
    report = score(str(Path("examples/rmsnorm.py")), device="h100", shapes=[{"M": 512, "N": 1024}])
    result = report.results[0]
    brief = brief_of(Path("examples/rmsnorm.py").read_text(encoding="utf-8"), result=result)
    text = text_of(brief)
    kernel = result.analysis.kernels[0]
    assert f"limited by {result.bound.limiter}" in text
    assert f"registers {kernel.facts.registers} a thread" in text
    assert "grid (512, 1, 1)" in text
    assert f"occupancy {kernel.occupancy.fraction:.0%}" in text
    assert "DRAM: reads" in text
    assert "load of x_ptr at rmsnorm.py:" in text
    costly = [item for item in result.gap.factors if abs(item.factor - 1) >= 0.005]
    assert costly
    for factor in costly:
        assert f"- {factor.name}: {factor.factor:.3f}. {factor.evidence}"[:200] in text
    free = next(factor for factor in result.gap.factors if factor not in costly)
    assert f"- {free.name}: 1.0" not in text
