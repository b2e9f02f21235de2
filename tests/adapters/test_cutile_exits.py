"""cuTile's exits inside of branches: each load is counted as often as plain Python makes it."""

from __future__ import annotations

from collections import Counter

import pytest

from solkit.adapters.cutile_exits import TileIrError
from tests.adapters.cutile_blocks import (
    Block,
    array,
    constant,
    loop,
    operation,
    tiles_of,
    var,
)
from tests.adapters.test_cutile_ir import flat, follow, tensor

BLOCKS, TILE, ELEMENTS = 6, 32, 32 * 16


class Kernel:
    """Builds a kernel over an array ``x``; each load stands in a line of its own."""

    def __init__(self):
        self.params, whole, make = array("x", "float32", 1)
        self.view, by_tiles = tiles_of(whole, (TILE,))
        self.block = var()
        self.head = [make, by_tiles, operation("tile_bid", self.block, axis=0)]

    def number(self, value):
        result, results = constant(value)
        self.head.append(results)
        return result

    def load(self, line, index):
        return operation(
            "tile_load", var("float32", (TILE,)), view=self.view, index=(index,), line=line
        )

    def test(self, fn, left, right):
        flag = var("bool_")
        return flag, operation("raw_cmp", flag, fn=fn, lhs=left, rhs=right)

    def add(self, left, right):
        total = var()
        return total, operation("raw_binary_arith", total, fn="add", lhs=left, rhs=right)

    def loads(self, operations):
        """Return loads over all blocks by line."""
        body = Block([*self.head, *operations], self.params)
        tensors = {"x": tensor(1, (ELEMENTS,), 4)}
        requests = follow(body, flat((ELEMENTS,)), tensors, (BLOCKS,))
        assert not requests.guesses
        return Counter(
            {a.line: a.requested_bytes // (4 * TILE) for a in requests.accesses if a.requests}
        )


def branch(flag, then, other=None, results=()):
    other = other or [operation("end_branch", outputs=())]
    blocks = Block(then), Block(other)
    return operation(
        "ifelse", *results, cond=flag, then_block=blocks[0], else_block=blocks[1], blocks=blocks
    )


def endless(carried, results, body):
    inside = [name for name, _ in carried]
    block = Block(body, inside)
    return operation(
        "loop",
        *results,
        blocks=(block,),
        is_for_loop=False,
        body_vars=tuple(inside),
        initial_values=tuple(start for _, start in carried),
        body=block,
    )


RETURN = operation("return")


def test_what_follows_a_continue_is_left_out():
    k = Kernel()
    step, three = var(), k.number(3)
    flag, test = k.test("lt", step, three)
    skips = branch(flag, [operation("continue", values=())])
    body = [test, skips, k.load(5, step), operation("continue", values=())]
    bounds = k.number(0), k.number(8), k.number(1)
    loads = k.loads([loop(step, bounds, [], [], body), RETURN])
    assert loads == {"k.py:5": BLOCKS * 5}


def test_a_loop_may_be_left_at_two_places_of_which_one_loads():
    k = Kernel()
    count, end, one, four = var(), k.number(9), k.number(1), k.number(4)
    limit, make_limit = k.add(k.block, four)
    ends, test_end = k.test("ge", count, end)
    reached, test_limit = k.test("eq", count, limit)
    later, add = k.add(count, one)
    body = [
        test_end,
        branch(ends, [operation("break", values=(count,))]),
        test_limit,
        branch(reached, [k.load(7, count), operation("break", values=(count,))]),
        k.load(8, count),
        add,
        operation("continue", values=(later,)),
    ]
    start = k.number(0)
    loads = k.loads([make_limit, endless([(count, start)], [var()], body), RETURN])
    expected = Counter()
    for block in range(BLOCKS):
        for i in range(9):
            expected["k.py:7" if i == block + 4 else "k.py:8"] += 1
            if i == block + 4:
                break
    assert loads == expected


def test_a_branch_that_may_leave_keeps_its_results():
    """``if b > 1: (if b > 3: return; i = b) else: i = 7`` and then a load of tile i."""
    k = Kernel()
    one, three, seven, chosen = k.number(1), k.number(3), k.number(7), var()
    outer, test_outer = k.test("gt", k.block, one)
    inner, test_inner = k.test("gt", k.block, three)
    then = [
        test_inner,
        branch(inner, [RETURN]),
        k.load(4, k.block),
        operation("end_branch", outputs=(k.block,)),
    ]
    other = [operation("end_branch", outputs=(seven,))]
    whole = branch(outer, then, other, [chosen])
    loads = k.loads([test_outer, whole, k.load(9, chosen), RETURN])
    assert loads == {"k.py:4": 2, "k.py:9": 4}


def test_a_loop_that_always_breaks_runs_once():
    k = Kernel()
    inside, start, result = var(), k.number(2), var()
    body = [k.load(3, inside), operation("break", values=(k.block,))]
    loads = k.loads([endless([(inside, start)], [result], body), k.load(6, result), RETURN])
    assert loads == {"k.py:3": BLOCKS, "k.py:6": BLOCKS}


def test_a_return_inside_of_a_loop_is_an_error():
    k = Kernel()
    one = k.number(1)
    flag, test = k.test("gt", k.block, one)
    body = [test, branch(flag, [RETURN]), operation("break", values=())]
    with pytest.raises(TileIrError, match="a return inside of a loop"):
        k.loads([endless([], [], body), RETURN])


def test_a_tile_before_the_array_moves_nothing():
    k = Kernel()
    minus = k.number(-2)
    before, add = k.add(k.block, minus)
    assert k.loads([add, k.load(2, before), RETURN]) == {"k.py:2": BLOCKS - 2}


def test_a_masked_compare_and_swap_touches_what_its_mask_lets_through():
    pointers, places = var("pointer[int32]", (TILE,)), var("int32", (TILE,))
    flag, old = var("bool_", (TILE,)), var("int32", (TILE,))
    (five, make_five), (zero, make_zero) = constant(5, shape=(TILE,)), constant(0, shape=(TILE,))
    lock = [var("pointer[int32]", name="lock_0")]
    body = [
        make_five,
        make_zero,
        operation("tile_arange", places),
        operation("raw_cmp", flag, fn="lt", lhs=places, rhs=five),
        operation("pointer_offset", pointers, pointer=lock[0], offset=places),
        operation("tile_atomic_cas", old, pointer=pointers, expected=zero, desired=five, mask=flag),
        RETURN,
    ]
    requests = follow(Block(body, lock), [None], {"lock": tensor(1, (TILE,), 4)}, (1,))
    (swap,) = requests.accesses
    assert (swap.operation, swap.requested_bytes) == ("cas", 5 * 4)
