"""What the rewriter proposes for kernel files, and the modelled time of each proposal. No GPU.

    python bench/rewrites.py bench/naive/*.py
    python bench/rewrites.py bench/naive/matmul_plain.py --depth 2 --most 30 --unchecked
    python bench/rewrites.py bench/naive/*.py --follow 4      # the best child is the next parent

For each file: the gap before, then a line for each proposal with its kind, whether Triton's
interpreter finds it right, and its modelled time. ``--follow`` repeats that with the best proposal
that is not wrong as the next parent. The last table sums up log(gap after) / log(gap before).
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import solkit
from solkit.core import Brief, Proposal, Result
from solkit.errors import SolkitError
from solkit.roofline import devices
from solkit.tuner.interpreter_check import Checker
from solkit.tuner.proposers.rewriter import Rewriter


@dataclass(frozen=True)
class Step:
    """A source with its modelled gap."""

    source: str
    gap: float
    kinds: tuple[str, ...] = ()


def main() -> None:
    options = _options()
    rows = [(path, *_of_file(path, options)) for path in options.files]
    print(f"\n{'file':44} {'gap':>8} {'after':>8} {'closed':>7}  rewrites")
    for path, before, best in rows:
        closed = 1 - math.log(best.gap) / math.log(before) if before > 1 else 1.0
        kinds = " | ".join(best.kinds)
        print(f"{path:44} {before:8.2f} {best.gap:8.2f} {closed:7.0%}  {kinds}")
    logs = [(math.log(before), math.log(max(best.gap, 1.0))) for _, before, best in rows]
    total = sum(before for before, _ in logs)
    print(f"all: {1 - sum(after for _, after in logs) / total:.0%} of the logarithm of the gaps")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--follow", type=int, default=1)
    parser.add_argument("--most", type=int, default=20, help="proposals for each parent")
    parser.add_argument("--unchecked", action="store_true", help="leave the interpreter out")
    return parser.parse_args()


def _of_file(path: str, options: argparse.Namespace) -> tuple[float, Step]:
    source = Path(path).read_text(encoding="utf-8")
    first = _scored(source, options.device)
    if first is None:
        raise SystemExit(f"{path}: the kernel model tells no time: see solkit score {path}")
    best = Step(source, _gap(first))
    print(f"\n{path}: gap {best.gap:.2f}, {_time(first)}")
    for _ in range(options.follow):
        result = _scored(best.source, options.device)
        assert result is not None
        with Checker() as checker:
            better = _best_child(path, best, result, options, checker)
        if better.gap >= best.gap * 0.99:
            break
        best = better
    return _gap(first), best


def _best_child(
    path: str, parent: Step, result: Result, options: argparse.Namespace, checker: Checker
) -> Step:
    best = parent
    device = devices.find(options.device)
    brief = Brief(
        parent.source, Path(path).name, device, result.shape, params=result.params, result=result
    )
    rewriter = Rewriter(
        depth=options.depth, checker=checker, checks=not options.unchecked, wrong=True
    )
    for proposal in islice(rewriter.propose(brief), options.most):
        scored = _scored(proposal.source, options.device)
        _print(proposal, scored)
        if scored is not None and proposal.checked.value != "wrong" and _gap(scored) < best.gap:
            best = Step(proposal.source, _gap(scored), (*parent.kinds, proposal.kind))
    return best


def _scored(source: str, device: str) -> Result | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(source, encoding="utf-8")
        try:
            results: Sequence[Result] = solkit.score(
                str(path), device=device, measure=False
            ).results
        except SolkitError as error:
            print(f"  {error}")
            return None
    found = results[0] if results else None
    return found if found is not None and found.gap is not None else None


def _gap(result: Result) -> float:
    assert result.gap is not None
    return result.gap.time_ms / result.gap.sol_ms


def _time(result: Result | None) -> str:
    if result is None or result.gap is None:
        return "not modelled"
    factors = [f for f in result.gap.factors if f.factor > 1.1]
    listed = ", ".join(f"{f.name} {f.factor:.2f}" for f in factors)
    return f"{result.gap.time_ms:.4f} ms ({listed})"


def _print(proposal: Proposal, result: Result | None) -> None:
    why = proposal.why if proposal.checked.value != "right" else ""
    print(f"  {proposal.kind:28} {proposal.checked.value:10} {_time(result)} {why}", flush=True)


if __name__ == "__main__":
    main()
