"""A kernel against itself: how far from 1 its ratios lie, by SolKit and by others.

    python bench/aa.py --out aa.json            # on a GPU, some five minutes
    python bench/aa.py --out aa.json --pairs 40 --only scale-64Ki matmul-8192
    python bench/aa.py --read aa.json more.json # the figures of runs made before, with no GPU

20 kernels, each compared with itself in 200 pairs over all: as ``solkit compare`` does it, in two
processes that are called in turns, and by the times that `triton.testing.do_bench` and CUDA events
alone give for one call after the other. Each way has as long for a pair as `do_bench` takes by
default. Half of the pairs are timed in one set of processes, half in another.

Prints, for each way, how many ratios lie near 1 (within 0.7 %, or 2 % for kernels under 10 µs), the
95th percentile of |log ratio|, and the bias towards who came second; for SolKit also how often it
called a kernel faster or slower than itself; and whether the targets are reached. Every figure
goes into the JSON file, after each kernel. Exits with 1 where a target is missed or a kernel
failed, with 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from solkit.core import Candidate, Difference, MeasureSettings, Ratio, Value
from solkit.errors import SolkitError
from solkit.measure import Session, is_available
from solkit.measure.guarded.messages import Turns
from solkit.measure.timing.comparison_statistics import compute_ratio, difference
from solkit.measure.timing.median_interval import median_interval
from solkit.roofline import nvml

ROOT = Path(__file__).parent.parent
SCHEMA = "solkit.bench.aa/1"
SOLKIT, DO_BENCH, EVENTS = "solkit", "do_bench", "events"
ROUNDS = 2  # sets of processes
SHORT_MS = 0.010
NEAR, NEAR_SHORT = 0.007, 0.02  # what a ratio may lie from 1
LIMIT_S = 60.0  # for checking one kernel and timing its pairs

Row = dict[str, Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel at a shape.

    Attributes:
        path: its file, from the root of the repository.
    """

    name: str
    path: str
    shape: Mapping[str, Value]


def _kernel(name: str, path: str, **shape: Value) -> Kernel:
    return Kernel(name, path, shape)


KERNELS = (
    _kernel("scale-64Ki", "bench/aa_kernels/scale.py", N=1 << 16),
    _kernel("rmsnorm-128x1024", "examples/rmsnorm.py", M=128, N=1024),
    _kernel("rowsum-1024x1024", "bench/aa_kernels/rowsum.py", M=1024, N=1024),
    _kernel("softmax-1024x1024", "examples/softmax.py", M=1024, N=1024),
    _kernel("transpose-1024", "bench/aa_kernels/transpose.py", M=1024, N=1024),
    _kernel("matmul-512", "examples/matmul.py", M=512, N=512, K=512),
    _kernel("pairwise-4096", "bench/aa_kernels/pairwise.py", N=4096),
    _kernel("bias_gelu-4096x2048", "examples/bias_gelu.py", M=4096, N=2048),
    _kernel("matmul-2048", "examples/matmul.py", M=2048, N=2048, K=2048),
    _kernel("scale-16Mi", "bench/aa_kernels/scale.py", N=1 << 24),
    _kernel("pairwise-16384", "bench/aa_kernels/pairwise.py", N=16384),
    _kernel("rmsnorm-8192x8192", "examples/rmsnorm.py", M=8192, N=8192),
    _kernel("cross_entropy-8192x32000", "examples/cross_entropy.py", T=8192, V=32000),
    _kernel("matmul-4096", "examples/matmul.py", M=4096, N=4096, K=4096),
    _kernel("attention-2x16x4096", "examples/causal_attention.py", B=2, H=16, S=4096, D=128),
    _kernel("transpose-8192", "bench/aa_kernels/transpose.py", M=8192, N=8192),
    _kernel("softmax-32768x8192", "examples/softmax.py", M=32768, N=8192),
    _kernel("matmul-8192", "examples/matmul.py", M=8192, N=8192, K=8192),
    _kernel("fp32_matmul-4096", "bench/aa_kernels/fp32_matmul.py", M=4096, N=4096, K=4096),
    _kernel("fp32_matmul-7168", "bench/aa_kernels/fp32_matmul.py", M=7168, N=7168, K=7168),
)
"""From some 2 µs to some 20 ms on an H100, bound by launches, memory and arithmetic."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console = Console(width=120)
    if options.read:
        return show(read(options.read), console)
    if not is_available():
        print("aa: there is no GPU to time on", file=sys.stderr)
        return 2
    kernels = [kernel for kernel in KERNELS if not options.only or kernel.name in options.only]
    document = run(kernels, options.pairs, options.budget, options.out, console)
    return show(document, console)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="write every figure there")
    parser.add_argument(
        "--read", type=Path, nargs="+", metavar="FILE", help="show what runs wrote instead"
    )
    parser.add_argument("--pairs", type=int, default=200, help="over all kernels")
    parser.add_argument("--budget", type=float, default=0.25, metavar="S", help="for one pair")
    parser.add_argument("--only", nargs="+", choices=[k.name for k in KERNELS], metavar="KERNEL")
    options = parser.parse_args(arguments)
    if (options.out is None) == (options.read is None):
        parser.error("expected either --out FILE or --read FILE ...")
    if options.pairs < 1 or options.budget <= 0:
        parser.error("--pairs and --budget have to be positive")
    return options


# --------------------------------------------------------------------------------------- running


def run(kernels: Sequence[Kernel], pairs: int, budget_s: float, out: Path, console: Console) -> Row:
    """Time all kernels; the document that was written, with a row per pair."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document: Row = {"schema": SCHEMA, "created": created, "pairs": pairs, "budget_s": budget_s}
    document |= {"environment": environment()}
    document |= {"kernels": [asdict(kernel) for kernel in kernels], "rows": []}
    at_once = max(1, math.ceil(pairs / len(kernels) / ROUNDS))
    for number in range(ROUNDS):
        with Session() as session:
            for kernel in kernels:
                rows = in_turns(session, kernel, at_once, budget_s)
                _take(document, number, out, console, rows)
        _take(document, number, out, console, by_peers(kernels, at_once, budget_s))
    return document


def environment() -> dict[str, str]:
    """The GPUs here, and what they were timed with."""
    versions = {name: importlib.metadata.version(name) for name in ("torch", "triton")}
    gpus = ", ".join(device.name for device in nvml.live_devices())
    return {"gpu": gpus, "driver": nvml.driver_version() or "", **versions}


def _take(document: Row, number: int, out: Path, console: Console, rows: Sequence[Row]) -> None:
    """Add rows to the document and to the file."""
    document["rows"] += [{"round": number, **row} for row in rows]
    for row in rows:
        if "error" in row:
            console.print(f"{row['kernel']}: {row['error']}", style="red", markup=False)
    partial = out.with_name(out.name + ".part")
    partial.write_text(json.dumps(document), encoding="utf-8")
    partial.replace(out)


def in_turns(session: Session, kernel: Kernel, pairs: int, budget_s: float) -> list[Row]:
    """Compare a kernel with itself, as ``solkit compare`` does."""
    candidate = Candidate("kernel", str(ROOT / kernel.path), {})
    limit_s = LIMIT_S + 4 * pairs * budget_s  # of both together
    start = time.perf_counter()
    try:
        outcome = session.compare(
            [candidate, candidate],
            kernel.shape,
            settings=MeasureSettings(time_limit_s=limit_s / 2, turns_s=budget_s),
            repeats=pairs,
        )
    except SolkitError as error:
        return [{"kernel": kernel.name, "error": f"{type(error).__name__}: {error}"}]
    if not outcome.turns or outcome.protocol is None:
        return [{"kernel": kernel.name, "error": "; ".join(outcome.errors)}]
    seconds = (time.perf_counter() - start) / len(outcome.turns)
    return [
        {
            "kernel": kernel.name,
            "number": number,
            "method": SOLKIT,
            "timer": outcome.protocol.method,
            "seconds": seconds,
            **TypeAdapter(Turns).dump_python(turns, mode="json"),
        }
        for number, turns in enumerate(outcome.turns)
    ]


def by_peers(kernels: Sequence[Kernel], pairs: int, budget_s: float) -> list[Row]:
    """Time the same by others' ways, in a process that ends: it would be a stranger to SolKit."""
    import aa_peers

    named = [(kernel.name, str(ROOT / kernel.path), dict(kernel.shape)) for kernel in kernels]
    spawned = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=spawned) as pool:
            rows: list[Row] = pool.submit(aa_peers.time_pairs, named, pairs, budget_s).result()
    except BrokenProcessPool as error:
        return [
            {"kernel": kernel.name, "error": f"timing by others: {error}"} for kernel in kernels
        ]
    return rows


def read(paths: Sequence[Path]) -> Row:
    """What runs on GPUs of one model wrote, as if one had."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    gpus = {document["environment"]["gpu"] for document in documents}
    if len(gpus) > 1:
        sys.exit(f"aa: runs of different GPUs are not to be put together: {', '.join(gpus)}")
    return {
        **documents[0],
        "created": ", ".join(document["created"] for document in documents),
        "rows": [row for document in documents for row in document["rows"]],
    }


# --------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Pair:
    """One kernel's ratio to itself.

    Attributes:
        is_short: whether the kernel takes under 10 µs, by SolKit's own times.
        ratio: the second one's time over the first one's; for SolKit the candidate's over the
            base's.
        shown: what SolKit says of it.
    """

    kernel: str
    is_short: bool
    ratio: float
    shown: Ratio | None = None

    @property
    def distance(self) -> float:
        """|log ratio|."""
        return abs(math.log(self.ratio))

    @property
    def is_near(self) -> bool:
        """True if it lies as near to 1 as it should."""
        return abs(self.ratio - 1) <= (NEAR_SHORT if self.is_short else NEAR)


def pairs_of(document: Row) -> dict[str, list[Pair]]:
    """The pairs of every way of timing, `do_bench`'s by its means as well."""
    rows = [row for row in document["rows"] if "error" not in row]
    times: dict[str, list[float]] = {}
    for row in rows:
        if row["method"] == SOLKIT:
            times.setdefault(row["kernel"], []).extend(map(median, row["times_ms"]))
    results: dict[str, list[Pair]] = {}
    for row in rows:
        name = row["kernel"]
        if name not in times:  # it failed there
            continue
        is_short = median(times[name]) < SHORT_MS
        if row["method"] == SOLKIT:
            base_ms, candidate_ms = row["times_ms"]
            ratio = compute_ratio(base_ms, candidate_ms, row["timer"])
            results.setdefault(SOLKIT, []).append(Pair(name, is_short, ratio.value, ratio))
            continue
        for suffix, figure in (("", "medians_ms"), (", means", "means_ms")):
            first, second = row[figure]
            method = results.setdefault(row["method"] + suffix, [])
            method.append(Pair(name, is_short, second / first))
    return results


def percentile_95(values: Sequence[float]) -> float:
    """The smallest value that 95 % of them do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def bias(pairs: Sequence[Pair]) -> str:
    """The median of ratio - 1 with its 95 % interval."""
    result = median_interval([pair.ratio - 1 for pair in pairs])
    return f"{result.median:+.3%} ({result.low:+.3%} to {result.high:+.3%})"


def later(document: Row) -> Iterator[Pair]:
    """For each of SolKit's pairs: the times of who came second in a turn over who came first."""
    for row in document["rows"]:
        if row.get("method") == SOLKIT:
            firsts = [row["times_ms"][order[0]][t] for t, order in enumerate(row["orders"])]
            seconds = [row["times_ms"][order[1]][t] for t, order in enumerate(row["orders"])]
            ratio = compute_ratio(firsts, seconds, row["timer"]).value
            yield Pair(row["kernel"], median(firsts) < SHORT_MS, ratio)


def claims(pairs: Sequence[Pair]) -> float:
    """The share of pairs of which SolKit says that one is faster."""
    shown = [difference(pair.shown) for pair in pairs if pair.shown is not None]
    return sum(item is not Difference.NOT_SHOWN for item in shown) / len(shown)


def claims_of_intervals_alone(pairs: Sequence[Pair]) -> float:
    """The same if intervals were not widened by what turns cannot tell: 5 % at the best."""
    shown = [pair.shown for pair in pairs if pair.shown is not None]
    narrow = [(r.low * math.exp(r.resolution), r.high / math.exp(r.resolution)) for r in shown]
    return sum(not low <= 1 <= high for low, high in narrow) / len(narrow)


@dataclass(frozen=True)
class Target:
    """A figure that is to be reached."""

    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def is_reached(self) -> bool:
        """True if it is."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def targets(result: Mapping[str, Sequence[Pair]]) -> list[Target]:
    """What SolKit promises."""
    own = result[SOLKIT]
    reached = [
        Target("ratios near 1", sum(item.is_near for item in own) / len(own), 0.95, at_least=True),
        Target("called faster or slower than itself", claims(own), 0.02),
    ]
    worst = percentile_95([item.distance for item in own])
    for method, limit in ((DO_BENCH, 1 / 3), (EVENTS, 1 / 2)):
        if method in result:
            peer = percentile_95([item.distance for item in result[method]])
            reached.append(Target(f"95th percentile over that of {method}", worst / peer, limit))
    return reached


# --------------------------------------------------------------------------------------- showing


def show(document: Row, console: Console) -> int:
    """Print the figures; the exit code."""
    pairs = pairs_of(document)
    failed = sorted({row["kernel"] for row in document["rows"] if "error" in row})
    if SOLKIT not in pairs:
        console.print(f"nothing was timed; failed: {', '.join(failed)}")
        return 1
    text = " · ".join(f"{name} {value}" for name, value in document["environment"].items())
    console.print(f"{text} · {document['created']}")
    console.print(_methods(document, pairs))
    console.print(_kernels(pairs))
    in_turn = list(later(document))
    short = [items for items in in_turn if items.is_short]
    console.print(f"second in a turn over first: {bias(in_turn)}")
    if short:
        console.print(f"  kernels under 10 µs: {bias(short)}")
    own = pairs[SOLKIT]
    alone = claims_of_intervals_alone(own)
    console.print(f"called faster or slower by intervals that are not widened: {alone:.1%}")
    unstable = sum(bool(row.get("unstable")) for row in document["rows"])
    console.print(f"unstable: {unstable} of {len(own)} · failed kernels: {failed or 'none'}\n")
    reached = targets(pairs)
    for item in reached:
        sign = "at least" if item.at_least else "at most"
        mark = "reached" if item.is_reached else "MISSED"
        console.print(f"{mark:8}{item.name}: {item.value:.3f}, {sign} {item.limit:.3f}")
    return 0 if not failed and all(items.is_reached for items in reached) else 1


def _methods(document: Row, result: Mapping[str, Sequence[Pair]]) -> Table:
    table = Table(box=None, header_style="dim")
    table.add_column("way of timing")
    for name in ("pairs", "near 1", "p95 |log|", "under 10 µs", "above", "bias of the second"):
        table.add_column(name, justify="right")
    table.add_column("s a pair", justify="right")
    for method, pairs in result.items():
        groups = (pairs, [p for p in pairs if p.is_short], [p for p in pairs if not p.is_short])
        shares = (f"{percentile_95([p.distance for p in g]):.3%}" if g else "-" for g in groups)
        near = sum(pair.is_near for pair in pairs) / len(pairs)
        seconds = [
            row["seconds"]
            for row in document["rows"]
            if row.get("method") == method.removesuffix(", means")
        ]
        spent = f"{sum(seconds) / len(seconds):.2f}"
        table.add_row(method, str(len(pairs)), f"{near:.1%}", *shares, bias(pairs), spent)
    return table


def _kernels(results: Mapping[str, Sequence[Pair]]) -> Table:
    """The 95th percentile of each kernel, by each way; nearly its maximum of ten pairs."""
    table = Table(box=None, header_style="dim")
    table.add_column("95th percentile of |log ratio|")
    for method in results:
        table.add_column(method, justify="right")
    for name in dict.fromkeys(item.kernel for item in results[SOLKIT]):
        row = []
        for pairs in results.values():
            own = [pair.distance for pair in pairs if pair.kernel == name]
            row.append(f"{percentile_95(own):.2%}" if own else "-")
        table.add_row(name, *row)
    return table


if __name__ == "__main__":
    sys.exit(main())
