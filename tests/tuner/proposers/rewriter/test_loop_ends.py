"""Loops that end where masks leave nothing, axes of reductions, and steps of loops."""

from __future__ import annotations

import ast

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.loop_ends import LoopEnds
from solkit.tuner.proposers.rewriter.tile_constants import Constants, Retile

CAUSAL = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(q, k, v):
    s = q @ k.T
    above = torch.ones_like(s, dtype=torch.bool).triu(1)
    return torch.softmax(s.masked_fill(above, float("-inf")), -1) @ v


def inputs(S=40, device="cuda"):
    return tuple(torch.randn(S, 16, device=device) for _ in range(3))


@triton.jit
def attend(Q, K, V, O, S, D: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < S, other=0.0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, S, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        k = tl.load(K + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where(rows[:, None] >= cols[None, :], scores, float("-inf"))
        new = tl.maximum(top, tl.max(scores, axis=-1))
        p = tl.exp(scores - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(p, axis=-1)
        v = tl.load(V + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p, v, input_precision="ieee")
        top = new
    tl.store(O + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < S)


def kernel(q, k, v):
    out = torch.empty_like(q)
    attend[(triton.cdiv(q.shape[0], 16),)](q, k, v, out, q.shape[0], D=16, BLOCK=16)
    return out
"""
MASK = 'tl.where(rows[:, None] >= cols[None, :], scores, float("-inf"))'
LAST = "pid * BLOCK + (BLOCK - 1) + 1"
END = f"tl.minimum(S, {LAST})"


def ends(source):
    return [
        line.split(" = ")[1].replace("(pid * BLOCK)", "pid * BLOCK")
        for text in variants(LoopEnds(), canonical_form(HEADER + source).removeprefix(HEADER))
        for line in text.splitlines()
        if line.strip().startswith("last = ")
    ]


def test_keys_above_the_diagonal_are_left_out(is_right):
    (variant,) = variants(LoopEnds(), CAUSAL)
    assert ends(CAUSAL) == [END]
    assert is_right(variant, CAUSAL, S=40)


@pytest.mark.parametrize(
    ("mask", "end"),
    [
        ('tl.where(cols[None, :] > rows[:, None], float("-inf"), scores)', END),
        ('scores + tl.where(rows[:, None] - cols[None, :] >= 0, 0.0, float("-inf"))', END),
        ('tl.where((rows[:, None] >= cols[None, :]) & (cols < S)[None, :], scores, -float("inf"))',
         END),
        ('tl.where(rows[:, None] > cols[None, :], scores, float("-inf"))',
         "tl.minimum(S, pid * BLOCK + (BLOCK - 1))"),
    ],
)  # fmt: skip
def test_a_mask_may_be_written_otherwise(mask, end):
    assert ends(CAUSAL.replace(MASK, mask)) == [end]


def test_a_loop_is_bounded_by_a_number_where_rows_have_two_axes():
    """Of a column of rows one axis would stay, and Triton 3.6 dies of a bound that is a block."""
    source = CAUSAL.replace(
        "    d = tl.arange(0, D)", "    at = rows[:, None] * 1\n    d = tl.arange(0, D)"
    )
    mask = MASK.replace("rows[:, None]", "at")
    assert ends(source.replace(MASK, mask)) == ["tl.minimum(S, tl.max(rows[:, None] * 1) + 1)"]


def test_sums_may_be_relative_to_the_maximum_of_all_keys():
    every = "tl.max(tl.dot(q, tl.trans(k)), axis=-1)"
    source = CAUSAL.replace("tl.max(scores, axis=-1)", every)
    assert ends(source) == [END]
    assert not ends(source.replace("acc / total[:, None]", "acc / total[:, None] + top[:, None]"))


WINDOW_MASK = """scores
        scores = tl.where(rows[:, None] >= cols[None, :], scores, -1e9)
        scores = tl.where(rows[:, None] - cols[None, :] < 20, scores, -1e9)"""
WINDOW = CAUSAL.replace(MASK, WINDOW_MASK).replace(
    "    return torch.softmax",
    "    above |= torch.ones_like(above).tril(-20)\n    return torch.softmax",
)
BEGIN = "tl.maximum(0, ((pid * BLOCK) + 0 - 20) // BLOCK * BLOCK)"


def begins(source):
    form = canonical_form(HEADER + source).removeprefix(HEADER)
    return [
        line.split(" = ")[1]
        for text in variants(LoopEnds(), form)
        for line in text.splitlines()
        if line.strip().startswith("first = ")
    ]


def test_a_loop_begins_with_the_first_window_of_its_rows(is_right):
    (variant,) = variants(LoopEnds(), WINDOW)
    assert begins(WINDOW) == [BEGIN]
    assert ends(WINDOW) == [END]
    assert is_right(variant, WINDOW, S=70)


def test_a_maximum_that_is_the_fill_may_have_a_guard():
    guard = "own = tl.max(scores, axis=-1)\n        own = tl.where(own == -1e9, 0.0, own)\n"
    source = WINDOW.replace("        new = ", f"        {guard}        new = ")
    source = source.replace("tl.maximum(top, tl.max(scores, axis=-1))", "tl.maximum(top, own)")
    assert begins(source) == [BEGIN]


def test_rows_that_may_have_no_column_begin_with_the_first():
    """A fill is all that they have, and each column has its weight."""
    source = WINDOW.replace("total[:, None], mask=rows[:, None] < S", "total[:, None]")
    own = f"tl.where({LAST} <= S, (pid * BLOCK) + 0 - 20, 0)"
    (begin,) = begins(source)
    assert begin.replace("(pid * BLOCK) + (BLOCK", "pid * BLOCK + (BLOCK") == BEGIN.replace(
        "(pid * BLOCK) + 0 - 20", own
    )


def test_a_window_may_be_written_otherwise():
    mask = "tl.where(cols[None, :] > rows[:, None] - 20, "
    assert begins(WINDOW.replace("tl.where(rows[:, None] - cols[None, :] < 20, ", mask)) == [BEGIN]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows[:, None] >= cols[None, :], scores", "rows[:, None] > cols[None, :], scores"),
        ("scores = tl.where(rows[:, None] >= cols[None, :], scores, -1e9)", "scores = scores"),
        ("rows[:, None] - cols[None, :] < 20", "rows[:, None] - cols[None, :] < 20 - start"),
        ("acc / total[:, None]", "acc / total[:, None] + top[:, None]"),
        ("        top = new\n", "        top = new\n        total += 1\n"),
        ("        top = new\n", "        top = new\n        tl.store(O + start, 0.0)\n"),
        ("< 20, scores, -1e9", "< 20, scores, -10.0"),  # such keys have a weight
        ("start + tl.arange(0, BLOCK)", "start + tl.arange(0, D)"),  # of the next trip, too
    ],
)  # fmt: skip
def test_a_loop_with_something_ahead_of_its_windows_begins_there(old, new):
    assert old in WINDOW
    assert not begins(WINDOW.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MASK, "tl.where(rows[:, None] > cols[None, :], scores, -1e9)"),  # a row may have no key
        (MASK, "tl.where(rows[:, None] <= cols[None, :], scores, float('-inf'))"),  # the others
        (MASK, "tl.where(rows[:, None] >= cols[None, :], float('-inf'), scores)"),
        (MASK, "tl.where((rows[:, None] >= cols[None, :]) | (cols < 4)[None, :], scores, "
               "float('-inf'))"),
        (MASK, "scores * (rows[:, None] >= cols[None, :])"),  # a score of 0 has a weight
        ("        top = new\n", "        top = new\n        total += 1\n"),
        ("        top = new\n", "        top = new\n        tl.store(O + start, 0.0)\n"),
        ("        top = new\n", "        top = new\n        rows = rows + 0\n"),
        ("        top = new\n", "        top = new\n        tl.atomic_add(O, 0.0)\n"),
        ("acc / total[:, None]", "acc / total[:, None] + start"),
        ("range(0, S, BLOCK)", "range(S - BLOCK, -1, -BLOCK)"),  # the first trips are masked
        ("acc / total[:, None]", "acc / total[:, None] + tl.sum(scores)"),
        ("cols = start + tl", "cols = (start + BLOCK) % S + tl"),  # columns do not grow
    ],
)  # fmt: skip
def test_a_loop_whose_last_trips_may_count_keeps_its_end(old, new):
    assert old in CAUSAL
    assert ends(CAUSAL.replace(old, new)) == []


PREFIX = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x, counts):
    places = torch.arange(x.shape[1], device=x.device)
    return torch.where(places < counts[:, None], x, 0.0).sum(1)


def inputs(B=3, N=70, device="cuda"):
    counts = torch.randint(1, N, (B,), dtype=torch.int32, device=device)
    return torch.randn(B, N, device=device), counts


@triton.jit
def total(x, counts, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    count = tl.load(counts + row)
    sums = tl.zeros((BLOCK,), tl.float32)
    for block in range(tl.cdiv(N, BLOCK)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        sums += tl.load(x + row * N + at, mask=(at < count) & (at < N), other=0.0)
    tl.store(y + row, tl.sum(sums, axis=0))


def kernel(x, counts):
    y = torch.empty(x.shape[0], device=x.device)
    total[(x.shape[0],)](x, counts, y, x.shape[1], BLOCK=16)
    return y
"""


def test_a_row_ends_with_its_own_length(is_right):
    (variant,) = variants(LoopEnds(), canonical_form(HEADER + PREFIX).removeprefix(HEADER))
    assert ends(PREFIX) == ["tl.minimum(tl.cdiv(N, BLOCK), tl.cdiv(count, BLOCK))"]
    assert is_right(variant, PREFIX, B=3, N=70)


def test_what_is_loaded_where_a_mask_is_false_must_be_neutral():
    assert ends(PREFIX.replace("other=0.0", "other=1.0")) == []
    assert ends(PREFIX.replace(", other=0.0", "")) == []  # it may be anything


def test_numbers_may_be_of_any_base():
    assert ends(CAUSAL.replace("shrink = tl.exp(", "shrink = 0b1 * tl.exp(")) == [END]


# ------------------------------------------------------------------------------- axes


@pytest.mark.parametrize(
    ("code", "plain"),
    [
        ("tl.max(scores, axis=-1)", "tl.max(scores, axis=1)"),
        ("tl.max(scores, -2)", "tl.max(scores, 0)"),
        ("tl.sum(scores, axis=-1, keep_dims=True)", "tl.sum(scores, axis=1)[:, None]"),
        ("tl.max(scores, keep_dims=True, axis=0)", "tl.max(scores, axis=0)[None, :]"),
        ("tl.sum(tl.exp(rows), axis=-1)", "tl.sum(tl.exp(rows), axis=0)"),
        ("tl.max(tl.sum(scores, axis=-1, keep_dims=True), axis=-2)",
         "tl.max(tl.sum(scores, axis=1)[:, None], axis=0)"),
        ("tl.max(unknown(scores), axis=-1)", "tl.max(unknown(scores), axis=-1)"),
        ("tl.max(rows, axis=-2)", "tl.max(rows, axis=-2)"),  # it has no such axis
        ("tl.max(scores, -1, return_indices=True, keep_dims=True)[0]",
         "tl.max(scores, -1, return_indices=True, keep_dims=True)[0]"),  # these are two values
        ("tl.max(tl.sum(scores, 1, True), -1)", "tl.max(tl.sum(scores, 1, True), -1)"),
    ],
)  # fmt: skip
def test_axes_are_counted_from_the_first(code, plain):
    form = canonical_form(HEADER + CAUSAL.replace("new = ", f"new = {code} + "))
    line = next(line for line in form.splitlines() if " new = " in line)
    assert line.split(" = ", 1)[1].startswith(f"{plain} + ")


def test_axes_of_a_name_with_two_ranks_stay():
    source = CAUSAL.replace("    for start", "    if D == 16:\n        rows = q\n    for start")
    form = canonical_form(HEADER + source.replace("new = ", "new = tl.sum(rows, axis=-1) + "))
    assert "tl.sum(rows, axis=-1)" in form


# ------------------------------------------------------------------------------- steps


def space_of(source):
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "SPACE":
            return ast.literal_eval(statement.value)
    return {}


def test_keys_and_queries_get_sizes_of_their_own(is_right):
    form = canonical_form(HEADER + CAUSAL)
    (variant,) = variants(Constants(), form.removeprefix(HEADER))
    assert {"BLOCK", "BLOCK_STEP"} <= space_of(variant).keys()
    other = variant.replace("BLOCK=16", "BLOCK=32").replace("BLOCK_STEP=16", "BLOCK_STEP=64")
    assert is_right(other, CAUSAL, S=40)


def test_a_range_that_rows_and_columns_share_is_written_twice(is_right):
    shared = CAUSAL.replace("    d = tl", "    offs = tl.arange(0, BLOCK)\n    d = tl")
    shared = shared.replace("cols = start + tl.arange(0, BLOCK)", "cols = start + offs")
    shared = shared.replace("pid * BLOCK + tl.arange(0, BLOCK)", "pid * BLOCK + offs")
    shared = shared.replace("    rows =", "    offs = tl.arange(0, BLOCK)\n    rows =", 1)
    shared = shared.replace("    offs = tl.arange(0, BLOCK)\n    d = tl", "    d = tl")
    (variant,) = variants(Retile(), canonical_form(HEADER + shared).removeprefix(HEADER))
    assert "BLOCK_STEP" in space_of(variant)
    assert is_right(variant, shared, S=40)


def stepped(source):
    (variant,) = variants(Constants(), canonical_form(HEADER + source).removeprefix(HEADER))
    return variant if "BLOCK_STEP" in space_of(variant) else ""


def with_bound(bound, before="", source=CAUSAL):
    loop = f"{before}    for start in range(0, {bound}, BLOCK)"
    return source.replace("    for start in range(0, S, BLOCK)", loop)


@pytest.mark.quick("source0")
@pytest.mark.parametrize(
    "source",
    [
        with_bound("(pid + 1) * BLOCK"),
        with_bound("tl.minimum(S, pid * BLOCK + BLOCK)"),
        with_bound("end", "    end = (pid + 1) * BLOCK\n"),
        with_bound("tl.cdiv((pid + 1) * BLOCK, BLOCK)")
        .replace("BLOCK), BLOCK):", "BLOCK)):")
        .replace("cols = start +", "cols = start * BLOCK +"),
    ],
)
@pytest.mark.parametrize(("block", "step"), [(64, 16), (16, 64)])
def test_a_loop_to_a_blocks_end_still_ends_there(is_right, source, block, step):
    variant = stepped(source)
    other = variant.replace("BLOCK=16", f"BLOCK={block}")
    other = other.replace("BLOCK_STEP=16", f"BLOCK_STEP={step}")
    assert variant
    assert is_right(other, source, S=40)


POINTERS = CAUSAL.replace(
    "    for start",
    "    n = tl.arange(0, BLOCK)\n    K += n[:, None] * D + d[None, :]\n    for start",
).replace("tl.load(K + cols[:, None] * D + d[None, :]", "tl.load(at")
POINTERS = POINTERS.replace("    K += n", "    at = K + n")
POINTERS = POINTERS.replace("        top = new\n", "        top = new\n        at += BLOCK * D\n")


def test_pointers_move_with_a_step_of_their_own(is_right):
    other = stepped(POINTERS).replace("BLOCK_STEP=16", "BLOCK_STEP=32")
    assert other
    assert is_right(other, POINTERS, S=40)


@pytest.mark.parametrize(
    "source",
    [
        POINTERS.replace("    for start", "    far = BLOCK * D\n    for start").replace(
            "at += BLOCK * D", "at += far"
        ),
        POINTERS.replace("at = K + n[:, None] * D", "at = K + (n[:, None] + BLOCK - BLOCK) * D"),
        with_bound("whole", "    whole = tl.cdiv(S, BLOCK) * BLOCK\n"),
        with_bound("(pid + 1) * BLOCK").replace(MASK, "scores"),  # rows of a block see all of it
        CAUSAL.replace("    for start", "    seen = 0\n    for start")
        .replace("        top = new\n", "        top = new\n        seen += BLOCK\n")
        .replace("acc / total[:, None]", "acc / total[:, None] * (seen / seen)"),
    ],
)
def test_what_else_follows_from_the_size_keeps_one_size(source):
    assert not stepped(source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        top = new\n", "        top = new + tl.zeros((BLOCK,), tl.float32)\n"),
        ("cols = start + tl", "cols = start + rows * 0 + tl"),
    ],
)
def test_sizes_that_a_loop_mixes_stay_one(old, new):
    form = canonical_form(HEADER + CAUSAL.replace(old, new))
    assert parse_kernel(form) is not None
    (variant,) = variants(Constants(), form.removeprefix(HEADER))
    assert "BLOCK_STEP" not in space_of(variant)


DIVIDED = CAUSAL.replace("tl.trans(k)", "k.trans(1, 0)").replace(
    """        new = tl.maximum(top, tl.max(scores, axis=-1))
""",
    """        own = tl.max(scores, axis=-1)
        new = tl.where(own > top, own, top)
""",
)
DIVIDED = DIVIDED.replace(
    """        total = total * shrink + tl.sum(p, axis=-1)
""",
    """        sums = total * shrink + tl.sum(p, axis=-1)
        kept = total * shrink / sums
        p = p / sums[:, None]
        total = sums
""",
)
DIVIDED = DIVIDED.replace("acc * shrink[:, None]", "acc * kept[:, None]")
DIVIDED = DIVIDED.replace("acc / total[:, None]", "acc")
BRANCHED = DIVIDED.replace("O, S, D:", "O, S, dropped, D:").replace(
    "        total = sums\n",
    """        total = sums
        if dropped > 0.0:
            p = tl.where(tl.rand(7, cols)[None, :] > dropped, p, 0.0)
""",
)
BRANCHED = BRANCHED.replace("q.shape[0], D=16", "q.shape[0], 0.0, D=16")


def canonical(source):
    return canonical_form(HEADER + source).removeprefix(HEADER)


def test_trips_may_divide_choose_the_larger_and_branch(is_right):
    (variant,) = variants(LoopEnds(), canonical(BRANCHED))
    assert "last = tl.minimum(S, " in variant
    assert is_right(variant, BRANCHED, S=40)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.where(own > top, own, top)", "tl.where(own > top, top, own)"),
        ("p = tl.where(tl.rand(7, cols)[None, :] > dropped, p, 0.0)", "acc = acc * 2.0"),
        ("kept = total * shrink / sums", "kept = sums / (total * shrink + 1.0)"),
    ],
)
def test_trips_that_choose_branch_or_divide_otherwise_count(old, new):
    assert old in BRANCHED
    assert not variants(LoopEnds(), canonical(BRANCHED.replace(old, new)))


@pytest.mark.parametrize("fill", ["-1.0e8", "-1000000000"])
def test_a_number_far_below_stands_for_minus_infinity_where_rows_have_a_first_score(is_right, fill):
    far = CAUSAL.replace('scores, float("-inf"))', f"scores, {fill})")
    assert fill in far
    assert ends(far) == [END]
    assert is_right(variants(LoopEnds(), far)[0], far, S=40)


def test_windows_and_lengths_leave_rows_a_score():
    both = "(rows[:, None] >= cols[None, :]) & (rows[:, None] - cols[None, :] < 8) & (cols < S)"
    far = CAUSAL.replace("rows[:, None] >= cols[None, :]", f"{both}[None, :]")
    far = far.replace('scores, float("-inf"))', "scores, -1.0e8)")
    assert ends(far) == [END]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows[:, None] >= cols", "rows[:, None] > cols"),  # the first row has no score
        ("rows[:, None] >= cols", "rows[:, None] - S >= cols"),
        ("range(0, S, BLOCK)", "range(BLOCK, S, BLOCK)"),
        ("-1.0e8", "-100.0"),
        ("-1.0e8)", "-1.0e8) - 1e9 * (cols < 3)[None, :]"),
        ("rows[:, None] >= cols[None, :]", "(rows[:, None] >= cols[None, :]) & (scores > 0)"),
        (
            "rows[:, None] >= cols[None, :]",
            "(rows[:, None] >= cols[None, :]) & (cols > 2)[None, :]",
        ),
        (
            "        new = ",
            "        scores = tl.where(cols[None, :] > 2, scores, -1.0e8)\n        new = ",
        ),
        (
            "        new = ",
            "        scores = tl.where(cols[None, :] > 2, scores, S)\n        new = ",
        ),
        (
            "        new = ",
            "        scores += tl.load(K + cols)[None, :]\n        new = ",
        ),
    ],
)
def test_without_a_first_score_such_a_number_is_one(old, new):
    far = CAUSAL.replace('scores, float("-inf"))', "scores, -1.0e8)")
    assert old in far
    assert not variants(LoopEnds(), far.replace(old, new))


RAGGED = """
def reference(x, ends):
    rows = torch.arange(x.shape[1], device=x.device)
    return (x * (rows < ends[:, None])[..., None]).sum(-1)


def inputs(B=3, S=50, D=40, device="cuda"):
    ends = torch.tensor([S // 4 * (i % 3) + 3 for i in range(B)], dtype=torch.int32)
    return torch.randn(B, S, D, device=device), ends.to(device)


@triton.jit
def total_rows(X, Ends, O, S, D, BLOCK: tl.constexpr):
    own = tl.program_id(1)
    end = tl.load(Ends + own)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, D, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        at = (own * S + rows)[:, None] * D + cols[None, :]
        total += tl.sum(tl.load(X + at, (rows < end)[:, None] & (cols < D)[None, :], 0.0), 1)
    tl.store(O + own * S + rows, total, mask=rows < end)


def kernel(x, ends):
    B, S, D = x.shape
    out = torch.zeros((B, S), device=x.device)
    total_rows[(triton.cdiv(S, 16), B)](x, ends, out, S, D, BLOCK=16)
    return out
"""
IDLE = "tl.where(((tl.program_id(0) * BLOCK) + 0 < end), D, 0)"
STORE = "tl.store(O + own * S + rows, total, mask=rows < end)"


def test_a_loop_ends_at_once_in_programs_without_rows(is_right):
    (variant,) = variants(LoopEnds(), RAGGED)
    assert ends(RAGGED) == [IDLE]
    assert is_right(variant, RAGGED, B=3, S=50, D=40)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STORE, STORE.replace("rows < end", "rows < S")),  # each program has a row
        (STORE, STORE.replace(", mask=rows < end", "")),
        (STORE, f"{STORE}\n    tl.store(O + own * S, 0.0)"),
        (STORE, f"tl.atomic_add(O + own * S + rows, total)\n    {STORE}"),
        ("end = tl.load(Ends + own)", "end = S"),
        ("        cols = ", "        end = end + 0\n        cols = "),
        (STORE, f"total += tl.load(X + total.to(tl.int32))\n    {STORE}"),
    ],
)
def test_a_loop_stays_where_something_may_be_stored(old, new):
    assert old in RAGGED
    assert ends(RAGGED.replace(old, new)) == []


SHARED = """
@triton.jit
def add_up(X, S, N, BLOCK: tl.constexpr):
    begin = tl.program_id(0) * 4 * BLOCK
    end = {}
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(begin, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(X + cols, mask=cols < N, other=0.0)
    tl.store(S + tl.program_id(0), tl.sum(total))


def kernel(x):
    s = torch.empty(4, device=x.device)
    add_up[(4,)](x, s, x.numel(), BLOCK=64)
    return s
"""


@pytest.mark.parametrize(
    ("end", "count"),
    [
        ("begin + 4 * BLOCK", 1),
        ("tl.minimum(begin + 4 * BLOCK, N)", 0),
        ("tl.minimum(tl.minimum(N, 999), begin + 4 * BLOCK)", 0),
    ],
)
def test_a_part_that_ends_with_the_size_needs_no_other_end(end, count):
    assert len(variants(LoopEnds(), SHARED.format(end))) == count
