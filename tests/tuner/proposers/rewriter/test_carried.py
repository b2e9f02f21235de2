"""What loops carry, by the algebra of their updates, and the rewrites that rest on it."""

import pytest
from rewriting import FEW_SMS, rewritten, variants

from solkit.tuner.proposers.rewriter._carried import CarriedKind, carried_by
from solkit.tuner.proposers.rewriter._nodes import parse_statements
from solkit.tuner.proposers.rewriter.lanes import Lanes
from solkit.tuner.proposers.rewriter.split_loops import Split
from solkit.tuner.proposers.rewriter.tile_constants import Retile

SUM, MAXIMUM, MINIMUM = CarriedKind.SUM, CarriedKind.MAXIMUM, CarriedKind.MINIMUM
FOLLOWER, RESCALED, RUNNING = CarriedKind.FOLLOWER, CarriedKind.RESCALED, CarriedKind.RUNNING


def kinds(body):
    updates = carried_by(parse_statements(body), "i")
    return None if updates is None else {name: update.kind for name, update in updates.items()}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = tl.load(p + i)\ns += tl.sum(x, axis=0)", {"s": SUM}),
        ("s = s - tl.load(p + i)", {"s": SUM}),
        ("acc = tl.dot(a, b, acc)", {"acc": SUM}),
        ("acc = tl.dot(a, b, acc)\nacc = tl.load(p + i) + acc\nacc += i", {"acc": SUM}),
        ("m = tl.maximum(tl.load(p + i), m)", {"m": MAXIMUM}),
        ("x = tl.load(p + i)\nm = tl.where(x < m, x, m)", {"m": MINIMUM}),
        ("x = tl.load(p)\ns += x\np += 64", {"s": SUM, "p": RUNNING}),
        (
            "x = tl.load(p + i)\nif x > m:\n    m = x\n    at = i",
            {"m": MAXIMUM, "at": FOLLOWER},
        ),
        (
            "x = tl.load(p + i)\nat = tl.where(x > m, i, at)\nm = tl.maximum(m, x)",
            {"m": MAXIMUM, "at": FOLLOWER},
        ),
        (
            "x = tl.load(p + i)\nn = tl.maximum(m, tl.max(x, 0))\n"
            "s = s * tl.exp(m - n) + tl.sum(tl.exp(x - n), 0)\nm = n",
            {"m": MAXIMUM, "s": RESCALED},
        ),
        (
            "for j in range(0, N, B):\n    s += tl.sum(tl.load(p + i * N + j), axis=0)",
            {"s": SUM},
        ),
        ("if GROUPS:\n    w = tl.load(q + i)\ns += tl.load(p + i) * w", {"s": SUM}),
    ],
)
def test_updates_are_told_by_their_algebra(body, expected):
    assert kinds(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "s = s * 0.5 + tl.load(p + i)",
        "s = tl.load(p + i) - s",
        "s += i\ns = i - s",
        "s += i\nhalf = s\ns += half",
        "m = tl.maximum(m, s)\ns += m",
        "x = tl.load(p + i)\nat = tl.where(x > 0, i, at)",  # the last, of no extremum
        "x = tl.load(p + i)\nm = tl.where(m > x, m, x)",  # it takes what is no number
        "x = tl.load(p + i)\nat = tl.where((x > m) & (i > 2), i, at)\nm = tl.maximum(m, x)",
        "n = tl.maximum(m, x)\ns = s * tl.exp(m - n) + n\nm = n",  # it is not scaled by exp(-n)
        "n = tl.maximum(m, x)\ns = s * tl.exp(m - n) + tl.exp2(x - n)\nm = n",
        "while s < 1:\n    s += x",
        "x = tl.load(p + i)\ntl.store(q + i, x + s)\ns += x",  # a running sum
        "y = s * 2\nfor j in range(4):\n    tl.store(q + i + j, y)\ns += i",
        "x = tl.load(p)\ns += x\np += i * 4",  # each trip moves it by another number
        "a, b = f(a, b)",
        "if i > 4:\n    w = tl.load(q + i)\ns += tl.load(p + i) * w",
        "s += tl.load(p + i) * w\nif GROUPS:\n    w = tl.load(q + i)",
        "for j in range(8):\n    if i > 4:\n        w = tl.load(q + j)\n    s += w",
        "if GROUPS:\n    w = tl.load(q + i)\nif MORE:\n    w = i\ns += tl.load(p + i) * w",
    ],
)
def test_other_updates_are_not_joined(body):
    assert kinds(body) is None


WELFORD = """
x = tl.load(p + i + tl.arange(0, B))
n = tl.minimum(N - i, B).to(tl.float32)
some = tl.sum(x, 0) / n
delta = some - mean
total = count + n
mean = mean + delta * n / total
m2 = m2 + tl.sum((x - some) * (x - some), 0) + delta * delta * count * n / total
count = total
"""


def test_moments_are_a_fold():
    updates = carried_by(parse_statements(WELFORD), "i")
    assert {u.kind for u in updates.values()} == {CarriedKind.FOLD}
    assert "mean_of" in updates["m2"].folded("_of")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("delta * n / total", "delta * n / (total + n)"),  # it depends on the order
        ("delta * delta * count", "delta * count"),
        ("count * n / total", "count * n / total * some"),
        ("count = total", "count = total + 1"),  # what one trip brings is no state
    ],
)
def test_what_is_not_associative_is_no_fold(old, new):
    changed = WELFORD.replace(old, new)
    assert changed != WELFORD
    assert carried_by(parse_statements(changed), "i") is None


def test_a_recurrence_is_no_fold():
    assert carried_by(parse_statements("h = h * tl.load(a + i) + tl.load(b + i)"), "i") is None


def test_ties_are_told_apart():
    first = carried_by(parse_statements("at = tl.where(x > m, i, at)\nm = tl.maximum(m, x)"))
    last = carried_by(parse_statements("at = tl.where(x >= m, i, at)\nm = tl.maximum(m, x)"))
    assert first["at"].is_first
    assert not last["at"].is_first


ARGMAX = """
def reference(x):
    return x.argmax(-1)


def inputs(M=4, N=4096, device="cuda"):
    return (torch.randint(0, 50, (M, N), device=device).float(),)  # with ties


@triton.jit
def top(x, out, N, B: tl.constexpr):
    r = tl.program_id(0)
    best = -float("inf")
    at = 0
    for o in range(0, N, B):
        c = o + tl.arange(0, B)
        v, a = tl.max(tl.load(x + r * N + c, mask=c < N, other=-float("inf")), axis=0,
                      return_indices=True)
        at = tl.where(v > best, o + a, at)
        best = tl.maximum(best, v)
    tl.store(out + r, at.to(tl.int64))


def kernel(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.int64, device=x.device)
    top[(M,)](x, out, N, B=32)
    return out
"""

TWO_ROWS = """
def reference(x, y):
    p, q = torch.log_softmax(x, -1), torch.log_softmax(y, -1)
    return (p.exp() * (p - q)).sum(-1)


def inputs(M=4, N=300, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(M, N, device=device)


@triton.jit
def kl(x, y, out, N, B: tl.constexpr):
    r = tl.program_id(0)
    px = x + r * N
    ma = -float("inf")
    mb = -float("inf")
    sa = 0.0
    sb = 0.0
    for o in range(0, N, B):
        c = o + tl.arange(0, B)
        a = tl.load(px + c, mask=c < N, other=-float("inf"))
        b = tl.load(y + r * N + c, mask=c < N, other=-float("inf"))
        na = tl.maximum(ma, tl.max(a, 0))
        nb = tl.maximum(mb, tl.max(b, 0))
        sa = sa * tl.exp(ma - na) + tl.sum(tl.exp(a - na), 0)
        sb = sb * tl.exp(mb - nb) + tl.sum(tl.exp(b - nb), 0)
        ma = na
        mb = nb
    la = ma + tl.log(sa)
    lb = mb + tl.log(sb)
    t = 0.0
    for o in range(0, N, B):
        c = o + tl.arange(0, B)
        a = tl.load(px + c, mask=c < N, other=0.0) - la
        b = tl.load(y + r * N + c, mask=c < N, other=0.0) - lb
        t += tl.sum(tl.where(c < N, tl.exp(a) * (a - b), 0.0), 0)
    tl.store(out + r, t)


def kernel(x, y):
    M, N = x.shape
    out = torch.empty(M, device=x.device)
    kl[(M,)](x, y, out, N, B=32)
    return out
"""

NORM = """
def reference(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def inputs(M=4, N=300, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def norm(x, y, N, B: tl.constexpr):
    at = x + tl.program_id(0) * N
    s = 0.0
    q = 0.0
    for o in range(0, N, B):
        c = o + tl.arange(0, B)
        v = tl.load(at + c, mask=c < N, other=0.0)
        s += tl.sum(v, axis=0)
        q += tl.sum(v * v, axis=0)
    mean = s / N
    rstd = 1.0 / tl.sqrt(q / N - mean * mean + 1e-5)
    for o in range(0, N, B):
        c = o + tl.arange(0, B)
        v = tl.load(at + c, mask=c < N, other=0.0)
        tl.store(y + tl.program_id(0) * N + c, (v - mean) * rstd, mask=c < N)


def kernel(x):
    y = torch.empty_like(x)
    norm[(x.shape[0],)](x, y, x.shape[1], B=32)
    return y
"""
ROWS = {"M": 2, "N": 70}  # a few trips of each loop
NAMED = {"argvalues": [ARGMAX, TWO_ROWS, NORM], "ids": ["argmax", "two rows", "norm"]}


@pytest.mark.slow
@pytest.mark.parametrize("source", **NAMED)
def test_rows_are_split_whatever_they_carry(source, is_right):
    (variant,) = variants(Split(), source, FEW_SMS, **ROWS)
    loops = source.count("    for o in range(")
    assert variant.count("@triton.jit") == (3 if source is TWO_ROWS else 2)
    assert variant.count("SPLIT)](") + variant.count("SPLIT,)](") >= loops
    assert is_right(variant, source, **ROWS)


@pytest.mark.quick("argmax", "norm")
@pytest.mark.parametrize("source", **NAMED)
def test_lanes_reduce_once_after_the_loop(source, is_right):
    (variant,) = variants(Lanes(), source, **ROWS)
    loop = variant.split("for o in range(")[1].split("    tl.store")[0]
    trip = [line for line in loop.splitlines() if line.startswith(" " * 8)]
    assert not any(word in line for line in trip for word in ("tl.sum(", "tl.max(", "tl.arg"))
    assert is_right(variant, source, **ROWS)


@pytest.mark.slow
def test_lanes_are_split_and_all_launches_have_as_many(is_right):
    split = rewritten(Split(), rewritten(Lanes(), ARGMAX, **ROWS), FEW_SMS, **ROWS)
    (variant,) = variants(Retile(), split, **ROWS)
    assert variant.count("B=B") == 2  # both launches have the parameter
    assert ", B), dtype=torch.float32" in variant
    assert is_right(variant, ARGMAX, **ROWS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at = tl.where(v > best, o + a, at)", "at = tl.where(v > best, o, at)"),  # of the block
        ("best = tl.maximum(best, v)", "best = tl.maximum(best, v)\n        tl.store(out + o, v)"),
    ],
)
def test_what_a_block_has_alone_stays_in_the_loop(old, new):
    assert not variants(Lanes(), ARGMAX.replace(old, new), **ROWS)


def test_sums_that_start_elsewhere_are_not_split():
    assert not variants(Split(), NORM.replace("    s = 0.0\n", "    s = 1.0\n"), **ROWS)


def test_the_number_of_parts_is_no_block_that_grows():
    split = rewritten(Split(), NORM, **ROWS)
    (variant,) = variants(Retile(), split, **ROWS)
    assert "SPLIT=16" in variant.split("def kernel(")[1].partition(":")[0]


@pytest.mark.parametrize(("factor", "is_joined"), [("scale", True), ("i", False), ("c", False)])
def test_a_factor_of_the_exponent_is_the_same_in_all_trips(factor, is_joined):
    body = parse_statements(
        "x = tl.load(p + i)\n"
        "c = tl.load(q + i)\n"
        "n = tl.maximum(m, x)\n"
        f"s = s * tl.exp((m - n) * {factor}) + tl.exp((x - n) * {factor})\n"
        "m = n\n"
    )
    assert (carried_by(body, "i") is not None) == is_joined


def test_a_factor_may_be_of_both_sides_of_a_difference():
    body = parse_statements(
        "f = scale * 1.44\n"
        "n = tl.maximum(m, tl.max(x, 0))\n"
        "s = s * tl.exp2(m * f - n * f) + tl.sum(tl.exp2((x - n) * f), 0)\n"
        "m = n\n"
    )
    assert carried_by(body, "i")["s"].kind is RESCALED
    other = parse_statements(
        "n = tl.maximum(m, tl.max(x, 0))\n"
        "s = s * tl.exp2(m * f - n * g) + tl.sum(tl.exp2((x - n) * f), 0)\n"
        "m = n\n"
    )
    assert carried_by(other, "i") is None


LOW = TWO_ROWS.replace(
    "return torch.randn(M, N, device=device), torch.randn(M, N, device=device)",
    "x, y = torch.randn(M, N, device=device), torch.randn(M, N, device=device)\n"
    "    return x * 2.0**104 - 2.0**112, y * 2.0**104 - 2.0**112",  # about -5e33
)


@pytest.mark.quick("lanes")
@pytest.mark.parametrize("rewrite", [Split(), Lanes()], ids=["split", "lanes"])
def test_a_maximum_may_be_far_below_zero(rewrite, is_right):
    (variant,) = variants(rewrite, LOW, FEW_SMS, **ROWS)
    assert is_right(variant, LOW, **ROWS)


def test_a_part_may_see_nothing(is_right):
    masked = TWO_ROWS.replace("c < N, other=-float", "c < 20, other=-float").replace(
        "c < N, other=0.0", "c < 20, other=0.0"
    )
    masked = masked.replace("tl.where(c < N", "tl.where(c < 20").replace(
        "def reference(x, y):", "def reference(x, y):\n    x, y = x[:, :20], y[:, :20]"
    )
    (variant,) = variants(Split(), masked, FEW_SMS, **ROWS)
    assert is_right(variant, masked, **ROWS)


def test_a_range_that_stands_ahead_of_the_loop_has_lanes_too(is_right):
    ahead = NORM.replace("    s = 0.0\n", "    s = 0.0\n    lanes = tl.arange(0, B)\n").replace(
        "tl.arange(0, B)", "lanes"
    )
    ahead = ahead.replace("    lanes = lanes\n", "    lanes = tl.arange(0, B)\n")
    assert ahead.count("tl.arange") == 1
    (variant,) = variants(Lanes(), ahead, **ROWS)
    assert is_right(variant, ahead, **ROWS)
    tile = ahead.replace("lanes = tl.arange(0, B)", "lanes = tl.arange(0, B)[None, :]")
    assert not variants(Lanes(), tile, **ROWS)


def test_lanes_keep_places_of_64_bits():
    wide = ARGMAX.replace("    at = 0\n", "    at = tl.zeros((), tl.int64)\n").replace(
        "o + a, at)", "(o + a).to(tl.int64), at)"
    )
    result = rewritten(
        Lanes(), ARGMAX.replace("    at = 0\n", "    at = tl.full((), 0, tl.int64)\n")
    )
    assert "at = tl.full((B,), 0, tl.int64)" in result
    assert "2147483647" not in result
    assert not variants(Lanes(), wide)  # another type in each trip


MOMENTS = """
def reference(x):
    return torch.stack([x.mean(-1), x.var(-1, unbiased=False)], -1)


def inputs(M=3, N=200, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def moments(x_ptr, out, N, B: tl.constexpr):
    r = tl.program_id(0)
    p = x_ptr + r * N
    mean = 0.0
    m2 = 0.0
    count = 0.0
    for i in range(0, N, B):
        c = i + tl.arange(0, B)
        n = tl.minimum(N - i, B).to(tl.float32)
        x = tl.load(p + c, mask=c < N, other=0.0)
        some = tl.sum(x, 0) / n
        d = tl.where(c < N, x - some, 0.0)
        delta = some - mean
        total = count + n
        mean = mean + delta * n / total
        m2 = m2 + tl.sum(d * d, 0) + delta * delta * count * n / total
        count = total
    tl.store(out + 2 * r, mean)
    tl.store(out + 2 * r + 1, m2 / count)


def kernel(x):
    M, N = x.shape
    out = torch.empty((M, 2), device=x.device)
    moments[(M,)](x, out, N, B=16)
    return out
"""


def test_moments_are_split_and_joined(is_right):
    (variant,) = variants(Split(), MOMENTS, FEW_SMS, **ROWS)
    assert is_right(variant, MOMENTS, **ROWS)


@pytest.mark.slow
def test_counts_are_split(is_right):
    source = (
        MOMENTS.split("@triton.jit")[0].replace(
            "return torch.stack([x.mean(-1), x.var(-1, unbiased=False)], -1)",
            "return (x > 0).sum(-1).int()",
        )
        + """@triton.jit
def positives(x, out, N, B: tl.constexpr):
    r = tl.program_id(0)
    n = 0
    for i in range(0, N, B):
        c = i + tl.arange(0, B)
        n += tl.sum((tl.load(x + r * N + c, mask=c < N, other=0.0) > 0).to(tl.int32), 0)
    tl.store(out + r, n)


def kernel(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.int32, device=x.device)
    positives[(M,)](x, out, N, B=16)
    return out
"""
    )
    (variant,) = variants(Split(), source, FEW_SMS, **ROWS)
    assert is_right(variant, source, **ROWS)


SHORT_BEHIND_LONG = """
def reference(x, w):
    return x.sum(1) + w.sum(1)


def inputs(M=3, device="cuda"):
    return torch.randn(M, 1024, device=device), torch.randn(M, 16, device=device)


@triton.jit
def sums_kernel(x_ptr, w_ptr, y_ptr):
    row = tl.program_id(0)
    total = 0.0
    more = 0.0
    for i in range(0, 1024, 64):
        total += tl.sum(tl.load(x_ptr + row * 1024 + i + tl.arange(0, 64)))
    for j in range(0, 16):
        more += tl.load(w_ptr + row * 16 + j)
    tl.store(y_ptr + row, total + more)


def kernel(x, w):
    y = torch.empty(x.shape[0], device=x.device)
    sums_kernel[(x.shape[0],)](x, w, y)
    return y
"""


def test_a_short_loop_behind_a_long_one_gets_no_parts(is_right):
    (variant,) = variants(Split(), SHORT_BEHIND_LONG, M=3)
    assert variant.count("@triton.jit") == 2
    assert is_right(variant, SHORT_BEHIND_LONG, M=3)
    alike = SHORT_BEHIND_LONG.replace("1024", "128").replace("64", "8")
    (variant,) = variants(Split(), alike, M=3)
    assert variant.count("@triton.jit") == 3
