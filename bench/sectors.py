"""Hold what SolKit says that kernels ask for against what an H100 counts.

    python bench/sectors.py --out sectors.json                          # on a GPU, with ncu
    python bench/sectors.py --recorded bench/data/sectors_h100.json     # anywhere

The kernels are those of ``bench/sectors``, ``bench/sweeps``, the examples and the planted defects
of the tests, each at one shape. On a GPU, Nsight Compute counts a dozen of them at a time, by some
ten replays of each launch, with cold caches and clocks left alone; needed are ``ncu`` on PATH and
the right to count (root, or see docs/analysis.md). What was counted goes to ``--out`` after each
dozen, and a later run with the same ``--out`` counts what is missing: a run that was cut loses
little. What fails is a row of its own. Meanwhile SolKit analyses each kernel, as it would with no
GPU; that part is made anew with ``--recorded``.

Prints a markdown table, a row a kernel, each cell "SolKit's / the GPU's (ratio)"; then the shares
that the targets speak of:

- sectors: of the kernels that have any, those with every kind (loads, asynchronous copies, stores,
  atomics) within 5 %; a kind with less than a hundredth of a kernel's sectors is left out, and so
  are TMA's, which are judged apart;
- DRAM reads within 20 %; tensor operations within 2 %; theoretical occupancy and waves exact, as
  far as Nsight Compute writes them (two digits after the point).

Exits with 1 where a target is missed, 2 where nothing could be counted. ``--only REGEX`` picks
kernels (``--only sectors/`` is a short first try); ``--dry`` counts nothing and prints SolKit's
side. ``bench/data/sectors_h100.json`` is what an H100 counted on 2026-11-21; loads and copies were
counted as one then, and taken apart afterwards. The CUDA C++ kernels (``sectors/cuda_*``) are
younger than it: their rows say "not counted".
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import solkit
from solkit.adapters import nsight
from solkit.core import Counters, Device, KernelAnalysis
from solkit.errors import CountersError, SolkitError
from solkit.measure.counters.counting import environment, match_counters
from solkit.report import units
from solkit.roofline import nvml
from solkit.roofline.kernel.counter_comparison import requested_sectors

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "bench/data/sectors_h100.json"
MARKER, ENDED = "job_marker", "the run ended here"  # of sectors_gpu, which brings torch
DOZEN = 12
DOZEN_S = 150.0
LAUNCHES = 400
SHAPES: Mapping[str, dict[str, Any]] = {  # where a file's own first shape is large, or tells less
    "examples/bias_gelu": {"M": 4096, "N": 4096},
    "examples/causal_attention": {"B": 2, "H": 5, "S": 1003, "D": 64},
    "examples/cross_entropy": {"T": 2048, "V": 32000},
    "examples/matmul": {"M": 1000, "N": 2000, "K": 3000},
    "defects/many_launches": {"M": 8},
    "defects/no_pipeline": {"M": 2048, "N": 2048, "K": 2048},
    "defects/scalar_product": {"M": 1024, "N": 1024, "K": 1024},
    "defects/small_tiles": {"M": 2048, "N": 2048, "K": 2048},
    "defects/two_passes": {"M": 132, "N": 2**18},
    "defects/widened_product": {"M": 2048, "N": 2048, "K": 2048},
    "sweeps/histogram": {"N": 1 << 22},
}
FOLDERS = ("bench/sectors", "bench/sweeps", "examples", "tests/roofline/defects")
OF_SECTORS = {
    "loads": "load_sectors",
    "async copies": "async_sectors",
    "stores": "store_sectors",
    "atomics": "atomic_sectors",
}
OF_TMA = {"TMA loads": "tma_read_sectors", "TMA stores": "tma_write_sectors"}
LEAST = 0.01
TARGETS = {"sectors": 20 / 24, "DRAM reads": 20 / 24}

Pair = tuple[float, float]
"""SolKit's figure and the GPU's."""


@dataclass(frozen=True)
class Job:
    """A kernel file at one shape."""

    number: int
    label: str
    path: Path
    shape: Mapping[str, Any]

    @property
    def kernels(self) -> list[str]:
        """The Triton functions in the file, those that are no kernels as well; CUDA's kernels."""
        return re.findall(r"(?:@triton\.jit\s+def|__global__ void) (\w+)", self.path.read_text())


@dataclass(frozen=True)
class Row:
    """What is known of one job: figures by name, or why there are none."""

    label: str
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    exact: Mapping[str, bool] = field(default_factory=dict)
    multiply_adds: int | None = None
    reason: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    jobs = [job for job in all_jobs() if re.search(options.only, job.label)]
    recorded = _read(options.recorded or options.out)
    device = _device(options, recorded)
    counting = None
    if not options.recorded and not options.dry:
        counting = threading.Thread(target=count, args=(jobs, device, recorded, options.out))
        counting.start()
    analyses = dict(analysed(jobs, device))
    if counting is not None:
        counting.join()
    rows = [row(job, analyses[job.label], recorded["jobs"].get(job.label)) for job in jobs]
    print(f"{device.name}, {', '.join(f'{k} {v}' for k, v in recorded['versions'].items())}\n")
    print("\n".join(table(rows)))
    print()
    return report(rows)


def all_jobs() -> list[Job]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]
    labels = [f"{path.parent.name}/{path.stem}" for path in paths]
    return [
        Job(number, label, path, SHAPES.get(label, {}))
        for number, (label, path) in enumerate(zip(labels, paths))
    ]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="where counters are kept")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="count nothing: take these")
    parser.add_argument("--device", help="default: that of the counters, or this machine's")
    parser.add_argument("--only", default="", metavar="REGEX", help="labels, as the table has them")
    parser.add_argument("--dry", action="store_true", help="count nothing")
    return parser.parse_args(arguments)


def _read(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {"device": None, "versions": {}, "jobs": {}}
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def _device(options: argparse.Namespace, recorded: Mapping[str, Any]) -> Device:
    if options.recorded or options.dry:
        expected = options.device or recorded["device"] or "h100-sxm"
        return next(device for device in solkit.devices() if device.key == expected)
    live = nvml.live_devices()
    if not live:
        sys.exit("no GPU here: --recorded FILE remakes the table from what one counted")
    return live[0]


# ---------------------------------------------------------------------------------- counting


def count(jobs: Sequence[Job], device: Device, recorded: dict[str, Any], out: Path | None) -> None:
    """Add the counters of all jobs to what was recorded, and write it down after each dozen."""
    recorded["device"] = device.key
    recorded["versions"] = versions()
    known_jobs = recorded["jobs"]
    selected = [job for job in jobs if not known_jobs.get(job.label, {}).get("launches")]
    selected.sort(
        key=lambda job: known_jobs.get(job.label, {}).get("error") == ENDED
    )  # no harm to others
    while selected:
        try:
            result = counted(selected[:DOZEN], device)
        except CountersError as error:
            print(f"Counting ended: {error}", file=sys.stderr)
            return
        known_jobs |= result
        selected = [job for job in selected if job.label not in result]
        if out is not None:
            out.write_text(json.dumps(recorded, indent=1))


def counted(jobs: Sequence[Job], device: Device) -> dict[str, Any]:
    """What became of some jobs: their launches, or an error; those not come to are left out.

    Raises:
        CountersError: none was come to: Nsight Compute itself fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        inputs, result = Path(folder) / "jobs.json", Path(folder) / "report.json"
        inputs.write_text(json.dumps([_told(job) for job in jobs]))
        script = str(Path(__file__).with_name("sectors_gpu.py"))
        results: Sequence[Counters] = ()
        trouble = None
        try:
            results = nsight.count_kernels(
                [sys.executable, script, str(inputs), str(result)],
                [MARKER, *(name for job in jobs for name in job.kernels)],
                device.compute_capability,
                stalls=False,
                limit=LAUNCHES,
                env=environment(device),
                time_limit_s=DOZEN_S,
            )
        except CountersError as error:
            if not result.exists():
                raise
            trouble = str(error)
        failures = json.loads(result.read_text())
    launches = by_job(results)
    return {
        job.label: {
            "error": failures[job.label] or trouble,
            "launches": [asdict(item) for item in launches.get(job.number, ())],
        }
        for job in jobs
        if job.label in failures
    }


def _told(job: Job) -> dict[str, Any]:
    return {"number": job.number, "label": job.label, "path": str(job.path), "reference": None,
            "shape": dict(job.shape), "params": {}}  # fmt: skip


def by_job(counters: Iterable[Counters]) -> dict[int, list[Counters]]:
    """Launches by the number that the marker before them tells."""
    launches: dict[int, list[Counters]] = {}
    for counter in counters:
        if counter.name == MARKER:
            current = launches.setdefault(counter.grid[0] - 1, [])
        elif launches:
            current.append(counter)
    return launches


def versions() -> dict[str, str]:
    import torch
    import triton

    results = {"torch": torch.__version__, "triton": triton.__version__}
    if shutil.which("ncu"):
        result = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout
        number = re.search(r"^Version (\S+)", result, re.MULTILINE)
        results["ncu"] = number.group(1) if number else "?"
    return {**results, "driver": nvml.driver_version() or "?"}


# ------------------------------------------------------------------------------------ tables


def analysed(
    jobs: Iterable[Job], device: Device
) -> Iterator[tuple[str, tuple[KernelAnalysis, ...] | str]]:
    """The launches of each job as SolKit sees them, or why it does not."""
    for job in jobs:
        try:
            analysis = solkit.analyse(job.path, device, shape=job.shape)
        except SolkitError as error:
            yield job.label, str(error).splitlines()[0]
            continue
        unread = [
            k.error or "not followed"
            for k in analysis.kernels
            if k.demand is None or k.launch.library  # an operator's code is not seen
        ]
        if unread or not analysis.kernels:
            yield job.label, "; ".join([*unread[:1], *analysis.notes]) or "no launch"
        else:
            yield job.label, analysis.kernels


def row(
    job: Job, kernels: tuple[KernelAnalysis, ...] | str, result: Mapping[str, Any] | None
) -> Row:
    if isinstance(kernels, str):
        return Row(job.label, reason=kernels)
    results = [_counters(item) for item in (result or {}).get("launches", ())]
    if result is not None and not results:
        return Row(job.label, _modelled(kernels), reason=result["error"] or "no launch was counted")
    if result is None:
        return Row(job.label, _modelled(kernels), reason="not counted")
    matches = match_counters(kernels, results)
    strays = [k.launch.name for k in matches if k.counters is None]
    if strays:
        return Row(job.label, _modelled(kernels), reason=f"{strays[0]} was not counted")
    return Row(job.label, dict(_pairs(matches)), _exact(matches), _multiply_adds(matches))


def _counters(fields: Mapping[str, Any]) -> Counters:
    return Counters(
        **{**fields, "grid": tuple(fields["grid"]), "missing": tuple(fields["missing"])}
    )


def _modelled(kernels: Sequence[KernelAnalysis]) -> dict[str, Pair]:
    """SolKit's side alone."""
    zeros = [replace(k, counters=Counters(k.launch.name, k.launch.grid)) for k in kernels]
    return dict(_pairs(zeros))


def _pairs(kernels: Sequence[KernelAnalysis]) -> Iterator[tuple[str, Pair]]:
    """Figures over all launches, launches alike once; those that are zero on both sides not.

    Occupancy and waves are those of the launch that asks for most.
    """

    def summed(
        modelled: Callable[[KernelAnalysis], float], counted: Callable[[Counters], float | None]
    ) -> Pair:
        seen = [k.counters for k in kernels if k.counters]
        return sum(map(modelled, kernels)), sum(counted(item) or 0 for item in seen)

    figures: dict[str, Pair] = {}
    for name, attribute in {**OF_SECTORS, **OF_TMA}.items():
        figures[name] = summed(
            lambda k, name=name: requested_sectors(k.demand)[name],
            lambda c, attribute=attribute: getattr(c, attribute),
        )
    figures["L2 reads"] = summed(lambda k: k.demand.l2_read_bytes, lambda c: c.l2_read_bytes)
    figures["DRAM reads"] = summed(lambda k: k.demand.dram_read_bytes, lambda c: c.dram_read_bytes)
    figures["tensor"] = summed(
        lambda k: _tensor(k.demand.operations), lambda c: _tensor(c.operations)
    )
    figures["fp32"] = summed(
        lambda k: k.demand.operations.get("fp32", 0), lambda c: c.operations.get("fp32")
    )
    most = max(kernels, key=lambda k: sum(requested_sectors(k.demand).values()))
    figures["occupancy"] = most.occupancy.fraction, most.counters.occupancy or 0
    figures["waves"] = most.occupancy.waves, most.counters.waves or 0
    yield from ((name, pair) for name, pair in figures.items() if any(pair))


def _tensor(operations: Mapping[str, float]) -> float:
    return sum(n for pipe, n in operations.items() if pipe.startswith("tensor."))


def _exact(kernels: Sequence[KernelAnalysis]) -> dict[str, bool]:
    """Whether occupancy and waves are those of each launch, but for the digits that are written."""

    def same(modelled: float, counted: float | None, digit: float) -> bool:
        return counted is not None and abs(modelled - counted) <= 0.51 * digit

    return {
        "occupancy": all(same(k.occupancy.fraction, k.counters.occupancy, 1e-4) for k in kernels),
        "waves": all(same(k.occupancy.waves, k.counters.waves, 1e-2) for k in kernels),
    }


def _multiply_adds(kernels: Sequence[KernelAnalysis]) -> int | None:
    results = [k.counters.multiply_adds for k in kernels if k.counters is not None]
    return None if None in results else sum(results)


COLUMNS = (*OF_SECTORS, *OF_TMA, "L2 reads", "DRAM reads", "tensor", "fp32", "occupancy", "waves")
UNITS = {"L2 reads": "B", "DRAM reads": "B", "tensor": "op", "fp32": "op"}


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown."""
    yield f"| kernel | {' | '.join(COLUMNS)} | multiply-adds |"
    yield "|---" + "|--:" * (len(COLUMNS) + 1) + "|"
    for row in rows:
        cells = [_cell(name, row.pairs.get(name), row.reason) for name in COLUMNS]
        adds = units.amount(row.multiply_adds, "") if row.multiply_adds else "-"
        label = f"{row.label}: {row.reason}" if row.reason else row.label
        yield f"| {label} | {' | '.join(cells)} | {adds} |"


def _cell(name: str, pair: Pair | None, reason: str) -> str:
    if pair is None:
        return "-"
    modelled, counted = (
        f"{n:.4g}"
        if name in ("occupancy", "waves")
        else units.amount(n, UNITS.get(name, "")).strip()
        for n in pair
    )
    return f"{modelled} / ?" if reason else f"{modelled} / {counted} ({_ratio(pair):.3f})"


def _ratio(pair: Pair) -> float:
    modelled, counted = pair
    return modelled / counted if counted else float("inf")


def _near(pair: Pair, share: float) -> bool:
    return abs(_ratio(pair) - 1) <= share


def sectors_agree(row: Row, kinds: Iterable[str]) -> bool | None:
    """Tell whether every kind is within 5 %; ``None`` where there are no sectors of these kinds."""
    pairs = [row.pairs[name] for name in kinds if name in row.pairs]
    whole = sum(max(pair) for pair in pairs)
    results = [_near(pair, 0.05) for pair in pairs if max(pair) >= LEAST * whole]
    return all(results) if results else None


def _agrees(row: Row, name: str, share: float) -> bool | None:
    pair = row.pairs.get(name)
    return None if pair is None else _near(pair, share)


def report(rows: Sequence[Row]) -> int:
    """Print the shares; the exit code."""
    selected_rows = [row for row in rows if not row.reason]
    judged: dict[str, list[tuple[str, bool | None]]] = {
        "sectors": [(r.label, sectors_agree(r, OF_SECTORS)) for r in selected_rows],
        "TMA sectors": [(r.label, sectors_agree(r, OF_TMA)) for r in selected_rows],
        "DRAM reads": [(r.label, _agrees(r, "DRAM reads", 0.2)) for r in selected_rows],
        "tensor operations": [(r.label, _agrees(r, "tensor", 0.02)) for r in selected_rows],
        "occupancy": [(r.label, r.exact["occupancy"]) for r in selected_rows],
        "waves": [(r.label, r.exact["waves"]) for r in selected_rows],
    }
    missed = False
    for name, results in judged.items():
        agree = [label for label, good in results if good]
        differ = [label for label, good in results if good is False]
        target = TARGETS.get(name, 1.0)
        reached = len(agree) >= target * (len(agree) + len(differ))
        missed |= not reached
        words = f"{name}: {len(agree)} of {len(agree) + len(differ)}, target {100 * target:.0f} %"
        print(f"- {words}{'' if reached else ' (missed)'}{_listed(differ)}")
    print(f"- {len(selected_rows)} of {len(rows)} kernels were counted and followed")
    return 2 if not selected_rows else int(missed)


def _listed(labels: Sequence[str]) -> str:
    return f"; not: {', '.join(labels)}" if labels else ""


if __name__ == "__main__":
    sys.exit(main())
