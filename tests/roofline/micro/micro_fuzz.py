"""Random programs over small tensors, and what is wrong with their bounds.

Each program composes a few of some forty ops. Brute force (`micro_oracle`) tells which input
elements its results depend on: a bound above that is unsound, one below it is loose.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from micro_oracle import Oracle
from micro_trace import Micro, works

Shape = tuple[int, ...]


class _Writer:
    """Writes one program, a line an op, and knows the shape of every name."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shapes: dict[str, Shape] = {}
        self.lines: list[str] = []
        self.inputs: list[str] = []
        rows, columns = self.random.randint(2, 5), self.random.randint(2, 5)
        for shape in self.random.sample(
            [(rows, columns), (columns, rows), (rows, columns), (columns,)], 3
        ):
            self.shapes[f"a{len(self.inputs)}"] = shape
            self.inputs.append(f"R({', '.join(map(str, shape))})")

    def pick(self, fits: Callable[[Shape], bool] = lambda _: True) -> str | None:
        """A name whose shape fits; later ones are likelier."""
        names = [name for name, shape in self.shapes.items() if fits(shape)]
        return self.random.choice(names + names[-2:]) if names else None

    def let(self, expression: str) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.shapes[name] = self._shape(name)

    def do(self, statement: str) -> None:
        self.lines.append(statement)

    def _shape(self, name: str) -> Shape:
        """The shape that the last line makes, by running all so far on meta tensors."""
        return self._run(name)

    def _run(self, name: str) -> Shape:
        body = "\n".join([*self.lines, f"return {name}"])
        scope: dict[str, object] = {}
        source = Micro("; ".join(self.inputs), body).source.replace('DEV = "cuda"', 'DEV = "cpu"')
        exec(compile(source.replace("'cuda'", "'cpu'"), "<fuzz>", "exec"), scope)
        result = scope["reference"](*scope["inputs"]())  # type: ignore[operator]
        return tuple(result.shape)


_Op = Callable[[_Writer], None]
_OPS: list[_Op] = []


def _op(function: _Op) -> _Op:
    _OPS.append(function)
    return function


def _unary(template: str, fits: Callable[[Shape], bool] = lambda s: len(s) > 0) -> None:
    def write(w: _Writer) -> None:
        name = w.pick(fits)
        if name is not None:
            shape = w.shapes[name]
            d = w.random.randrange(len(shape))
            n = shape[d]
            low = w.random.randrange(n)
            values = {
                "x": name,
                "d": d,
                "n": n,
                "low": low,
                "high": w.random.randint(low + 1, n),
                "step": w.random.randint(1, 2),
                "k": w.random.randint(1, 3),
                "diagonal": w.random.randint(-1, 1),
                "some": [w.random.randrange(n) for _ in range(w.random.randint(1, 4))],
                "mask": [bool(w.random.getrandbits(1)) for _ in range(shape[-1])],
                "before": ":, " * d,
                "one": [1] * (len(shape) - 1),
            }
            expression = template.format(**values)
            if expression.startswith("!"):
                w.do(expression[1:])
            else:
                w.let(expression)

    _OPS.append(write)


def _is_matrix(shape: Shape) -> bool:
    return len(shape) == 2


def _is_small(shape: Shape) -> bool:
    return 0 < len(shape) < 3


for _template in (
    "{x}[{before}{low}:{high}:{step}]",
    "{x}.narrow({d}, {low}, {high} - {low})",
    "{x}.select({d}, {low})",
    "{x}.flip({d})",
    "{x}.roll({k}, {d})",
    "{x}.movedim({d}, -1)",
    "{x}.reshape(-1)",
    "{x}.chunk(2, {d})[0]",
    "{x}.contiguous()",
    "{x}.clone()",
    "{x} * 2",
    "{x} + 1",
    "{x}.sin()",
    "{x}.tanh()",
    "{x}.relu()",
    "{x} * 0",
    "{x}.sum({d})",
    "{x}.mean({d}, keepdim=True)",
    "{x}.amax({d})",
    "{x}.cumsum({d})",
    "{x}.softmax({d})",
    "{x}.sort({d})[0]",
    "F.pad({x}, ({k}, 0))",
    "F.pad({x}, (0, -1)) if {x}.shape[-1] > 1 else {x} + 0",
    "{x}.index_select({d}, tensor({some}))",
    "{x}[{before}tensor({some})]",
    "{x}.masked_fill(torch.tensor({mask}, device='cuda'), 0.5)",
    "torch.where(torch.tensor({mask}, device='cuda'), {x}, {x} * 3)",
    "!{x} = {x}.clone(); {x}[{before}{low}:{high}] = 0.5",
    "!{x} = {x}.clone(); {x}[{before}{low}:{high}].mul_(2)",
    "!{x} = {x}.clone(); {x}.index_fill_({d}, tensor({some}), 0.25)",
    "!{x} = {x}.clone(); {x}[{before}0] = {x}[{before}-1]",
):
    _unary(_template)
for _template in (
    "{x}.repeat(2, *{one})",
    "{x}.unsqueeze({d}).expand(*{x}.shape[:{d}], 2, *{x}.shape[{d}:])",
    "{x}.repeat_interleave(2, {d})",
):
    _unary(_template, _is_small)
for _template in (
    "{x}.t()",
    "{x}.tril({diagonal})",
    "{x}.triu({diagonal})",
    "{x}.diagonal()",
    "{x} @ {x}.T * 0.3",
    "{x}.gather(1, tensor([[0]] * {x}.shape[0]))",
):
    _unary(_template, _is_matrix)
# in place on an input itself
_unary("!a0[{low} % a0.shape[0]:].add_(1)")
_unary("!a0[{low} % a0.shape[0]] = 0.5")


@_op
def _same_shape(w: _Writer) -> None:
    left = w.pick()
    assert left is not None
    right = w.pick(lambda s: s == w.shapes[left])
    sign = w.random.choice(
        [
            "{} + {}",
            "{} * {}",
            "torch.maximum({}, {})",
            "torch.cat([{}, {}])",
            "torch.stack([{}, {}])",
        ]
    )
    if len(w.shapes[left]) in (1, 2):
        w.let(sign.format(left, right))


@_op
def _broadcast(w: _Writer) -> None:
    row = w.pick(lambda s: len(s) == 1)
    wide = w.pick(lambda s: len(s) == 2 and row is not None and s[1] == w.shapes[row][0])
    if row is not None and wide is not None:
        w.let(w.random.choice(["{} + {}", "{} * {}"]).format(wide, row))


@_op
def _product(w: _Writer) -> None:
    left = w.pick(_is_matrix)
    right = w.pick(lambda s: left is not None and len(s) == 2 and s[0] == w.shapes[left][1])
    if left is not None and right is not None:
        w.let(f"({left} @ {right}) * 0.3")


@_op
def _product_twice(w: _Writer) -> None:
    _product(w)


@_op
def _assign(w: _Writer) -> None:
    base = w.pick(lambda s: len(s) == 2)
    row = w.pick(lambda s: base is not None and s == (w.shapes[base][1],))
    if base is not None and row is not None:
        at = w.random.randrange(w.shapes[base][0])
        w.do(f"{base} = {base}.clone(); {base}[{at}] = {row}")


def program(seed: int) -> Micro:
    """A random program: three inputs, three to eight ops, one or two results."""
    w = _Writer(seed)
    expected = w.random.randint(3, 8)
    for _ in range(100):
        if len(w.lines) >= expected:
            break
        before = dict(w.shapes), list(w.lines)
        try:
            w.random.choice(_OPS)(w)
            if any(n > 24 for n in (max(s, default=1) for s in w.shapes.values())):
                raise ValueError("too large")
        except (RuntimeError, IndexError, ValueError, TypeError):
            w.shapes, w.lines = before
    selected_shapes = [name for name in w.shapes if name.startswith("v")] or ["a0 * 2"]
    results = {selected_shapes[-1], w.random.choice(selected_shapes)}
    results |= {"a0"} if any(line.startswith("a0[") for line in w.lines) else set()
    return Micro("; ".join(w.inputs), "\n".join([*w.lines, f"return {', '.join(sorted(results))}"]))


@dataclass(frozen=True)
class Finding:
    """A program with its bound and what brute force says, in bytes.

    Attributes:
        problem: the program.
        read, written: of the bound.
        needed, changed: by brute force.
        error: of the trace, where it failed.
    """

    problem: Micro
    read: int = 0
    written: int = 0
    needed: int = 0
    changed: int = 0
    error: str = ""

    @property
    def is_unsound(self) -> bool:
        return self.read > self.needed or self.written > self.changed

    @property
    def is_tight(self) -> bool:
        return (self.read, self.written) == (self.needed, self.changed)


def examine(problems: Sequence[Micro], draws: int = 5) -> Iterator[Finding]:
    """Trace every program and hold its bytes against brute force.

    What depends on the data (a relu's sign) is united over up to `draws` inputs, as many as it
    takes to clear the bound.
    """
    for problem, work in zip(problems, works(problems)):
        if isinstance(work, str):
            yield Finding(problem, error=work)
            continue
        masks: list[torch.Tensor] = []
        needed = changed = 0
        for seed in range(draws):
            oracle = Oracle(problem, seed)
            result = oracle.read()
            masks = [a | b for a, b in zip(masks, result)] if masks else result
            needed = sum(int(m.sum()) * n for m, n in zip(masks, oracle.item_bytes))
            changed = max(changed, oracle.written())
            if work.dram_read_bytes <= needed and work.dram_write_bytes <= changed:
                break
        yield Finding(problem, work.dram_read_bytes, work.dram_write_bytes, needed, changed)


def shrunk(finding: Finding) -> Finding:
    """The same fault in fewer lines and results: what can be left out is."""
    *lines, last = finding.problem.body.split("\n")
    results = last.removeprefix("return ").split(", ")
    for name in results if len(results) > 1 else ():
        alone = _faulty(finding.problem.inputs, lines, name)
        if alone is not None:
            finding, results = alone, [name]
            break
    for at in reversed(range(len(lines))):
        fewer = lines[:at] + lines[at + 1 :]
        still = _faulty(finding.problem.inputs, fewer, ", ".join(results))
        if still is not None:
            finding, lines = still, fewer
    return finding


def _faulty(inputs: str, lines: Sequence[str], results: str) -> Finding | None:
    """The finding of a program, if it is at fault as well."""
    problem = Micro(inputs, "\n".join([*lines, f"return {results}"]))
    try:
        result = next(examine([problem]))
    except (RuntimeError, IndexError, ValueError, TypeError, NameError, AttributeError):
        return None  # it needs what was left out
    return result if result.is_unsound else None
