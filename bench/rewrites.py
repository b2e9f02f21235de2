"""What the rewriter proposes for kernel files, and the modelled time of each proposal. No GPU.

    python bench/rewrites.py bench/naive/*.py
    python bench/rewrites.py bench/naive/matmul_plain.py --depth 2 --most 30 --unchecked
    python bench/rewrites.py bench/naive/*.py --follow 4      # the best child is the next parent
    python bench/rewrites.py bench/naive/*.py --points 64     # the best of each variant's space
    python bench/rewrites.py bench/naive/*.py --compiled      # or the reference's program is first
    python bench/rewrites.py bench/naive/*.py --sweep log.jsonl --seconds 60 --jobs 8

For each file: the gap before, then a line for each proposal with its kind, whether Triton's
interpreter finds it right, and its modelled time. ``--follow`` repeats that with the best proposal
that is not wrong as the next parent. The last table sums up log(gap after) / log(gap before).
``--points`` ranks a sample of each variant's space by the kernel model, as a search does, and takes
the best of it for the variant's defaults; without, a variant counts as its own defaults do.
``--compiled`` also begins with what `torch.compile` makes of the reference, with products of
PyTorch's or of its own, unchecked; of all ways the best one counts.

``--sweep`` models no variant: it checks those of all files in the interpreter, at configurations of
their spaces as well, and adds a line for each to its log. Run again with the same log, it goes on:
what the log has is not checked again. ``--seconds`` bounds the time of a file. ``--mutants`` sweeps
as many kernels that are made from each file by small changes, each its own reference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from mutations import mutants

import solkit
from solkit.core import Brief, Configuration, Proposal, Result, Value
from solkit.errors import SolkitError
from solkit.kernelfiles import load
from solkit.pipeline.compiled_parents import entry_of, with_compiled_reference
from solkit.roofline import devices
from solkit.surrogate.ranking import RankSettings
from solkit.tuner.interpreter_check import NO_PARENT, Checker
from solkit.tuner.proposers.inductor_settings import CHOICES
from solkit.tuner.proposers.rewriter import Rewriter
from solkit.tuner.proposers.rewriter._edit import with_defaults
from solkit.tuner.proposers.rewriter._parse import parse_kernel


@dataclass(frozen=True)
class Step:
    """A source with its modelled gap."""

    source: str
    gap: float
    kinds: tuple[str, ...] = ()


def main() -> None:
    options = _options()
    if options.sweep:
        return _sweep(options)
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
    parser.add_argument("--points", type=int, default=0, help="of each variant's space")
    parser.add_argument("--compiled", action="store_true", help="begin with the reference, too")
    parser.add_argument("--unchecked", action="store_true", help="leave the interpreter out")
    parser.add_argument("--sweep", type=Path, help="log of the variants that were checked")
    parser.add_argument("--seconds", type=float, default=60, help="of the sweep, for each file")
    parser.add_argument("--jobs", type=int, default=1, help="files that are swept at a time")
    parser.add_argument("--mutants", type=int, default=0, help="that are swept for each file")
    return parser.parse_args()


def _of_file(path: str, options: argparse.Namespace) -> tuple[float, Step]:
    source = Path(path).read_text(encoding="utf-8")
    first = _scored(source, options.device)
    if first is None:
        raise SystemExit(f"{path}: the kernel model tells no time: see solkit score {path}")
    best = Step(source, _gap(first))
    print(f"\n{path}: gap {best.gap:.2f}, {_time(first)}")
    ends = [_followed(path, best, options)]
    if options.compiled and (compiled := _compiled(path, source, first, options)) is not None:
        unchecked = argparse.Namespace(**{**vars(options), "unchecked": True})
        ends.append(_followed(path, compiled, unchecked))
    return _gap(first), min(ends, key=lambda step: step.gap)


def _followed(path: str, best: Step, options: argparse.Namespace) -> Step:
    """Return the best of the rewrites that follow each other from a step on."""
    for _ in range(options.follow):
        result = _scored(best.source, options.device)
        assert result is not None
        with Checker() as checker:
            better = _best_child(path, best, result, options, checker)
        if better.gap >= best.gap * 0.99:
            break
        best = better
    return best


def _compiled(path: str, source: str, first: Result, options: argparse.Namespace) -> Step | None:
    """Return a kernel file that begins with its reference as `torch.compile` would run it."""
    file, device = load(path).description, devices.find(options.device)
    entry = entry_of(source, file)
    if entry is None:
        return None
    steps = []
    own = (c for c in CHOICES if any(name.startswith("solkit.") for name in c.settings))
    choices = [choice.in_precision(first.bound) for choice in own]
    for kind, settings in [("compiled reference", {}), *((c.kind, c.settings) for c in choices)]:
        try:
            called = file.problem.path, entry, first.shape
            parts = source, first.params, called, device, settings
            joined, libraries = with_compiled_reference(*parts)
        except SolkitError as error:
            print(f"  {kind}: not compiled: {error}")
            continue
        text, scored = _best_sizes(joined, first.shape, options)
        kind = f"{kind} ({', '.join(libraries)})" if libraries else kind
        _print(Proposal(text, kind, ""), scored)
        if scored is not None:
            steps.append(Step(text, _gap(scored), (kind,)))
    return min(steps, key=lambda step: step.gap, default=None)


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
        source, scored = _best_sizes(proposal.source, result.shape, options)
        _print(proposal, scored)
        if scored is not None and proposal.checked.value != "wrong" and _gap(scored) < best.gap:
            best = Step(source, _gap(scored), (*parent.kinds, proposal.kind))
    return best


def _best_sizes(
    source: str, shape: Mapping[str, Value], options: argparse.Namespace
) -> tuple[str, Result | None]:
    """Return a variant with the best sizes of a sample of its space as defaults, and its result."""
    text, scored = parse_kernel(source), [(source, _scored(source, options.device))]
    if options.points and text is not None:
        for params in _ranked_params(source, shape, options):
            other = with_defaults(text, params)
            scored.append((other, _scored(other, options.device)))
    return min(scored, key=lambda pair: math.inf if pair[1] is None else _gap(pair[1]))


def _ranked_params(
    source: str, shape: Mapping[str, Value], options: argparse.Namespace
) -> list[Mapping[str, Value]]:
    """Return the parameters in a sample of a variant's space that the kernel model likes best."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(source, encoding="utf-8")
        settings = RankSettings("lowered", explained=0, patience_s=_RANK_S)
        try:
            drawn = list(islice(load(str(path)).space(shape).shuffled("0"), options.points))
            points = [Configuration(str(path), "kernel", shape, params) for params in drawn]
            (plan,) = solkit.rank(points, device=options.device, shapes=[shape], settings=settings)
        except (SolkitError, ValueError):
            return []
    return [row.configuration.params for row in plan.ranked[:_COMPILED] if row.forecast.p_fail < 1]


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
    result = results[0] if results else None
    return result if result is not None and result.gap is not None else None


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


_COMPILED = 3
"""Configurations of a sample that are compiled: the ranking before knows of no spills."""
_RANK_S = 20.0
_CONFIGS = 2
"""Configurations of each variant's space that are swept besides its defaults."""
_DEEP_SHARE = 3
"""One of so many proposals of several rewrites is swept: the first alone would be much alike."""
_LIMIT_S = 60.0
_IRRELEVANT = ("num_warps", "num_stages")  # the interpreter knows neither


def _sweep(options: argparse.Namespace) -> None:
    """Check the variants of all files, and print how many are right."""
    lines = options.sweep.read_text().splitlines() if options.sweep.exists() else ()
    rows = [json.loads(line) for line in lines]
    seen = frozenset(row["variant"] for row in rows)
    sweep_file = partial(_swept_rows, options=options, seen=seen)
    with (
        ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool,
        options.sweep.open("a") as log,
    ):
        for done in as_completed([pool.submit(sweep_file, path) for path in options.files]):
            rows += done.result()
            log.writelines(json.dumps(row) + "\n" for row in done.result())
            log.flush()
    _print_swept([row for row in rows if row["file"] in options.files])


def _print_swept(rows: Sequence[Mapping[str, str]]) -> None:
    for path in dict.fromkeys(row["file"] for row in rows):
        counts = Counter(row["checked"] for row in rows if row["file"] == path)
        print(f"{path:52} " + ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)))
    for row in rows:
        if row["checked"] == "wrong":
            print(f"  {row['variant']} {row['file']}: {row['kind']} {row['params']}: {row['why']}")
    counts = Counter(row["checked"] for row in rows)
    print(f"{len(rows)} variants: " + ", ".join(f"{counts[kind]} {kind}" for kind in counts))


def _swept_rows(
    path: str, options: argparse.Namespace, seen: frozenset[str]
) -> list[dict[str, str]]:
    """Check a file's variants, those of one rewrite first, until its seconds are over."""
    source = Path(path).read_text(encoding="utf-8")
    own = _brief(path, source, options.device)
    end, rows = time.monotonic() + options.seconds, []
    briefs = [own]
    if options.mutants:
        texts = islice(mutants(source, 0), options.mutants)
        briefs = [replace(own, source=text, result=None, params={}) for text in texts]
    with Checker(_LIMIT_S) as checker:
        for brief in briefs:
            for kind, text, params in _sweep_variants(brief, options.depth):
                variant = hashlib.sha256((brief.source + text).encode()).hexdigest()[:16]
                if time.monotonic() > end:
                    return rows
                if variant in seen or variant in {row["variant"] for row in rows}:
                    continue
                checked, why = checker.check(text, brief)
                row = {"file": path, "variant": variant, "kind": kind, "params": repr(params)}
                rows.append({**row, "checked": checked.value, "why": why})
                if checked.value != "right":
                    rows[-1] |= {"source": text, "parent": brief.source}
                if why.startswith(NO_PARENT):
                    break
                if options.mutants and kind in ("retile", "constants") and checked.value == "wrong":
                    rows.pop()  # its blocks are part of its meaning
                    break
    return rows


def _brief(path: str, source: str, device: str) -> Brief:
    """Return what a search would tell the rewriter, of the model's result only if there is one."""
    to, result = devices.find(device), _scored(source, device)
    if result is None:
        return Brief(source, Path(path).name, to, load(path).full_shape({}))
    return Brief(source, Path(path).name, to, result.shape, params=result.params, result=result)


def _sweep_variants(brief: Brief, depth: int) -> Iterator[tuple[str, str, Mapping[str, Value]]]:
    """Yield each variant's kind and text, and those with other parameters as its defaults."""
    for deep in range(1, depth + 1):
        proposals = Rewriter(depth=deep, checks=False).propose(brief)
        if deep == 1:
            proposals = iter(sorted(proposals, key=lambda p: p.kind not in ("retile", "constants")))
        for proposal in proposals:
            if deep > 1 and zlib.crc32(proposal.source.encode()) % _DEEP_SHARE:
                continue
            yield proposal.kind, proposal.source, {}
            for params in _other_params(proposal.source, brief.shape):
                text = parse_kernel(proposal.source)
                assert text is not None
                yield proposal.kind, with_defaults(text, params), params


def _other_params(source: str, shape: Mapping[str, Value]) -> list[Mapping[str, Value]]:
    """Return some configurations of a variant's space that differ in more than warps and stages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(source, encoding="utf-8")
        try:
            drawn = list(islice(load(str(path)).space(shape).shuffled(source), _CONFIGS))
        except (SolkitError, ValueError):
            return []
    return [params for params in drawn if set(params) - set(_IRRELEVANT)]


if __name__ == "__main__":
    main()
