"""Random problems, each with a kernel that skips all it may and marks what it touches.

The skippers are written by hand for each kind of problem and share no code with SolKit: they read
elements one index at a time, stop where the result is known, and use what holds of the inputs in
every draw. Where a skipper's result is right, no hard bound may be above what it touches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

PRELUDE = """
import torch
import torch.nn.functional as F
DEV = "cuda"
def R(*shape): return torch.randn(*shape, device=DEV)
def H(*shape): return torch.randn(*shape, device=DEV, dtype=torch.bfloat16)
def U(*shape): return torch.rand(*shape, device=DEV)
def I(high, *shape): return torch.randint(0, high, shape, device=DEV)
def sparse(p, *shape): return R(*shape) * (U(*shape) < p)
def symmetric(x): return x + x.T
def below(x): return x, x + torch.rand_like(x)
def pair(x): return x, x.clone()
def padded(x, n): return torch.cat((x, x.new_zeros(n, x.shape[1])))
"""

Tensor = torch.Tensor


class Touch:
    """A tensor that marks the elements that are read."""

    def __init__(self, values: Tensor) -> None:
        self.values = values.clone()
        self.marks = torch.zeros(values.shape, dtype=torch.bool)

    def __getitem__(self, index: Any) -> Tensor:
        self.marks[index] = True
        return self.values[index]

    @property
    def sectors(self) -> Tensor:
        """Which 32-byte sectors were read."""
        per = 32 // self.values.element_size()
        flat = self.marks.reshape(-1)
        return torch.cat((flat, flat.new_zeros(-flat.numel() % per))).view(-1, per).any(1)

    @property
    def bytes(self) -> int:
        size = self.values.numel() * self.values.element_size()
        return min(size, 32 * int(self.sectors.sum()))


@dataclass
class Kind:
    """One kind of problem at random sizes.

    Attributes:
        inputs: expressions; one that makes a tuple gives several inputs.
        body: statements over ``{0}``, ``{1}``, ... that set ``out``.
        skip: the result, from inputs that mark what is read.
        products: how many products of a contraction the skipper makes, at the most.
    """

    inputs: list[str]
    body: str
    skip: Callable[..., Tensor]
    products: Callable[..., int] = field(default=lambda *_: 0)


def _rows(mask: Tensor) -> list[int]:
    return [int(i) for i in mask.nonzero().reshape(-1)]


def masked_mean(r: random.Random) -> Kind:
    b, n, d = r.randint(1, 4), r.randint(8, 40), r.choice([8, 16, 20])
    keep = r.choice([0.05, 0.3, 0.9])

    def skip(x: Touch, m: Touch) -> Tensor:
        mask = m[:]
        out = torch.zeros(b, d)
        for i in range(b):
            for row in _rows(mask[i]):
                out[i] += x[i, row]
            out[i] /= max(1, int(mask[i].sum()))
        return out

    body = "out = ({0} * {1}[..., None]).sum(1) / {1}.sum(1, keepdim=True).clamp(min=1)"
    return Kind([f"R({b}, {n}, {d})", f"U({b}, {n}) < {keep}"], body, skip)


def masked_values(r: random.Random) -> Kind:
    kind = r.choice(["R", "H"])
    n, d, keep = r.randint(8, 40), r.choice([8, 16, 24]), r.choice([0.02, 0.2])
    how = r.choice(["{0} * {1}", "torch.where({1}, {0}, 0.)", "{0}.masked_fill(~{1}, 0.)"])

    def skip(x: Touch, m: Touch) -> Tensor:
        mask = m[:]
        out = torch.zeros(n, d)
        for i, j in mask.nonzero().tolist():
            out[i, j] = x[i, j]
        return out

    return Kind([f"{kind}({n}, {d})", f"U({n}, {d}) < {keep}"], f"out = {how}", skip)


def either(r: random.Random) -> Kind:
    kind = r.choice(["R", "H"])
    n, d = r.randint(8, 40), r.choice([8, 16])
    size, share = r.choice([(f"{n}, {d}", 0.5), (f"{n}, 1", 0.5)]), r.choice([0.1, 0.5])

    def skip(a: Touch, b: Touch, c: Touch) -> Tensor:
        choice = c[:].expand(n, d)
        out = torch.zeros(n, d)
        for i in range(n):
            for j in range(d):
                out[i, j] = a[i, j] if choice[i, j] else b[i, j]
        return out

    inputs = [f"{kind}({n}, {d})", f"{kind}({n}, {d})", f"U({size[0]}) < {share}"]
    return Kind(inputs, "out = torch.where({2}, {0}, {1})", skip)


def lookup(r: random.Random) -> Kind:
    kind = r.choice(["R", "H"])
    n, d, m = r.randint(20, 90), r.choice([8, 16, 10]), r.randint(4, 40)
    how = r.choice(
        ["{0}[{1}]", "F.embedding({1}, {0})", f"F.one_hot({{1}}, {n}).to({{0}}.dtype) @ {{0}}"]
    )

    def skip(table: Touch, index: Touch) -> Tensor:
        return torch.stack([table[int(i)] for i in index[:]])

    return Kind([f"{kind}({n}, {d})", f"I({n}, {m})"], f"out = {how}", skip, lambda *_: m * d)


def gathered(r: random.Random) -> Kind:
    kind = r.choice(["R", "H"])
    n, d = r.randint(8, 40), r.choice([16, 40])

    def skip(x: Touch, index: Touch) -> Tensor:
        places = index[:]
        return torch.stack([x[i, int(places[i, 0])] for i in range(n)])[:, None]

    return Kind([f"{kind}({n}, {d})", f"I({d}, {n}, 1)"], "out = {0}.gather(1, {1})", skip)


def structured_product(r: random.Random) -> Kind:
    n, d = r.choice([16, 24, 32]), r.choice([8, 16])
    form = r.choice(["tril", "blocks", "padded", "diagonal"])
    first = {
        "tril": f"R({n}, {n}).tril()",
        "blocks": f"torch.block_diag(*R({n // 8}, 8, 8))",
        "padded": f"padded(R({n - 4}, {n}), 4)",
        "diagonal": f"R({n}).diag()",
    }[form]

    def keeps(i: int, k: int) -> bool:
        return {
            "tril": k <= i,
            "blocks": i // 8 == k // 8,
            "padded": i < n - 4,
            "diagonal": i == k,
        }[form]

    def skip(a: Touch, b: Touch) -> Tensor:
        out = torch.zeros(n, d)
        for i in range(n):
            for k in range(n):
                if keeps(i, k):
                    out[i] += a[i, k] * b[k]
        return out

    pairs = sum(keeps(i, k) for i in range(n) for k in range(n))
    return Kind([first, f"R({n}, {d})"], "out = {0} @ {1}", skip, lambda *_: pairs * d)


def sparse_product(r: random.Random) -> Kind:
    m, k, n = r.choice([1, 2, 24]), r.randint(16, 48), r.choice([8, 16])
    first, body = r.choice(
        [
            (f"sparse({r.choice([0.1, 0.5])}, {m}, {k})", "out = {0} @ {1}"),
            (f"R({m}, {k})", "out = {0}.relu() @ {1}"),
            (f"R({m}, {k})", "out = ({0} * ({0} > 1)) @ {1}"),
        ]
    )

    def factor(values: Tensor) -> Tensor:
        if "> 1" in body:
            return values * (values > 1)
        return values.relu() if "relu" in body else values

    def skip(a: Touch, b: Touch) -> Tensor:
        rows = factor(a[:])
        out = torch.zeros(m, n)
        for i, j in rows.nonzero().tolist():
            out[i] += rows[i, j] * b[j]
        return out

    def products(a: Tensor, _: Tensor) -> int:
        return int((factor(a) != 0).sum()) * n

    return Kind([first, f"R({k}, {n})"], body, skip, products)


def experts(r: random.Random) -> Kind:
    e, d, top = r.choice([4, 8]), r.choice([8, 16]), r.choice([1, 2])

    def skip(x: Touch, logits: Touch, weights: Touch) -> Tensor:
        scores = logits[:]
        best = scores.topk(top)
        shares = best.values.softmax(0)
        inputs = x[:]
        return sum(s * (inputs @ weights[int(i)]) for s, i in zip(shares, best.indices))

    body = (
        f"best = {{1}}.topk({top})\n"
        "gates = torch.zeros_like({1}).scatter(0, best.indices, best.values.softmax(0))\n"
        "out = (gates[:, None] * torch.einsum('d,edf->ef', {0}, {2})).sum(0)"
    )
    inputs = [f"R({d})", f"R({e})", f"R({e}, {d}, {d})"]
    return Kind(inputs, body, skip, lambda *_: top * d * d)


def early_exit(r: random.Random) -> Kind:
    n, d = r.randint(4, 20), r.choice([32, 64])
    what = r.choice(["any", "all", "clamp", "hardtanh", "relu", "prod"])
    body = {
        "any": "out = ({0} > 1).any(1)",
        "all": "out = ({0} > -1).all(1)",
        "clamp": "out = {0}.clamp(0, 1).amax(1)",
        "hardtanh": "out = F.hardtanh({0}).amin(1)",
        "relu": "out = {0}.relu().amin(1)",
        "prod": "out = {0}.prod(1)",
    }[what]

    def ends(value: float) -> bool:
        return {
            "any": value > 1,
            "all": not value > -1,
            "clamp": value >= 1,
            "hardtanh": value <= -1,
            "relu": value <= 0,
            "prod": value == 0,
        }[what]

    def skip(x: Touch) -> Tensor:
        out = []
        for i in range(n):
            seen: list[float] = []
            for j in range(d):
                seen.append(float(x[i, j]))
                if ends(seen[-1]):
                    break
            row = torch.tensor(seen)
            result = {
                "any": lambda row: (row > 1).any(),
                "all": lambda row: (row > -1).all(),
                "clamp": lambda row: row.clamp(0, 1).amax(),
                "hardtanh": lambda row: row.clamp(-1, 1).amin(),
                "relu": lambda row: row.relu().amin(),
                "prod": lambda row: row.prod(),
            }[what]
            out.append(result(row))
        return torch.stack(out)

    return Kind([f"sparse(0.9, {n}, {d})" if what == "prod" else f"R({n}, {d})"], body, skip)


def fixed(r: random.Random) -> Kind:
    n, d = r.randint(4, 30), r.choice([8, 24])
    inputs, body, value = r.choice(
        [
            ("R", "(-{0}.relu()).relu()", lambda: torch.zeros(n, d)),
            ("R", "{0}.softmax(-1).mean(-1)", lambda: torch.full((n,), 1 / d)),
            ("R", "{0}.sigmoid() > 2", lambda: torch.zeros(n, d, dtype=torch.bool)),
            ("R", "{0} ** 0", lambda: torch.ones(n, d)),
            ("U", "{0}.clamp(2, 3)", lambda: torch.full((n, d), 2.0)),
            ("U", "({0} - 2).relu()", lambda: torch.zeros(n, d)),
            ("R", "{0}.tanh().clamp(-3, -2)", lambda: torch.full((n, d), -2.0)),
            ("R", "({0} * {0} < 0).float()", lambda: torch.zeros(n, d)),
            ("R", "{0}.abs().sign().abs()", lambda: torch.ones(n, d)),
            ("R", "{0} * 0", lambda: torch.zeros(n, d)),
        ]
    )
    return Kind([f"{inputs}({n}, {d})"], f"out = {body}", lambda _: value())


def ragged(r: random.Random) -> Kind:
    b, n, d = r.randint(2, 6), r.choice([16, 32]), r.choice([8, 16])

    def skip(x: Touch, lengths: Touch) -> Tensor:
        out = torch.zeros(b, d)
        for i, length in enumerate(lengths[:].tolist()):
            for row in range(length):
                out[i] += x[i, row]
        return out

    body = f"m = torch.arange({n}, device={{0}}.device) < {{1}}[:, None]\n"
    return Kind(
        [f"R({b}, {n}, {d})", f"I({n}, {b})"], body + "out = ({0} * m[..., None]).sum(1)", skip
    )


def masked_attention(r: random.Random) -> Kind:
    n, d = r.choice([8, 16]), 8

    def skip(q: Touch, k: Touch, v: Touch, m: Touch) -> Tensor:
        mask = m[:].clone()
        mask[0] = True
        rows = _rows(mask)
        keys, values = torch.stack([k[i] for i in rows]), torch.stack([v[i] for i in rows])
        return (q[:] @ keys.T / d**0.5).softmax(-1) @ values

    body = (
        "m = {3}.clone()\nm[0] = True\n"
        f"s = ({{0}} @ {{1}}.T / {d} ** 0.5).masked_fill(~m, -torch.inf)\n"
        "out = s.softmax(-1) @ {2}"
    )
    inputs = [f"R({n}, {d})"] * 3 + [f"U({n}) < {r.choice([0.2, 0.6])}"]
    return Kind(inputs, body, skip, lambda *inputs: 2 * n * d * int(inputs[3].sum() + 1))


def mirrored(r: random.Random) -> Kind:
    n, d = r.choice([16, 24]), 8

    def skip(a: Touch, b: Touch) -> Tensor:
        half = torch.stack(
            [torch.stack([a[min(i, j), max(i, j)] for j in range(n)]) for i in range(n)]
        )
        return half @ b[:]

    inputs = [f"symmetric(R({n}, {n}))", f"R({n}, {d})"]
    return Kind(inputs, "out = {0} @ {1}", skip, lambda *_: n * n * d)


def doubled(r: random.Random) -> Kind:
    n, d = r.choice([8, 24]), 16
    inputs, body, result = r.choice(
        [
            (f"pair(R({n}, {d}))", "out = {0} + {1}", lambda x: 2 * x),
            (f"pair(R({n}, {d}))", "out = {0} * {1}", lambda x: x * x),
        ]
    )
    return Kind([inputs], body, lambda a, _: result(a[:]))


def repeated(r: random.Random) -> Kind:
    n, k = r.choice([8, 16]), r.choice([2, 3])

    def skip(x: Touch) -> Tensor:
        return torch.cat([x[:n]] * k) * 3

    return Kind([f"R({n}, 16).repeat({k}, 1)"], "out = {0} * 3", skip)


def ordered(r: random.Random) -> Kind:
    kind = r.choice(["R", "H"])
    n, d = r.choice([8, 24]), 16
    return Kind([f"below({kind}({n}, {d}))"], "out = torch.maximum({0}, {1})", lambda _, b: b[:])


def searched(r: random.Random) -> Kind:
    n, m = r.choice([64, 200]), r.randint(1, 4)

    def skip(edges: Touch, x: Touch) -> Tensor:
        results = []
        for value in x[:].tolist():
            low, high = 0, n
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if float(edges[middle]) < value else (low, middle)
            results.append(low)
        return torch.tensor(results)

    return Kind([f"R({n}).sort().values", f"R({m})"], "out = torch.searchsorted({0}, {1})", skip)


def both_true(r: random.Random) -> Kind:
    n, d = r.choice([8, 16]), 64

    def skip(a: Touch, b: Touch) -> Tensor:
        first = a[:]
        out = torch.zeros(n, d, dtype=torch.bool)
        for i, j in first.nonzero().tolist():
            out[i, j] = b[i, j]
        return out

    return Kind([f"U({n}, {d}) < 0.05", f"U({n}, {d}) < 0.5"], "out = {0} & {1}", skip)


def dense(r: random.Random) -> Kind:
    n, d = r.choice([8, 24]), r.choice([16, 32])
    inputs, body, result, products = r.choice(
        [
            ([f"R({n}, {d})", f"R({d}, 8)"], "{0} @ {1}", lambda a, b: a @ b, n * d * 8),
            ([f"U({n}, {d})", f"U({d}, 8)"], "{0} @ {1}", lambda a, b: a @ b, n * d * 8),
            ([f"R({n}, {d})"], "{0}.softmax(-1)", lambda a: a.softmax(-1), 0),
            ([f"R({n}, {d})"], "{0}.sum()", lambda a: a.sum(), 0),
            ([f"U({n}, {d})"], "{0}.mean(0)", lambda a: a.mean(0), 0),
            ([f"R({n}, {d})"] * 2, "{0} * {1}", lambda a, b: a * b, 0),
        ]
    )
    return Kind(inputs, f"out = {body}", lambda *a: result(*(x[:] for x in a)), lambda *_: products)


def in_place(r: random.Random) -> Kind:
    """Alone in its problem: what it returns is its first argument."""
    n, d = r.choice([8, 24]), 16
    x, mask = f"R({n}, {d})", f"U({n}, {d}) < 0.2"
    inputs, body, result = r.choice(
        [
            ([x, mask], "{0}.masked_fill_({1}, 0)", lambda a, m: a[:].masked_fill(m[:], 0)),
            ([x], "{0}[{0} > 1] = 0", lambda a: a[:] * (a[:] <= 1)),
            ([x], "{0}.relu_()", lambda a: a[:].relu()),
            ([x], "{0}.clamp_(-1, 1)", lambda a: a[:].clamp(-1, 1)),
            ([x, mask], "{0}.mul_({1})", lambda a, m: a[:] * m[:]),
            ([x], "{0}.add_({0}.relu())", lambda a: a[:] + a[:].relu()),
            ([x, f"I({n}, 3)"], "{0}.index_fill_(0, {1}, 0.)", None),
            ([x, mask], "{0}.copy_(torch.where({1}, {0} + 1, {0}))", None),
            ([x, x], "{0}.add_({1})", lambda a, b: a[:] + b[:]),
            ([x, f"R(1, {d})"], "{0}[2:3] = {1}", None),
            ([f"sparse(0.2, {n}, {d})"], "{0}.clamp_(min=0)", lambda a: a[:].relu()),
        ]
    )

    def skip(a: Touch, *rest: Touch) -> Tensor:
        if result is not None:
            return result(a, *rest)
        out = a.values.clone()
        if "index_fill" in body:
            out[rest[0][:]] = 0
        elif "where" in body:
            for i, j in rest[0][:].nonzero().tolist():
                out[i, j] = a[i, j] + 1
        else:
            out[2:3] = rest[0][:]
        return out

    return Kind(inputs, body + "\nout = {0}", skip)


KINDS = [
    *(masked_mean, masked_values, either, lookup, gathered, structured_product, sparse_product),
    *(experts, early_exit, fixed, ragged, masked_attention, mirrored, doubled, repeated, ordered),
    *(searched, both_true, dense),
]


@dataclass
class Problem:
    """One or more kinds over inputs of their own.

    Attributes:
        source: a kernel file.
        kinds: with the numbers of their inputs.
        writes: whether the reference changes its first argument.
    """

    source: str
    kinds: list[tuple[Kind, list[int]]]
    writes: bool

    def load(self) -> dict[str, Any]:
        """Its functions, on the CPU."""
        scope: dict[str, Any] = {}
        exec(compile(self.source.replace('"cuda"', '"cpu"'), "<problem>", "exec"), scope)
        return scope

    def touched(self, inputs: Sequence[Tensor]) -> tuple[list[Touch], list[Tensor], int]:
        """What the skippers read of the inputs, their results, and the products they make."""
        touches = [Touch(item) for item in inputs]
        results, products = [], 0
        for kind, numbers in self.kinds:
            results.append(kind.skip(*(touches[n] for n in numbers)))
            products += kind.products(*(inputs[n] for n in numbers))
        return touches, results, products


def problem(seed: int) -> Problem:
    """A random problem."""
    r = random.Random(seed)
    writes = r.random() < 0.2
    makers = [in_place] if writes else r.choices(KINDS, k=r.choice([1, 1, 2, 3]))
    outcome, lines, kinds, outs, count = [], [], [], [], 0
    for number, make in enumerate(makers):
        kind = make(r)
        sizes = [2 if item.startswith(("pair", "below")) else 1 for item in kind.inputs]
        numbers = list(range(count, count + sum(sizes)))
        outcome += [f"*{e}" if size == 2 else e for e, size in zip(kind.inputs, sizes)]
        names = [f"a{n}" for n in numbers]
        lines += [*kind.body.format(*names).split("\n"), f"out{number} = out"]
        kinds.append((kind, numbers))
        outs.append(f"out{number}")
        count += sum(sizes)
    arguments = ", ".join(f"a{n}" for n in range(count))
    body = "\n    ".join([*lines, f"return {', '.join(outs)}"])
    source = (
        f"{PRELUDE}\ndef inputs(device=DEV):\n    return [{', '.join(outcome)}]\n\n"
        f"def reference({arguments}):\n    {body}\n"
    )
    return Problem(source, kinds, writes)


WHOLE = {
    "a product": ("R(64, 48); R(48, 32)", "out = {0} @ {1}"),
    "a product of positive numbers": ("U(64, 48); U(48, 32)", "out = {0} @ {1}"),
    "a product in bf16": ("R(64, 64).bfloat16(); R(64, 64).bfloat16()", "out = {0} @ {1}"),
    "two products": ("R(64, 32); R(32, 64); R(64, 16)", "out = F.gelu({0} @ {1}) @ {2}"),
    "a gated product": ("R(64, 32); R(32, 64); R(32, 64)", "out = F.silu({0} @ {1}) * ({0} @ {2})"),
    "attention": ("*[R(1, 2, 64, 16) for _ in range(3)]", None),
    "a softmax": ("R(64, 128)", "out = {0}.softmax(-1)"),
    "a norm": ("R(64, 128); R(128)", "out = F.rms_norm({0}, (128,), {1})"),
    "sums": ("R(64, 128); U(64, 128)", "out = ({0} + {1}).sum(1)"),
    "a mean of all": ("U(64, 256)", "out = {0}.mean()"),
    "the largest": ("R(64, 128)", "out = {0}.amax(1)"),
    "an activation in place": ("R(64, 128); R(64, 128)", "{0}.add_({1})\nout = {0}"),
    "rotated halves": (
        "R(64, 32); R(64, 16); R(64, 16)",
        "a, b = {0}.chunk(2, -1)\nout = torch.cat((a * {1} - b * {2}, a * {2} + b * {1}), -1)",
    ),
    "a convolution": ("R(2, 4, 12, 12); R(8, 4, 3, 3)", "out = F.conv2d({0}, {1})"),
    "rows of a table": ("R(64, 16); torch.randperm(64, device=DEV)", "out = {0}[{1}]"),
}
"""Dense problems, all of whose tensors are arguments."""


def whole(inputs: str, body: str | None) -> Problem:
    """A dense problem; its kernel reads all, and its result is the reference's."""
    body = body or "out = F.scaled_dot_product_attention({0}, {1}, {2}, is_causal=False)"
    outcome = [part.strip() for part in inputs.split(";")]
    count = 3 if outcome[0].startswith("*") else len(outcome)
    names = [f"a{n}" for n in range(count)]
    lines = "\n    ".join([*body.format(*names).split("\n"), "return out"])
    source = (
        f"{PRELUDE}\ndef inputs(device=DEV):\n    return [{', '.join(outcome)}]\n\n"
        f"def reference({', '.join(names)}):\n    {lines}\n"
    )
    problem = Problem(source, [], "_(" in body)

    def skip(*touches: Touch) -> Tensor:
        return problem.load()["reference"](*(touch[:].clone() for touch in touches))

    kind = Kind(outcome, body, skip, lambda *_: 1 << 60)
    problem.kinds.append((kind, list(range(count))))
    return problem
