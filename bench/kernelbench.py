"""The bound of every KernelBench problem: how many, how long it takes, and in how much memory.

    python bench/kernelbench.py KERNELBENCH [--levels 1 2 3] [--limit N] [--device h100]
                                [--solar CHECKOUT [--solar-python PYTHON] [--solar-limit 120]
                                 [--solar-every N]]

Prints a table of the problems and one of the levels, in Markdown, and exits with 1 where a target
(`Targets`) is missed. With a checkout of NVIDIA SOLAR (https://github.com/NVlabs/SOLAR, and
torchview installed with its patches) that is run on the same problems or every Nth of a level, one
process a problem, its imports not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelbench_suite import Problem, find_problems

import solkit
from solkit.errors import SolkitError
from solkit.processes import jobs as worker


@dataclass(frozen=True)
class Targets:
    """What SolKit must reach on 2 cores, over all problems that were asked for."""

    median_s: float = 0.15
    slowest_s: float = 3.0
    memory_mb: float = 600.0

    def missed(self, bounds: Sequence[Outcome], memory_mb: float) -> list[str]:
        """Each missed target, in words."""
        seconds = [bound.seconds for bound in bounds]
        whole = sum(bound.failure is None and not bound.unmodelled for bound in bounds)
        checks = {
            f"{whole} of {len(bounds)} bounded with nothing unmodelled": whole == len(bounds),
            f"median {statistics.median(seconds):.3f} s": statistics.median(seconds)
            < self.median_s,
            f"slowest {max(seconds):.2f} s": max(seconds) < self.slowest_s,
            f"memory {memory_mb:.0f} MB": memory_mb < self.memory_mb,
        }
        return [what for what, reached in checks.items() if not reached]


@dataclass(frozen=True)
class Outcome:
    """What one tool made of one problem.

    Attributes:
        seconds: it took.
        bound_ms: the fused bound; ``None`` where it failed.
        limiter: of SolKit's bound.
        unmodelled: ops that SolKit counted as nothing.
        memory_mb: peak resident memory of the process, where the problem had one to itself.
        failure: why there is no bound.
    """

    seconds: float
    bound_ms: float | None = None
    limiter: str = ""
    unmodelled: tuple[str, ...] = ()
    memory_mb: float | None = None
    failure: str | None = None


def solkit_bound(problem: Problem, device: str) -> Outcome:
    """SolKit's bound, as ``solkit score --no-measure`` finds it."""
    start = time.perf_counter()
    try:
        result = solkit.score(problem.path, device=device, measure=False).results[0]
    except SolkitError as error:
        return Outcome(time.perf_counter() - start, failure=str(error).splitlines()[0])
    seconds = time.perf_counter() - start
    return Outcome(seconds, result.bound.time_ms, result.bound.limiter, result.work.unmodelled)


def solar_bound(problem: Problem, python: str, checkout: Path, limit_s: float) -> Outcome:
    """SOLAR's bound (`kernelbench_solar`), from a process that is killed at its time limit."""
    script = Path(__file__).with_name("kernelbench_solar.py")
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            [python, str(script), problem.path],
            stdout=out,
            stderr=err,
            env={**os.environ, "PYTHONPATH": path},
        )
        alarm = threading.Timer(limit_s, child.kill)
        alarm.start()
        _, status, usage = os.wait4(child.pid, 0)  # tells this child's memory alone
        alarm.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        out.seek(0)
        err.seek(0)
        answer, complaint = out.read().decode(), err.read().decode().strip()
    memory_mb = usage.ru_maxrss / 1024
    if child.returncode == 0:
        data = json.loads(answer.splitlines()[-1])
        return Outcome(data["seconds"], data["fused_ms"], memory_mb=memory_mb)
    last = complaint.splitlines()[-1] if complaint else f"exit code {child.returncode}"
    failure = f"over {limit_s:g} s" if seconds >= limit_s else last
    return Outcome(seconds, memory_mb=memory_mb, failure=failure)


def resources() -> tuple[float, float]:
    """(MB of the largest process, CPU seconds of all) of this one and those it has waited for."""
    worker.shared_jobs().close()
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    memory_kib = max(usage.ru_maxrss for usage in used)  # KiB on Linux
    return memory_kib / 1024, sum(usage.ru_utime + usage.ru_stime for usage in used)


def print_problems(
    problems: Sequence[Problem], bounds: Sequence[Outcome], solar: Mapping[str, Outcome]
) -> None:
    """A row a problem; `solar` by the problem's label, where SOLAR was run on it."""
    heads = ["problem", "SolKit s", "bound ms", "limiter", "unmodelled"]
    rows = [
        [p.label, f"{b.seconds:.3f}", _bound(b), b.limiter, ", ".join(b.unmodelled)]
        for p, b in zip(problems, bounds)
    ]
    if solar:
        heads += ["SOLAR s", "SOLAR MB", "SOLAR fused ms"]
        for row, problem in zip(rows, problems):
            row += _solar_cells(solar.get(problem.label))
    print_table(heads, rows)


def _solar_cells(outcome: Outcome | None) -> list[str]:
    if outcome is None:
        return ["", "", ""]
    return [f"{outcome.seconds:.1f}", f"{outcome.memory_mb:.0f}", _bound(outcome)]


def print_levels(tool: str, problems: Sequence[Problem], outcomes: Sequence[Outcome]) -> None:
    """Figures of the problems that the tool could do, by level."""
    heads = [tool, "bounded", "median s", "p90 s", "slowest s", "peak MB of a process"]
    levels = sorted({problem.level for problem in problems})
    rows = []
    for name, expected in [*((f"level {n}", [n]) for n in levels), ("all", levels)]:
        of_level = [o for p, o in zip(problems, outcomes) if p.level in expected]
        rows.append([name, *level_figures(of_level)])
    print_table(heads, rows)


def level_figures(outcomes: Sequence[Outcome]) -> list[str]:
    """Bounded of all; median, 90th percentile and slowest of those; memory."""
    seconds = [o.seconds for o in outcomes if o.failure is None]
    counted = f"{len(seconds)} of {len(outcomes)}"
    memory = [o.memory_mb for o in outcomes if o.memory_mb is not None]
    if not seconds:
        return [counted, "", "", "", ""]
    times = (statistics.median(seconds), percentile(seconds, 0.9), max(seconds))
    return [counted, *(f"{t:.3f}" for t in times), f"{max(memory):.0f}" if memory else ""]


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least that share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table."""
    print("|", " | ".join(heads), "|")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("|", " | ".join(row), "|")
    print()


def _bound(outcome: Outcome) -> str:
    return outcome.failure or f"{outcome.bound_ms:.4g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit", type=int, help="no more problems of a level than that")
    parser.add_argument("--device", default="h100", help="the target, as in `solkit devices`")
    parser.add_argument("--solar", type=Path, metavar="CHECKOUT", help="run NVIDIA SOLAR as well")
    parser.add_argument("--solar-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--solar-limit", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--solar-every", type=int, default=1, metavar="N", help="of each level")
    options = parser.parse_args()
    by_level = [find_problems(options.path, [n])[: options.limit] for n in options.levels]
    problems = [problem for level in by_level for problem in level]

    start = time.perf_counter()
    solkit_bound(problems[0], options.device)
    print(f"the first bound, which starts the worker: {time.perf_counter() - start:.2f} s\n")
    bounds = [solkit_bound(problem, options.device) for problem in problems]
    memory_mb, cpu_s = resources()
    solar = {}
    if options.solar:
        run = (options.solar_python, options.solar, options.solar_limit)
        for problem in (p for level in by_level for p in level[:: options.solar_every]):
            solar[problem.label] = solar_bound(problem, *run)
            print(f"SOLAR: {problem.label} {solar[problem.label].seconds:.1f} s", file=sys.stderr)
    print_problems(problems, bounds, solar)
    print_levels("SolKit", problems, bounds)
    print(f"SolKit's largest process: {memory_mb:.0f} MB; CPU time, the start of the worker")
    print(f"included: {cpu_s:.0f} s, {cpu_s / len(problems):.3f} s a problem\n")
    if solar:
        print_levels("SOLAR", [p for p in problems if p.label in solar], list(solar.values()))
    missed = Targets().missed(bounds, memory_mb)
    print("targets missed:", "; ".join(missed) or "none")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
