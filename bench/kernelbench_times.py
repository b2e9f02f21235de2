"""Time KernelBench's references on this machine's GPU: eager and compiled, with and without tf32.

    python bench/kernelbench_times.py KERNELBENCH --log FILE --minutes 60 [--levels 1 2]

Each variant of a reference is a candidate (`candidate_text`) that the guarded bench checks against
the reference and times. Outcomes go to a log (docs/logs.md); the same command with the same
``--log`` resumes it. A variant that fails has an outcome too, which says how (``--again`` tries
those once more). `kernelbench_dataset` makes a table of the log.

Exits with 1 where something was left to do and nothing could be timed, with 2 without a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kernelbench_suite import OK, VARIANTS, Problem, Row, find_problems, has_matrix_product

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study
from solkit.core import Configuration, MeasureSettings, Outcome, Verdict
from solkit.datasets import outcomelog
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import SolkitError
from solkit.measure.benches import Bench
from solkit.measure.benches.guarded import GuardedBench
from solkit.measure.outcomes import PreparedCandidate
from solkit.pipeline.environment import environment
from solkit.roofline.cases import unmeasured
from solkit.roofline.nvml import live_device

Key = tuple[str, str]
"""A problem's hash and a variant."""

SETTINGS = MeasureSettings(time_limit_s=240.0)  # compiling takes up to a minute
TIMED = (Verdict.CORRECT, Verdict.BEATS_ALGORITHM, Verdict.IMPOSSIBLE)


def candidate_text(problem: Problem, variant: str) -> str:
    """A reference in one variant, as the source of a KernelBench candidate."""
    compiled, tf32 = variant.startswith("compiled"), variant.endswith("tf32")
    call = "torch.compile(super().forward)" if compiled else "super().forward"
    return f"""{Path(problem.path).read_text(encoding="utf-8")}


class ModelNew(Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.call = {call}

    def forward(self, *args, **kwargs):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = {tf32}
        try:
            return self.call(*args, **kwargs)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
"""


def candidates(problems: Iterable[Problem], folder: Path) -> dict[Key, Configuration]:
    """Every variant of every problem, its file written to a folder."""
    results = {}
    for problem in problems:
        for variant in VARIANTS:
            path = folder / f"{problem.name}.{variant}.py"
            path.write_text(candidate_text(problem, variant), encoding="utf-8")
            how = "default" if variant == VARIANTS[0] else "exhaustive"
            configuration = Configuration(str(path), "ModelNew", {}, {}, problem.path, how)
            results[problem.sha256, variant] = configuration
    return results


def variant_of(outcome: Outcome) -> str:
    """Which variant an outcome is of: the end of the candidate's name."""
    return str(outcome.implementation).rpartition(".")[2]


# ----------------------------------------------------------------------------------- measuring


def left(
    expected: Mapping[Key, Configuration], done: Iterable[Outcome], again: bool
) -> list[Configuration]:
    """What has no outcome yet; with `again`, what has no time yet."""
    known_pairs = {
        (item.problem_sha256, variant_of(item))
        for item in done
        if not again or item.verdict in TIMED
    }
    return [configuration for key, configuration in expected.items() if key not in known_pairs]


def drive(bench: Bench, configurations: Iterable[Configuration], gpu_s: float) -> int:
    """Measure until the budget is spent; how many have a time."""
    timed = 0
    for item in configurations:
        if bench.clock.gpu_s() >= gpu_s:
            break
        bench.submit([item])
        for configuration, outcome in bench.outcomes():
            timed += outcome.verdict in TIMED
            text = f"{outcome.time_ms:.4f} ms" if outcome.time_ms else outcome.verdict.value
            print(f"{Path(configuration.path).stem}: {text}", flush=True)
    return timed


def prospects(analyser: Analyser) -> Callable[[Configuration], PreparedCandidate]:
    """The bound of each; what PyTorch launches is not analysed."""

    def prospect(configuration: Configuration) -> PreparedCandidate:
        plan = StudyPlan(
            configuration.path, configuration.reference, [configuration.shape], analysing=False
        )
        known_study = study(analyser, plan)
        precision = SETTINGS.precision
        return PreparedCandidate(
            known_study.kernel, unmeasured(known_study.cases[0], analyser.device, precision, "cold")
        )

    return prospect


def is_needed(
    configuration: Configuration, prospect: Callable[[Configuration], PreparedCandidate]
) -> bool:
    """Whether a variant differs from the default one: tf32 matters to matrix products alone."""
    if not configuration.path.endswith("tf32.py"):
        return True
    return has_matrix_product(op.op for op in prospect(configuration).result.work.ops)


# ------------------------------------------------------------------------------------- reading


def read_lines(path: Path, problems: Iterable[Problem]) -> list[Row]:
    """The outcomes in a log as rows of the table, after a row for each of its runs.

    Args:
        path: the log.
        problems: those of the checkout that was timed.
    """
    by_hash = {problem.sha256: problem for problem in problems}
    outcomes = [o for o in outcomelog.read(path).rows if o.problem_sha256 in by_hash]
    runs = {outcome.run_id: _run(outcome) for outcome in reversed(outcomes)}
    return [
        *runs.values(),
        *(_line(outcome, by_hash[str(outcome.problem_sha256)]) for outcome in outcomes),
    ]


def _run(first: Outcome) -> Row:
    versions = ("driver", "torch", "triton")
    return {
        "kind": "run",
        "run": first.run_id,
        "device": first.device_name,
        "flush": first.flush,
        "warmup": first.warmup_calls,
        **{name: getattr(first, f"{name}_version") for name in versions},
    }


def _line(outcome: Outcome, problem: Problem) -> Row:
    variant, timed = variant_of(outcome), outcome.verdict in TIMED
    known_timed = timed or outcome.verdict is Verdict.DEGENERATE_PROBLEM
    right = known_timed or (False if outcome.verdict is Verdict.WRONG else None)
    return {
        "kind": "time",
        "run": outcome.run_id,
        "device": outcome.device_name,
        "level": problem.level,
        "number": problem.number,
        "name": problem.name,
        "sha256": problem.sha256,
        "variant": variant,
        "status": OK if known_timed and outcome.time_ms is not None else outcome.verdict.value,
        "message": outcome.message,
        "median_ms": outcome.time_ms,
        "low_ms": outcome.low_ms,
        "high_ms": outcome.high_ms,
        "kernel_sum_ms": outcome.kernel_sum_ms,
        "samples": len(outcome.samples_ms),
        "method": outcome.method,
        "sm_clock_mhz": outcome.clock_mhz,
        "matmul_tf32": variant.endswith("tf32"),
        "conv_tf32": True,  # PyTorch's default, which no variant changes
        "max_error": outcome.max_error,
        "within_tolerance": right,
        "degenerate": outcome.verdict is Verdict.DEGENERATE_PROBLEM if known_timed else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--log", type=Path, required=True, metavar="FILE")
    parser.add_argument("--minutes", type=float, required=True, help="budget of the GPU")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--limit", type=int, help="no more problems than that")
    parser.add_argument("--again", action="store_true", help="try those that failed once more")
    options = parser.parse_args()
    problems = find_problems(options.path, options.levels)[: options.limit]
    try:
        device = live_device()
        with (
            tempfile.TemporaryDirectory() as folder,
            OutcomeLog(options.log, {"what": "KernelBench's references"}, resume=True) as log,
            Analyser(device) as analyser,
            GuardedBench(device, prospects(analyser), log, SETTINGS, environment()) as bench,
        ):
            expected = candidates(problems, Path(folder))
            todo = left(expected, outcomelog.read(options.log).rows, options.again)
            print(f"{device.name}: {len(todo)} of {len(expected)} variants to do")
            needed = (item for item in todo if is_needed(item, prospects(analyser)))
            timed = drive(bench, needed, 60 * options.minutes)
    except SolkitError as error:
        print(f"kernelbench_times: {error}", file=sys.stderr)
        return 2
    print(f"{timed} timed now")
    return 0 if timed or not todo else 1


if __name__ == "__main__":
    sys.exit(main())
