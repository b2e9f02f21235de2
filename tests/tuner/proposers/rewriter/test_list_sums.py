"""Sizes that a launcher takes of a tensor which it makes of a list."""

from __future__ import annotations

import libcst as cst
import pytest
import torch

from solkit.tuner.proposers.rewriter._nodes import render_code, statements_of
from solkit.tuner.proposers.rewriter.list_sums import with_sums_of_lists

PACKED = """
def pack(x, lengths, others):
    lens = torch.tensor(lengths, device=x.device, dtype=torch.int32)
    if others is not None:
        more = torch.tensor(others, dtype=torch.int32)
        rows = lens.sum() + more.sum()
    else:
        rows = lens.sum()
    longest = int(lens.max()) - lens.min().item()
    out = torch.empty(rows, x.shape[1])
    if rows == 0:
        return out
    grid = (rows,)
    launch[grid](out, lens)
    return out.view(rows, -1), longest
"""


def rewritten(source):
    tree = cst.parse_module("import torch\n" + source)
    function = tree.body[1]
    body = with_sums_of_lists(statements_of(function), tree)
    return render_code(function.with_changes(body=cst.IndentedBlock(body)))


def called(source, *arguments):
    """The size of what a function makes, its second result, and the grid of its launch."""
    grids = []

    class Launch:
        def __getitem__(self, grid):
            grids.append([int(size) for size in grid])
            return lambda *_: None

    names = {"torch": torch, "launch": Launch()}
    exec(source, names)
    result = names["pack"](torch.zeros(2, 3), *arguments)
    out, longest = result if isinstance(result, tuple) else (result, None)
    return tuple(out.shape), longest, grids


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("others", [None, (), (5,), torch.tensor([2, 2])])
@pytest.mark.parametrize("lengths", [[3, 1], (0, 4), [2.9, 1.0], [True, 7], torch.tensor([3, 4])])
def test_sizes_are_the_same(lengths, others):
    assert called(rewritten(PACKED), lengths, others) == called(PACKED, lengths, others)


def test_no_tensor_is_asked_where_lists_hold_whole_numbers(monkeypatch):
    source = rewritten(PACKED)
    for name in ("sum", "max", "min"):
        monkeypatch.setattr(torch.Tensor, name, None)
    assert called(source, [3, 1], [2]) == ((6, 3), 2, [[6]])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    longest =", "    lengths.append(1)\n    longest ="),
        ("    longest =", "    lens += 1\n    longest ="),
        ("    longest =", "    lens.add_(1)\n    longest ="),
        ("    longest =", "    change(x)\n    longest ="),
        ("    longest =", "    same = lens.view(-1)\n    same += 1\n    longest ="),
        ("    longest =", "    same = lens.data\n    same += 1\n    longest ="),
        ("    longest =", "    lengths = [1]\n    longest ="),
        ("dtype=torch.int32)\n    if", "dtype=torch.int8)\n    if"),
        ("import torch", "from torch import *"),
        ("import torch", "import torch\nmax = None"),
    ],
)
def test_what_may_differ_from_the_list_is_asked_of_the_tensor(old, new):
    source = ("import torch" + PACKED).replace(old, new)
    tree = cst.parse_module(source)
    function = tree.body[-1]
    body = with_sums_of_lists(statements_of(function), tree)
    code = render_code(function.with_changes(body=cst.IndentedBlock(body)))
    assert "longest = int(lens.max()) - lens.min().item()" in code


@pytest.mark.parametrize(
    "use",
    [
        *("return rows", "launch[grid](out, rows)", "rows.to(x.device)", "return out, rows"),
        *("return rows == 4", "return out[rows - 1]", "return out[rows, 0]", "return out[grid]"),
    ],
)
def test_a_sum_that_is_used_as_a_tensor_stays_one(use):
    code = rewritten(PACKED.replace("launch[grid](out, lens)", use))
    assert "rows = lens.sum() + more.sum()" in code
