"""The bound of every problem folder below some paths: SOL-ExecBench's and FlashInfer-Bench's.

    python bench/problem_folders.py PATH... [--workloads 2] [--device h100] [--limit 60] [--size 64]

Finds each ``definition.json`` with a ``workload.jsonl`` beside it, and each file below a
``definitions`` folder. Takes so many workloads of each, the smallest and the largest among them;
where a definition comes without workloads, its axes get one size. Prints a line a workload and
what could not be bounded or modelled, and exits with 1 if there is any such.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import solkit
from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study
from solkit.core import Device, Problem, Value
from solkit.errors import SolkitError
from solkit.roofline import devices
from solkit.roofline.bound import bound

Shape = Mapping[str, Value]


@dataclass(frozen=True)
class Outcome:
    """What became of one workload.

    Attributes:
        name: the problem's.
        shape: the workload.
        seconds: it took.
        bound_ms: the roofline; ``None`` where it failed.
        limiter: of the bound.
        unmodelled: ops counted as nothing.
        failure: why there is no bound.
    """

    name: str
    shape: Shape
    seconds: float
    bound_ms: float | None = None
    limiter: str = ""
    unmodelled: tuple[str, ...] = ()
    failure: str | None = None

    def line(self) -> str:
        """The outcome for a reader, fields parted by tabs."""
        sizes = ",".join(f"{name}={value}" for name, value in self.shape.items())
        if self.failure is not None:
            return f"{self.name}\t{sizes}\tFAILED\t{self.failure}\t{self.seconds:.2f} s"
        lacking = ", ".join(self.unmodelled) or "-"
        figures = f"{self.bound_ms:.4g} ms\t{self.limiter}\t{lacking}\t{self.seconds:.2f} s"
        return f"{self.name}\t{sizes}\t{figures}"


def definitions_below(path: Path) -> Iterator[Path]:
    """Every definition in a file or below a folder."""
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*.json")):
        is_folder = file.name == "definition.json" and file.with_name("workload.jsonl").is_file()
        if is_folder or "definitions" in file.absolute().parts[:-1]:
            yield file


def shapes_of(problem: Problem, count: int, size: int) -> list[Shape]:
    """So many of a problem's workloads, from the smallest to the largest."""
    if problem.shapes == ({},):
        return [sizes_without_workloads(Path(problem.path), size)]
    ordered = sorted(problem.shapes, key=_volume)
    last = len(ordered) - 1
    places = sorted({round(last * i / max(count - 1, 1)) for i in range(count)})
    return [ordered[place] for place in places]


def sizes_without_workloads(definition: Path, size: int) -> Shape:
    """One size for each variable axis that no constraint gives one (``a == b + 1``)."""
    record = json.loads(definition.read_text(encoding="utf-8"))
    sides = [constraint.partition("==") for constraint in record.get("constraints", ())]
    derived = {left.strip() for left, _, right in sides if "[" not in right}
    axes = record["axes"].items()
    return {n: size for n, axis in axes if axis["type"] == "var" and n not in derived}


def _volume(shape: Shape) -> int:
    return math.prod(value for value in shape.values() if isinstance(value, int))


def outcomes_of(
    definition: Path, device: Device, count: int, size: int, limit_s: float
) -> Iterator[Outcome]:
    """The bound of some workloads of one definition, each from a process of its own."""
    path = str(definition)
    try:
        problem = solkit.load(path).problem
    except SolkitError as error:
        yield Outcome(path, {}, 0.0, failure=str(error))
        return
    for shape in shapes_of(problem, count, size):
        yield outcome_of(problem, shape, device, limit_s)


def outcome_of(problem: Problem, shape: Shape, device: Device, limit_s: float) -> Outcome:
    """The bound of one workload."""
    start = time.perf_counter()
    try:
        with Analyser(device, cache=False, limit_s=limit_s) as analyser:
            case = study(analyser, StudyPlan(problem.path, shapes=(shape,), analysing=False)).cases[
                0
            ]
    except SolkitError as error:
        seconds = time.perf_counter() - start
        return Outcome(problem.name, shape, seconds, failure=str(error).strip())
    seconds = time.perf_counter() - start
    result = bound(case.work, device, tolerance=case.tolerance)
    unmodelled = case.work.unmodelled
    return Outcome(problem.name, shape, seconds, result.time_ms, result.limiter, unmodelled)


def print_summary(definitions: int, outcomes: Sequence[Outcome]) -> None:
    """What was bounded, how long it took, and what is lacking."""
    failed = [o for o in outcomes if o.failure is not None]
    whole = [o for o in outcomes if o.failure is None and not o.unmodelled]
    seconds = [o.seconds for o in outcomes]
    print(
        f"\n{definitions} definitions, {len(outcomes)} workloads: {len(whole)} bounded whole, ",
        end="",
    )
    print(f"{len(failed)} failed; median {statistics.median(seconds):.2f} s, ", end="")
    print(f"slowest {max(seconds):.2f} s")
    lacking = Counter(op for o in outcomes for op in o.unmodelled)
    for op, count in lacking.most_common():
        print(f"unmodelled in {count} workloads: {op}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    parser.add_argument("--workloads", type=int, default=2, help="of each definition, at most")
    parser.add_argument("--device", default="h100", help="the target, as in `solkit devices`")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="a workload")
    parser.add_argument("--size", type=int, default=64, help="of axes that no workload gives one")
    options = parser.parse_args()
    device = devices.find(options.device)
    definitions = [file for path in options.paths for file in definitions_below(path)]
    if not definitions:
        parser.error("no definition below these paths")
    outcomes = []
    for definition in definitions:
        arguments = (device, options.workloads, options.size, options.limit)
        for outcome in outcomes_of(definition, *arguments):
            outcomes.append(outcome)
            print(outcome.line(), flush=True)
    print_summary(len(definitions), outcomes)
    return 1 if any(o.failure is not None or o.unmodelled for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
