"""Tuples that a launcher unpacks, and tensors that no kernel names."""

from __future__ import annotations

import pytest
from rewriting import HEADER

from solkit.tuner.proposers.rewriter._nodes import render_code
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

FILE = """
@triton.jit
def copy(x_ptr, dx_ptr, y_ptr, back: tl.constexpr, N: tl.constexpr):
    cols = tl.arange(0, N)
    tl.store(y_ptr + cols, tl.load(x_ptr + cols))
    if back:
        tl.store(dx_ptr + cols, 0.0)


def kernel(x):
    y, dx = [torch.zeros_like(v) for v in (x, x)]
    extra = (y, dx)
    (out, grad) = extra
    if False:
        out = None
    copy[(1,)](x, grad, out, back=0, N=x.shape[0])
    return (out, grad.sum(-1))[0]
"""


def launcher(source):
    return render_code(parse_kernel(canonical_form(HEADER + source)).launcher.body)


def test_only_what_is_read_is_made_and_named():
    body = launcher(FILE)
    assert "torch.zeros_like(x)" in body
    assert "copy[(1,)](x, y, back=0, N=x.shape[0])" in body
    assert "return y" in body
    assert not {"extra", "grad", "dx", "sum"} & set(body.replace("(", " ").split())


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("back=0", "back=1", "dx = torch.zeros_like(x)"),
        ("return (out, grad.sum(-1))[0]", "return out, grad", "dx = torch.zeros_like(x)"),
        ("grad.sum(-1)", "grad.fill_(1)", ".fill_(1)"),
        ("for v in (x, x)", "for v in (x, x) if v is not None", "for v in"),
        ("y, dx = [torch.zeros_like(v)", "y = x\n    x, dx = [torch.zeros_like(v)", "for v in"),
    ],
)
def test_other_tuples_stay(old, new, kept):
    assert old in FILE
    assert kept in launcher(FILE.replace(old, new))


FLAGS = """
@triton.jit
def copy(x_ptr, y_ptr, WORD: tl.constexpr, N: tl.constexpr):
    cols = tl.arange(0, N)
    x = tl.load(x_ptr + cols)
    if WORD == "plain":
        tl.store(y_ptr + cols, x)
    elif WORD == "less":
        tl.store(y_ptr + cols, x - 1)
    else:
        tl.store(y_ptr + cols, x - 2)


def kernel(x, fast=None):
    word = "less"
    fast = None
    if fast is None:
        fast = False
    y = torch.empty_like(x)
    if fast and x.numel() > 1:
        y = x.clone()
    elif None is not None:
        y = x.sin()
    else:
        copy[(1,)](x, y, word, N=x.shape[0])
    return y
"""


def test_flags_that_change_and_words_decide_branches():
    text = parse_kernel(canonical_form(HEADER + FLAGS))
    assert len(text.single) == 1
    assert "if " not in render_code(text.launcher.body)
    assert "x - 1" in render_code(text.functions["copy"].node)
    assert "if " not in render_code(text.functions["copy"].node)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    fast = None\n", ""),  # the caller's
        ("        fast = False", "        fast = x.is_cuda"),
        (
            "    y = torch.empty",
            "    for fast in (True, False):\n        pass\n    y = torch.empty",
        ),
        (
            "    fast = None\n",
            "    def turn():\n        nonlocal fast\n        fast = True\n\n    fast = None\n",
        ),
        ("word,", "word if x.numel() else 'plain',"),
    ],
)
def test_flags_that_may_be_another_decide_nothing(old, new):
    assert old in FLAGS
    text = parse_kernel(canonical_form(HEADER + FLAGS.replace(old, new)))
    assert "if " in render_code(text.launcher.body)
