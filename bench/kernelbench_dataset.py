"""Make a table of what `kernelbench_times` measured, with the bound beside each time.

    python bench/kernelbench_dataset.py LOG KERNELBENCH --gpu h100 --device h100-sxm

Writes ``datasets/data/kernelbench_<gpu>.parquet`` and its card (``.md``), and prints what the
times say of the bounds, in Markdown: the distribution of measured over bound, the widest gaps, and
every time below a bound. Needs no GPU, and may be run again when the bounds have changed. Exits
with 1 where a time lies under its hard bound.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from kernelbench import percentile, print_table
from kernelbench_suite import (
    OK,
    SAME_AS_DEFAULT,
    VARIANTS,
    Problem,
    Row,
    find_problems,
    has_matrix_product,
)
from kernelbench_times import read_lines

import solkit
from solkit.core import Bound, Result, Verdict, Work
from solkit.datasets.kernelbench import TimedReference, write_baselines
from solkit.errors import SolkitError
from solkit.roofline import devices
from solkit.roofline.score import time_verdict

ROOT = Path(__file__).parent.parent
_CATEGORIES = {
    "attention": r"Attention|MinGPT",
    "convolution": r"conv",
    "matrix product": r"matmul|matrix|gemm|bmm|linear",
    "pooling": r"pooling",
    "scan": r"cum(sum|prod)",
    "loss": r"loss",
    "norm": r"norm",
    "softmax": r"softmax",
    "reduction": r"reduction|arg(max|min)",
}


@dataclass(frozen=True)
class Bounds:
    """A problem's bounds by precision: ``"tf32"``, and for the ``"tolerance"`` of its outputs.

    Attributes:
        work: what the problem costs.
        fused: as one kernel.
        unfused_ms: as one kernel an op.
    """

    work: Work
    fused: Mapping[str, Bound]
    unfused_ms: Mapping[str, float]


def category(name: str) -> str:
    """What kind of problem it is, by the first pattern that its name has."""
    result = (k for k, pattern in _CATEGORIES.items() if re.search(pattern, name, re.IGNORECASE))
    return next(result, "pointwise")


def bounds_of(problem: Problem, device: str) -> Bounds:
    """The bounds of a problem under both precisions.

    Raises:
        SolkitError: it has none.
    """
    outcome: dict[str, Result] = {}
    for precision in ("tolerance", "tf32"):
        outcome[precision] = solkit.bounds(
            problem.path, device=device, precision=precision
        ).results[0]
    return Bounds(
        outcome["tf32"].work,
        {precision: result.bound for precision, result in outcome.items()},
        {p: r.fusion.unfused_ms for p, r in outcome.items() if r.fusion is not None},
    )


def precision_of(row: Row, work: Work) -> str:
    """The rule for a variant: tf32 counts wherever PyTorch may have used it."""
    if row.get("matmul_tf32") or row["variant"].endswith("_tf32"):
        return "tf32"
    convolves = any("convolution" in op.op for op in work.ops)
    return "tf32" if convolves and row.get("conv_tf32") is not False else "tolerance"


def timed_reference(row: Row, bounds: Bounds | None, device: str) -> TimedReference:
    """A row of the table from a line of the journal."""
    columns = {f.name: row.get(f.name) for f in fields(TimedReference)}
    columns["category"] = category(row["name"])
    if bounds is not None:
        columns |= _bound_columns(row, bounds, device)
    return TimedReference(**columns)


def _bound_columns(row: Row, bounds: Bounds, device: str) -> Row:
    precision = precision_of(row, bounds.work)
    bound = bounds.fused[precision]
    columns: Row = {
        "precision": precision,
        "roofline_ms": bound.time_ms,
        # a result that algebra fixes takes no op at all
        "unfused_ms": bounds.unfused_ms.get(precision, bound.time_ms),
        "hard_ms": bound.at.hard_ms,
        "limiter": bound.limiter,
        "resource_ms": json.dumps({r.name: r.time_ms for r in bound.resources}),
        "unmodelled": " ".join(bounds.work.unmodelled),
    }
    if row["status"] == OK and bound.time_ms > 0:
        columns["ratio"] = row["median_ms"] / bound.time_ms
        inputs = row["median_ms"], bound.time_ms, bound.at.hard_ms
        columns["verdict"] = time_verdict(*inputs, devices.find(device)).value
    return columns


def newest(lines: Iterable[Row]) -> list[Row]:
    """One line per problem and variant: the last that was timed, else the last."""
    kept: dict[tuple[str, str], Row] = {}
    for line in lines:
        if line["kind"] != "time":
            continue
        key = line["sha256"], line["variant"]
        if key not in kept or line["status"] == OK or kept[key]["status"] != OK:
            kept[key] = line
    order = {variant: index for index, variant in enumerate(VARIANTS)}
    return sorted(kept.values(), key=lambda r: (r["level"], r["number"], order[r["variant"]]))


def make_table(
    lines: Sequence[Row], problems: Sequence[Problem], device: str
) -> list[TimedReference]:
    """Every row, with bounds of the files that were timed."""
    by_hash = {problem.sha256: problem for problem in problems}
    expected = newest(lines)
    bounds: dict[str, Bounds] = {}
    for key in {row["sha256"] for row in expected}:
        if key not in by_hash:
            raise SystemExit(f"no file of the checkout has the SHA-256 {key} that was timed")
        try:
            bounds[key] = bounds_of(by_hash[key], device)
        except SolkitError as error:
            print(f"no bound: {error}", file=sys.stderr)
    expected += [row for key, bound in bounds.items() for row in alike(expected, key, bound.work)]
    expected.sort(key=lambda row: (row["level"], row["number"], VARIANTS.index(row["variant"])))
    return [timed_reference(row, bounds.get(row["sha256"]), device) for row in expected]


def alike(rows: Sequence[Row], sha256: str, work: Work) -> list[Row]:
    """Rows for the tf32 variants of a problem that has no matrix product: they are not run."""
    known_rows_by_variant = {row["variant"]: row for row in rows if row["sha256"] == sha256}
    if has_matrix_product(op.op for op in work.ops):
        return []
    kept = ("run", "device", "level", "number", "name", "sha256")
    first = {name: next(iter(known_rows_by_variant.values()))[name] for name in kept}
    tf32 = [
        variant
        for variant in VARIANTS
        if variant.endswith("tf32") and variant not in known_rows_by_variant
    ]
    return [{**first, "variant": item, "status": SAME_AS_DEFAULT} for item in tf32]


# ------------------------------------------------------------------------------------ findings


def print_findings(table: Sequence[TimedReference]) -> None:
    """What the times say of the bounds, as Markdown."""
    print_statuses(table)
    sound = [row for row in table if row.ratio is not None and not row.degenerate]
    print("## Measured over bound\n")
    print_distribution("level", sound, lambda row: f"level {row.level}")
    print_distribution("category", sound, lambda row: row.category)
    print_distribution("limiter", sound, lambda row: row.limiter or "none")
    print("## The ten widest\n")
    print("By the faster of eager and compiled, at the default precision. A gap is the product of")
    print("what fusing all ops would save and of how far the kernels are from their own bounds.\n")
    print_widest(sorted(fastest(sound), key=lambda r: -(r.ratio or 0))[:10])
    for title, verdict in (
        ("Below the hard bound", Verdict.IMPOSSIBLE),
        ("Between hard bound and roofline", Verdict.BEATS_ALGORITHM),
    ):
        selected_table = [
            row for row in table if row.verdict == verdict.value and not row.degenerate
        ]
        print(f"## {title}: {len(selected_table)}\n")
        print_rows(selected_table)
    degenerate = [r for r in table if r.degenerate and r.variant == "eager"]
    print(f"## Outputs that do not depend on inputs: {len(degenerate)}\n")
    print_rows(degenerate)


def print_statuses(table: Sequence[TimedReference]) -> None:
    counts = statistics_of_status(table)
    print_table(["variant", *counts[0]], [[v, *map(str, row)] for v, row in counts[1].items()])


def statistics_of_status(
    table: Sequence[TimedReference],
) -> tuple[list[str], dict[str, list[int]]]:
    """Statuses that occur, and how often each does, by variant."""
    statuses = sorted({row.status for row in table}, key=lambda s: (s != OK, s))
    return statuses, {
        v: [sum(r.variant == v and r.status == s for r in table) for s in statuses]
        for v in VARIANTS
    }


def print_distribution(
    name: str, table: Sequence[TimedReference], group: Callable[[TimedReference], str]
) -> None:
    rows = []
    for key in sorted({group(row) for row in table}):
        for variant in VARIANTS:
            ratios = [r.ratio for r in table if group(r) == key and r.variant == variant]
            if ratios:
                rows.append([key, variant, str(len(ratios)), *quantiles([r or 0 for r in ratios])])
    for variant in VARIANTS:
        ratios = [r.ratio or 0 for r in table if r.variant == variant]
        if ratios:
            rows.append(["all", variant, str(len(ratios)), *quantiles(ratios)])
    print_table([name, "variant", "problems", "p10", "median", "p90"], rows)


def quantiles(ratios: Sequence[float]) -> list[str]:
    """10th percentile, median and 90th percentile, as text."""
    values = percentile(ratios, 0.1), statistics.median(ratios), percentile(ratios, 0.9)
    return [f"{value:.2f}" for value in values]


def fastest(table: Sequence[TimedReference]) -> list[TimedReference]:
    """Of each problem, the faster of eager and compiled."""
    best: dict[str, TimedReference] = {}
    for row in table:
        if row.variant in ("eager", "compiled") and (
            row.sha256 not in best or (row.ratio or 0) < (best[row.sha256].ratio or 0)
        ):
            best[row.sha256] = row
    return list(best.values())


def print_widest(table: Sequence[TimedReference]) -> None:
    heads = "problem|variant|measured ms|roofline ms|gap|of fusion|of kernels|limiter".split("|")
    print_table(heads, [_gap_cells(row) for row in table])


def _gap_cells(row: TimedReference) -> list[str]:
    unfused = row.unfused_ms or row.roofline_ms or 0.0
    numbers = [row.median_ms, row.roofline_ms, row.ratio]
    numbers += [unfused / (row.roofline_ms or 1.0), (row.median_ms or 0.0) / (unfused or 1.0)]
    shown = ["" if n is None else f"{n:.3g}" for n in numbers]
    return [f"{row.level}/{row.name}", row.variant, *shown, row.limiter or ""]


def print_rows(table: Sequence[TimedReference]) -> None:
    heads = "problem|variant|measured ms|roofline ms|hard ms|ratio|limiter|precision".split("|")
    print_table(heads, [_cells(row) for row in table])


def _cells(row: TimedReference) -> list[str]:
    numbers = [row.median_ms, row.roofline_ms, row.hard_ms, row.ratio]
    shown = ["" if n is None else f"{n:.4g}" for n in numbers]
    name = f"{row.level}/{row.name}"
    return [name, row.variant, *shown, row.limiter or "", row.precision or ""]


# ----------------------------------------------------------------------------------- the card


CARD = """# KernelBench's references on an {device}

Times of the PyTorch references of [KernelBench](https://github.com/ScalingIntelligence/KernelBench)
(MIT licence; levels {levels}), and SolKit's bounds for them: {rows} rows, {timed} of them timed, of
{problems} problems. The set does not contain the problems: a row names its file by SHA-256.

```python
from solkit.datasets import kernelbench

row = kernelbench.baseline("KernelBench/level1/23_Softmax.py", "{gpu}", "compiled")
row.median_ms, row.roofline_ms, row.limiter
```

## How it was measured

By `bench/kernelbench_times.py` on one {device}, with unlocked clocks. Each variant is a candidate
that SolKit's guarded bench checks against the eager reference and times in turns with it:

{runs}
For each problem, inputs come from the file's `get_inputs` and are made on the GPU. Weights have a
fixed seed. There are no gradients, and modules stay in training mode, as the files leave them. A
call's time is last end minus first start over all its kernels and copies (CUPTI activity, through
PyTorch's profiler; `method` says `events` if CUPTI was not available). L2 is cold: {flush}.
{warmup} warm-up calls do not count. While a problem is timed, nothing else runs on the GPU.
`torch.compile` has its default settings. A variant whose results are out of tolerance has no time.

| variant | run as | tf32 in matrix products | tf32 in convolutions |
|---|---|---|---|
| `eager` | the module | no | yes (PyTorch's default) |
| `compiled` | `torch.compile(module)` | no | yes |
| `eager_tf32` | the module | yes | yes |
| `compiled_tf32` | `torch.compile(module)` | yes | yes |

Without a matrix product, a tf32 variant would equal the default one: its status is
`same_as_default`, and `baseline` gives the default's row. Bounds are for {target}, at tf32 if
the variant may use it (`precision`), else for the tolerance of the outputs' dtype.

## Columns

Names contain the units. A column that does not apply is empty.

| column | meaning |
|---|---|
{columns}
## Known limits

- One GPU, one machine, one set of versions. Expect a few per cent between runs.
- References only: they are baselines, not good kernels. cuDNN chooses its algorithms without
  benchmarking (`torch.backends.cudnn.benchmark` is off).
- Problems that draw random numbers (dropout) draw different ones when compiled, so they are out of
  tolerance.
- Failures (out of memory, does not compile, too slow) have a row with the reason in `status`.
"""


def card(table: Sequence[TimedReference], lines: Sequence[Row], gpu: str, device: str) -> str:
    """The data set's card, in Markdown."""
    used = {row.run for row in table}
    runs = [line for line in lines if line["kind"] == "run" and line["run"] in used]
    about = [
        f"- {r['run']}: driver {r['driver']}, torch {r['torch']}, triton {r['triton']}\n"
        for r in runs
    ]
    return CARD.format(
        device=table[0].device,
        levels=" and ".join(sorted({str(row.level) for row in table})),
        rows=len(table),
        timed=sum(row.status == OK for row in table),
        problems=len({row.sha256 for row in table}),
        gpu=gpu,
        runs="".join(about),
        flush=runs[-1]["flush"],
        warmup=runs[-1]["warmup"],
        target=devices.find(device).name,
        columns="".join(f"| `{name}` | {text} |\n" for name, text in column_texts().items()),
    )


def column_texts() -> dict[str, str]:
    """What each column holds, from the docstring of `TimedReference`."""
    _, _, attributes = (TimedReference.__doc__ or "").partition("Attributes:\n")
    entries = re.findall(r"^ {8}(\w[\w, ]*): (.+(?:\n {12}.+)*)", attributes, re.MULTILINE)
    return {
        name: re.sub(r"``|\s+", lambda m: "`" if m[0] == "``" else " ", text)
        for names, text in entries
        for name in names.split(", ")
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", type=Path, help="the log of kernelbench_times")
    parser.add_argument("path", type=Path, help="the checkout of KernelBench that was timed")
    parser.add_argument("--gpu", default="h100", help="the table's name")
    parser.add_argument("--device", default="h100-sxm", help="bounds are for that GPU")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=ROOT / "datasets" / "data", metavar="DIR")
    options = parser.parse_args()
    target = devices.find(options.device)
    problems = find_problems(options.path, options.levels)
    lines = read_lines(options.log, problems)
    lines = [n for n in lines if devices.find(n["device"]).key == target.key]
    if not any(line["kind"] == "time" for line in lines):
        raise SystemExit(f"{options.log} has no times of a {target.name}")
    table = make_table(lines, problems, options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"kernelbench_{options.gpu}.parquet"
    write_baselines(table, path)
    path.with_suffix(".md").write_text(card(table, lines, options.gpu, options.device), "utf-8")
    print_findings(table)
    return int(any(r.verdict == Verdict.IMPOSSIBLE.value and not r.degenerate for r in table))


if __name__ == "__main__":
    sys.exit(main())
