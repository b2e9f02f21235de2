from __future__ import annotations

import ast
import time
from pathlib import Path

import hostile_answers as answers
import pytest

from solkit.tuner.proposers.answers import Answer, Reader, Refusal
from solkit.tuner.proposers.untrusted_source import Reason, RefusedError

HOSTILE, BENIGN = list(answers.hostile()), list(answers.benign())
MOST_S = 5.0  # of a core, for one answer


@pytest.fixture(scope="module")
def reader():
    return Reader(answers.PARENT)


def test_there_are_200_hostile_answers_and_20_honest_ones():
    assert len({text for _, text in HOSTILE}) >= 200
    assert len({text for _, text in BENIGN}) >= 20


@pytest.mark.slow
def test_every_hostile_answer_is_refused_with_a_reason_and_none_runs(reader, tmp_path):
    canary = tmp_path / "canary"
    accepted, slow = [], []
    for name, text in HOSTILE:
        started = time.process_time()
        result = reader.read(text.replace("@CANARY@", str(canary)))
        slow += [name] * (time.process_time() - started > MOST_S)
        is_refused = (
            isinstance(result, Refusal) and result.why and isinstance(result.reason, Reason)
        )
        accepted += [] if is_refused else [name]
    assert not accepted
    assert not slow
    assert not canary.exists()


@pytest.mark.parametrize(("name", "text"), BENIGN, ids=[name for name, _ in BENIGN])
def test_honest_answers_are_read(reader, name, text):
    result = reader.read(text)
    assert isinstance(result, Answer), f"{name}: {result}"
    assert result.intent == "eight warps hide the latency of the loads."


@pytest.mark.parametrize("name", ["plain", "docstring", "EPS of the parent", "whole file"])
def test_what_an_answer_lacks_of_the_problem_comes_from_the_parent(reader, name):
    result = reader.read(answers.answer(answers.BENIGN[name]))
    tree, parent = ast.parse(result.source), ast.parse(answers.PARENT)
    theirs = {ast.dump(items) for items in tree.body}
    expected = [
        items
        for items in parent.body[1:]
        if getattr(items, "name", "") not in ("kernel", "rms_kernel")
    ]
    for item in expected:
        text = ast.dump(item)
        assert text in theirs or isinstance(item, ast.Import), ast.unparse(item)


def test_a_spliced_file_can_be_run(reader):
    result = reader.read(answers.answer(answers.GOOD))
    space: dict[str, object] = {}
    source = result.source.replace("@triton.jit", "")  # triton wants a file
    exec(compile(source, "spliced", "exec"), space)
    assert space["TOLERANCE"] == {"rtol": 1e-2, "atol": 1e-3}
    assert space["eps"]() == 1e-6  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", Reason.EMPTY),
        ("prose", Reason.NO_CODE),
        ("two blocks", Reason.SEVERAL_BLOCKS),
        ("cut off", Reason.CUT_OFF),
        ("C++", Reason.WRONG_LANGUAGE),
        ("no intent", Reason.NO_INTENT),
        ("long answer", Reason.OVERSIZED),
        ("long file", Reason.OVERSIZED),
        ("null byte", Reason.CHARACTERS),
        ("coding", Reason.CHARACTERS),
        ("square brackets", Reason.NESTING),
        ("minuses", Reason.NESTING),
        ("syntax", Reason.SYNTAX),
        ("other name", Reason.NO_ENTRY),
        ("no jit", Reason.NO_JIT),
        ("never launched", Reason.NO_JIT),
        ("parent", Reason.UNCHANGED),
    ],
)
def test_the_reason_is_the_right_one(reader, name, reason):
    assert reader.read(answers.MALFORMED[name]).reason is reason


def test_changes_of_the_problem_are_refused_as_such(reader):
    old, new = answers.CHANGED["tolerance"]
    text = answers.answer(answers.PARENT.replace(old, new))
    result = reader.read(text)
    assert result.reason is Reason.PROBLEM
    assert "`TOLERANCE`" in result.why


def test_the_reason_names_the_line(reader):
    source = answers.code(body="torch.save(x, 'file')")
    line = 1 + source.split("\n").index("    torch.save(x, 'file')")
    parent_lines = len(reader.read(answers.answer(answers.GOOD)).source.split("\n"))
    shift = parent_lines - len(answers.GOOD.split("\n"))
    result = reader.read(answers.answer(source))
    assert result.why == f"line {line + shift} uses torch.save"


MODEL = """
import torch

SIZE = 64


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
"""
MODEL_NEW = """
import torch
import triton
import triton.language as tl


@triton.jit
def relu(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        relu[(x.numel() // 64,)](x, x.numel(), BLOCK=64)
        return x
"""


def test_a_proposal_can_be_a_parent(reader):
    """Though it holds some of the problem twice: the spliced part, and what the answer copied."""
    source = answers.code(top="\nEPS = 1e-6\n")
    first = reader.read(answers.answer(source))
    second = Reader(first.source).read(answers.answer(answers.GOOD))
    assert isinstance(second, Answer)
    assert isinstance(Reader(second.source).read(answers.answer(source)), Answer)


def test_a_kernelbench_candidate_needs_model_new():
    reader = Reader(MODEL)
    assert reader.entry == "class ModelNew"
    assert isinstance(reader.read(answers.answer(MODEL_NEW)), Answer)
    assert reader.read(answers.answer(answers.GOOD)).reason is Reason.NO_ENTRY


def test_a_problem_in_another_file_may_be_copied_but_not_changed():
    reader = Reader(MODEL_NEW, MODEL)
    other = MODEL_NEW.replace("BLOCK=64", "BLOCK=128")
    assert isinstance(reader.read(answers.answer(other)), Answer)
    assert isinstance(reader.read(answers.answer(MODEL + other)), Answer)
    cheat = MODEL.replace("torch.relu(x)", "x") + other
    assert reader.read(answers.answer(cheat)).reason is Reason.PROBLEM


LAUNCH = """
import triton
import triton.language as tl

LAUNCH = {
    "sizes": {"N": 1024},
    "args": {"x_ptr": "fp32[N]", "n": "N"},
    "outputs": ["x_ptr"],
    "constants": {"BLOCK": 64},
    "grid": ["cdiv(N, BLOCK)"],
}


@triton.jit
def fill(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 1.0, mask=at < n)
"""


def test_a_plain_triton_module_may_change_its_constants_and_grid_alone():
    reader = Reader(LAUNCH)
    assert reader.entry == "def fill"
    assert isinstance(reader.read(answers.answer(LAUNCH.replace(": 64", ": 128"))), Answer)
    for old, new in (('"N": 1024', '"N": 1'), ('["x_ptr"]', "[]"), ('"fp32[N]"', '"fp16[N]"')):
        result = reader.read(answers.answer(LAUNCH.replace(old, new)))
        assert result.reason is Reason.PROBLEM


def test_statements_that_act_at_import_stay():
    parent = answers.PARENT.replace(
        "\n\ndef eps", '\n\ntorch.set_float32_matmul_precision("high")\n\n\ndef eps'
    )
    result = Reader(parent).read(answers.answer(answers.GOOD))
    assert 'torch.set_float32_matmul_precision("high")' in result.source


def test_what_the_parent_imports_may_be_imported():
    parent = answers.PARENT.replace("import torch\n", "import torch\nimport einops\n", 1)
    source = answers.code(head="from einops import rearrange\n" + answers.HEAD)
    assert isinstance(Reader(parent).read(answers.answer(source)), Answer)
    assert isinstance(Reader(answers.PARENT).read(answers.answer(source)), Refusal)


def test_a_parent_that_is_not_python_is_refused():
    with pytest.raises(RefusedError, match="not Python"):
        Reader("def (")


def test_kernels_of_the_examples_are_read():
    for path in sorted(Path("examples").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        changed = source.replace("tl.program_id(0)", "tl.program_id(axis=0)")
        assert isinstance(Reader(source).read(answers.answer(changed)), Answer), path
