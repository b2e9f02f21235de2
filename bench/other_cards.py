"""The kernel model beside times that others published, on GPUs without a time of ours.

    PYTHONPATH=liger-kernel-0.8.0 python -m bench.other_cards liger LIGER_REPOSITORY --json A
    python -m bench.other_cards cutile LIGER_REPOSITORY --json B
    python -m bench.other_cards figures A B
    PYTHONPATH=AITER_REPOSITORY python -m bench.other_cards aiter AITER_REPOSITORY [--json FILE]

``liger``: forward passes of Liger-Kernel's Triton kernels on a B200, of ``benchmark/data``. The
release is the one of the rows: ``pip install --no-deps --target liger-kernel-0.8.0
liger-kernel==0.8.0``. ``cutile``: its kernels in cuTile, of the installed release and
``cuda-tile``. ``figures`` prints what several runs wrote: where the two languages differ by over
20 %, is their order right? ``aiter``: products by AITER's Triton kernels on an MI355X and an
MI308X, of ``aiter/configs``.

Each row is bounded, launched again without a GPU and modelled. Half of the operators (Liger) or of
the shapes (AITER) were set aside while the model was changed: those whose name has an even first
byte of SHA-256. They are reported apart; ``--half`` chooses one half. Liger's rows are timed by
events, which take about 3 us of each time (docs/lab/measuring.md); those are added. Needs no GPU; 5
to 10 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from solkit.core import Depth
from solkit.core.judging import Plausibility
from solkit.pipeline.judging import judge
from solkit.pipeline.rebuilding import Rebuilt, count_reasons, rebuild_rows
from solkit.surrogate.compiled_features import modelled_ms

EVENTS_MS = 0.003
"""Time that CUDA events add to a time: docs/lab/measuring.md."""
CLEAR = 1.2
"""Ratio of two published times from which their order is asked for."""
LIMIT_S = 900.0
"""Limit of one kernel: ptxas takes minutes where thousands of registers are spilled."""
HOST_MS = 0.03
"""Shorter calls may wait for the host: times of small sizes do not depend on the size."""
STEP_MS = 0.002048
"""Step of the events' clock on the B200 of Liger's rows: two thirds of the times below 0.2 ms are
multiples of it."""
FLAT = 1.1
"""A call that takes no more than this ratio longer for twice the tokens waits for the host."""

Record = dict[str, str]


@dataclass(frozen=True)
class Row:
    """A published time.

    Attributes:
        group: the operator, or the file.
        case: its sizes.
        language: ``cutile``, or empty for Triton.
        aside: whether its half was not looked at while the model was changed.
        time_ms, modelled_ms: published, and by the kernel model; ``None`` if it is not rebuilt.
        beaten: whether the time is below the hard bound.
        kernels: the modelled launches, the longest first.
        reason: why it is not rebuilt.
        device: the GPU.
    """

    group: str
    case: str
    language: str
    aside: bool
    time_ms: float
    modelled_ms: float | None
    beaten: bool
    kernels: tuple[str, ...] = ()
    reason: str = ""
    device: str = ""


# --------------------------------------------------------------------------------- the rows


def is_aside(name: str) -> bool:
    """Tell whether a name belongs to the half that was set aside."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def liger_name(record: Mapping[str, str]) -> str:
    return record["kernel_name"]


def aiter_name(record: Mapping[str, str]) -> str:
    return f"{record['M']} {record['N']} {record['K']}"


def is_liger_row(record: Mapping[str, str]) -> bool:
    """Tell whether a row is a forward pass of Liger's own Triton kernel on a B200."""
    name, provider = record["kernel_name"], record["kernel_provider"]
    own = provider in ("liger", "liger_triton", f"liger_triton_{name}")
    forward = record["kernel_operation_mode"] == "forward" and record["metric_name"] == "speed"
    return own and forward and "B200" in record["gpu_name"]


def is_cutile_row(record: Mapping[str, str]) -> bool:
    """Tell whether a row is a forward pass of Liger's own cuTile kernel on a B200."""
    own = record["kernel_provider"] in ("liger_cutile", f"liger_cutile_{record['kernel_name']}")
    forward = record["kernel_operation_mode"] == "forward" and record["metric_name"] == "speed"
    return own and forward and "B200" in record["gpu_name"]


def is_aiter_row(record: Mapping[str, str]) -> bool:
    """Tell whether a row is of a Triton kernel on CDNA 3 or 4."""
    return record.get("libtype") == "triton" and record["gfx"] in ("gfx942", "gfx950")


SETS = {
    "liger": ("benchmark/data/all_benchmark_data*.csv", is_liger_row, liger_name, EVENTS_MS),
    "cutile": ("benchmark/data/all_benchmark_data*.csv", is_cutile_row, liger_name, EVENTS_MS),
    "aiter": ("aiter/configs/**/*_tuned_gemm*.csv", is_aiter_row, aiter_name, 0.0),
}


def copied(repository: Path, folder: Path, which: str, half: str) -> Iterator[Path]:
    """Write the rows of a set and of a half to files of the same names."""
    pattern, is_row, name_of, _ = SETS[which]
    for source in sorted(repository.glob(pattern)):
        with source.open(encoding="utf-8", newline="") as file:
            records = list(csv.DictReader(file))
        rows = [r for r in records if is_row(r) and half in ("all", half_of(name_of(r)))]
        if rows and "untuned" not in source.name:
            with (folder / source.name).open("w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, records[0].keys())
                table.writeheader()
                table.writerows(rows)
            yield folder / source.name


def half_of(name: str) -> str:
    return "aside" if is_aside(name) else "own"


def rows_of(repository: Path, which: str, half: str) -> list[Row]:
    """Bound, rebuild and model the rows of a set."""
    with TemporaryDirectory() as folder:
        files = list(copied(repository, Path(folder), which, half))
        if not files:
            raise SystemExit(f"no row of {which} in {repository}: not a checkout of it?")
        report = judge(files, folder=folder)
        rebuilt = rebuild_rows(report.judgements, folder, Depth.COMPILED, LIMIT_S)
        print(count_reasons(rebuilt), file=sys.stderr)
        return [row_of(row, which) for row in rebuilt]


def row_of(row: Rebuilt, which: str) -> Row:
    published, time_ms = row.judgement.row, row.judgement.time_ms
    hidden = "operation", "mode", "dtype", "language"
    shape = {key: value for key, value in published.shape.items() if key not in hidden}
    sizes = " ".join(str(shape[size]) for size in "MNK") if which == "aiter" else ""
    name = sizes or published.family
    modelled = None if row.entry is None else modelled_ms(row.entry.kernels)
    assert time_ms is not None
    return Row(
        (published.implementation or "").split(" ")[0],
        " ".join(f"{key}={value}" for key, value in shape.items()),
        str(published.shape.get("language", "")),
        is_aside(name),
        time_ms,
        None if modelled is None else modelled + SETS[which][3],
        row.judgement.plausibility is Plausibility.IMPOSSIBLE,
        () if row.entry is None else tuple(launches(row)),
        row.reason,
        str(published.device),
    )


def launches(row: Rebuilt) -> Iterator[str]:
    """Describe the launches of a row, the longest first."""
    assert row.entry is not None
    models = [(k.launch, k.model) for k in row.entry.kernels if k.model is not None]
    for launch, model in sorted(models, key=lambda pair: -pair[1].time_ms):
        most = model.terms[0]
        yield f"{launch.count} x {launch.name}: {1e3 * model.time_ms:.3g} us, {most.name}"


# -------------------------------------------------------------------------------- the figures


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Return figures of rows that were rebuilt.

    ::

        error    median of exp |ln(modelled / published)| - 1
        ratio    exp of the median of ln(modelled / published)
    """
    logs = [math.log(row.modelled_ms / row.time_ms) for row in rows if row.modelled_ms]
    if not logs:
        return {"rows": 0}
    return {
        "rows": len(logs),
        "groups": len({row.group for row in rows if row.modelled_ms}),
        "error": math.exp(statistics.median(map(abs, logs))) - 1,
        "ratio": math.exp(statistics.median(logs)),
        "within_2x": sum(abs(log) <= math.log(2) for log in logs) / len(logs),
        "under_a_bound": sum(row.beaten for row in rows),
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of Markdown: all rows, each half, each operator or file."""
    parts = {"all": rows, "looked at": [r for r in rows if not r.aside]}
    parts["set aside"] = [r for r in rows if r.aside]
    if any(row.language for row in rows):
        parts["Triton"] = [r for r in rows if not r.language]
        parts["cuTile"] = [r for r in rows if r.language]
    names = {row.device for row in rows}
    if len(names) > 1:
        parts |= {name: [r for r in rows if r.device == name] for name in sorted(names)}
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    yield "| | published | rebuilt | median error | ratio | within 2x | under a bound |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, part in (*parts.items(), *((f"`{n}`", groups[n]) for n in sorted(groups))):
        result = figures(part)
        if not result["rows"]:
            yield f"| {name} | {len(part)} | 0 | - | - | - | - |"
            continue
        yield (
            f"| {name} | {len(part)} | {result['rows']:.0f} | {result['error']:.0%} "
            f"| {result['ratio']:.2f} | {result['within_2x']:.0%} | {result['under_a_bound']:.0f} |"
        )


def orders(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how often the model orders the two languages right where they clearly differ.

    Of equal cases, the last file's counts: the one in which both were timed.
    """
    by_case: defaultdict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row.modelled_ms:
            by_case[row.group, row.case][row.language] = row
    pairs = [pair for pair in by_case.values() if len(pair) == 2]
    clear = [
        p for p in pairs if abs(math.log(p[""].time_ms / p["cutile"].time_ms)) > math.log(CLEAR)
    ]
    right = [p for p in clear if is_right(p[""], p["cutile"])]
    yield f"{len(pairs)} pairs, {len(clear)} differ by over 20 %, {len(right)} in the right order"
    flat = waiting(rows)
    parts = {
        "set aside": [p for p in clear if p[""].aside],
        "both over 30 us": [p for p in clear if min(r.time_ms for r in p.values()) > HOST_MS],
        "over two steps of the clock apart, neither waits for the host": [
            p
            for p in clear
            if abs(p[""].time_ms - p["cutile"].time_ms) > 2 * STEP_MS
            and not any(place(row) in flat for row in p.values())
        ],
    }
    for name, part in parts.items():
        yield f"{name}: {len(part)}, {sum(pair in right for pair in part)} right"
    for pair in clear:
        if pair not in right:
            one, other = pair[""], pair["cutile"]
            times = f"{1e3 * one.time_ms:.4g} and {1e3 * other.time_ms:.4g} us"
            modelled = (
                f"{1e3 * (one.modelled_ms or 0):.4g} and {1e3 * (other.modelled_ms or 0):.4g}"
            )
            yield f"wrong: {one.group} {one.case}: {times}, modelled {modelled}"


def place(row: Row) -> tuple[str, str, str]:
    return row.language, row.group, row.case


def waiting(rows: Iterable[Row]) -> set[tuple[str, str, str]]:
    """Return calls that wait for the host: twice the tokens take as long, by published times."""
    times = {place(row): row.time_ms for row in rows}
    flat = set()
    for (language, group, case), time_ms in times.items():
        twice = re.sub(r"tokens=(\d+)", lambda match: f"tokens={2 * int(match[1])}", case)
        longer = times.get((language, group, twice))
        if twice != case and longer is not None and longer < FLAT * time_ms:
            flat.add((language, group, case))
    return flat


def is_right(one: Row, other: Row) -> bool:
    assert one.modelled_ms is not None
    assert other.modelled_ms is not None
    return (one.time_ms < other.time_ms) == (one.modelled_ms < other.modelled_ms)


def worst(rows: Iterable[Row], count: int) -> Iterator[str]:
    """Yield the rows that are furthest off."""
    off = [(abs(math.log(r.modelled_ms / r.time_ms)), r) for r in rows if r.modelled_ms]
    for _, row in sorted(off, key=lambda pair: -pair[0])[:count]:
        assert row.modelled_ms is not None
        times = f"{1e3 * row.time_ms:.4g} us, modelled {1e3 * row.modelled_ms:.4g}"
        yield f"{row.group} {row.case}: {times}; {'; '.join(row.kernels[:3])}"


def main() -> int:
    """Print the figures of one set, or of rows that were written before."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("set", choices=[*SETS, "figures"])
    parser.add_argument("paths", type=Path, nargs="+", metavar="REPOSITORY|FILE")
    parser.add_argument("--half", choices=["all", "own", "aside"], default="all")
    parser.add_argument("--worst", type=int, default=10, help="Rows to print that are off most.")
    parser.add_argument("--json", type=Path, help="Write all rows there.")
    options = parser.parse_args()
    rows: list[Row] = []
    for path in options.paths:
        if options.set == "figures":
            rows += [Row(**row) for row in json.loads(path.read_text("utf-8"))]
        else:
            rows += rows_of(path, options.set, options.half)
    print("\n".join(table(rows)))
    if {row.language for row in rows} >= {"", "cutile"}:
        print("", *orders(rows), sep="\n")
    print("", *worst(rows, options.worst), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
