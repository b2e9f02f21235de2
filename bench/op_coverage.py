"""Trace torch's own test inputs; print what is unmodelled or fails.

    python bench/op_coverage.py [--ops PATTERN] [--seconds 120]

torch ships a database of its operators with sample inputs (`op_db`), and one of its modules
(`module_db`), for its own tests. Each sample goes through the trace that a bound is made from,
forwards and, where it is differentiable, backwards. Prints (1) ops that were counted as nothing,
with how often and an example; (2) what raised, by message; (3) the totals. Needs ``expecttest``,
which torch's test utilities import. Exits with 1 where something is unmodelled or raised.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from solkit.adapters import fake_cuda
from solkit.roofline import devices
from solkit.roofline.work import work_of

SAMPLES = 6  # per op: the first ones are the plainest
NOT_TRACED = {
    "jiterator": "compiles CUDA while it runs",
    r"nn\.Lazy": "torch cannot give fake tensors to parameters without a shape",
    "_(flash|efficient)_attention": "called by nobody: scaled_dot_product_attention is one op",
}


@dataclass
class Tally:
    """What the sweep found."""

    traced: int = 0
    unmodelled: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    example: dict[str, str] = field(default_factory=dict)

    def note(self, kind: Counter[str], what: str, name: str) -> None:
        """Count one finding, and remember where it was found first."""
        kind[what] += 1
        self.example.setdefault(what, name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ops", default="", metavar="PATTERN", help="a regular expression")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    options = parser.parse_args()
    every = itertools.chain(modules(), operators())
    skipped = re.compile("|".join(NOT_TRACED))
    cases = [c for c in every if re.search(options.ops, c[0]) and not skipped.search(c[0])]
    with torch.backends.__allow_nonbracketed_mutation():  # which torch's test utilities forbid
        fake_cuda.install(devices.find("h100"))
    tally = Tally()
    end = time.monotonic() + options.seconds
    for name, make in cases:
        if time.monotonic() > end:
            break
        sweep(name, make, tally)
    return report(tally)


Sample = tuple[Callable[[], Any], Any, Any]
Samples = Callable[[], list[Sample]]


def operators() -> Iterator[tuple[str, Samples]]:
    """(name, samples) of each operator; a sample is (maker, args, kwargs) on real tensors."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        known_values = sorted(
            op.supported_dtypes("cpu"), key=lambda d: (d != torch.float32, str(d))
        )
        dtype = known_values[0] if known_values else torch.float32

        def samples(op: Any = op, dtype: torch.dtype = dtype) -> list[Sample]:
            results = op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd)
            few = itertools.islice(results, SAMPLES)
            return [(lambda: op.op, (s.input, *s.args), s.kwargs) for s in few]

        yield op.name, samples


def modules() -> Iterator[tuple[str, Samples]]:
    """The same of each module of torch.nn, in training and in inference."""
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        for training in (True, False):

            def samples(info: Any = info, training: bool = training) -> list[Sample]:
                inputs = info.module_inputs_func(
                    info, "cpu", torch.float32, requires_grad=True, training=training
                )
                return [module_call(info, one, training) for one in inputs[:SAMPLES]]

            yield info.name, samples


def module_call(info: Any, one: Any, training: bool) -> Sample:
    result, inputs = one.constructor_input, one.forward_input

    def make() -> torch.nn.Module:
        return info.module_cls(*result.args, **result.kwargs).train(training)

    return make, inputs.args, inputs.kwargs


def sweep(name: str, make: Samples, tally: Tally) -> None:
    """Trace the samples of one operator."""
    try:
        samples = make()
    except Exception as error:  # the database is torch's own: what it cannot make is no finding
        print(f"no samples of {name}: {type(error).__name__}")
        return
    for function, args, kwargs in samples:
        try:
            result = traced(function, args, kwargs)
        except Exception as error:
            first_line = (str(error).splitlines() or [""])[0]
            tally.note(tally.failed, f"{type(error).__name__}: {first_line}", name)
            continue
        tally.traced += 1
        for op in result.unmodelled:
            tally.note(tally.unmodelled, op, name)


def traced(make: Callable[[], Any], args: Any, kwargs: Any) -> Any:
    """The work of one call and of its gradients."""
    with fake_cuda.fake_tensors() as mode:

        def fake(leaf: Any) -> Any:
            if isinstance(leaf, (str, torch.device)) and str(leaf) == "cpu":
                return "cuda"
            if not isinstance(leaf, torch.Tensor):
                return leaf
            new_cuda = mode.from_tensor(leaf.detach().clone()).cuda()
            return new_cuda.requires_grad_(leaf.requires_grad)

        inputs, named = tree_map(fake, (tuple(args), dict(kwargs)))
        function = make()
        if isinstance(function, torch.nn.Module):
            function.cuda()
        leaves = tensors((inputs, named))
        leaves += function.parameters() if isinstance(function, torch.nn.Module) else []

        def run() -> list[torch.Tensor]:
            outputs = tensors(function(*inputs, **named))
            smooth = [t for t in outputs if t.requires_grad]
            expected = [t for t in leaves if t.requires_grad]
            if smooth and expected:
                seeds = [torch.ones_like(t) for t in smooth]
                grads = torch.autograd.grad(smooth, expected, seeds, allow_unused=True)
                outputs += [g for g in grads if g is not None]
            return outputs

        return work_of(run)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def report(tally: Tally) -> int:
    for title, results in (("unmodelled", tally.unmodelled), ("failed", tally.failed)):
        print(f"\n{title}: {len(results)}")
        for what, times in results.most_common():
            print(f"  {times:4d}  {what}  ({tally.example[what]})")
    print(f"\n{tally.traced} samples traced")
    return 1 if tally.unmodelled or tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
