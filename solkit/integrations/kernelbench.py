"""KernelBench's evaluation, by SolKit: a checkout's problems, and folders of generations.

::

    python -m solkit.integrations.kernelbench CHECKOUT runs/mine --level 1

https://github.com/ScalingIntelligence/KernelBench, whose files are read from the user's checkout.
Generations are named as KernelBench names them, and results go into its ``eval_results.json``, with
SolKit's verdict, gap and SOL score in the metadata. Checking and timing are SolKit's: inputs
are drawn anew, and the L2 cache is cold. Without a GPU nothing is measured, and results say so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solkit.core import AnalysisStatus, Configuration, Device, MeasureSettings, Result, Verdict
from solkit.errors import InputError, SolkitError
from solkit.pipeline.evaluation import Evaluation
from solkit.pipeline.lab import Lab
from solkit.userdata import write_atomically

RESULTS = "eval_results.json"
NOT_MEASURED_MS = -1.0
"""KernelBench's time of what was not timed."""

_GENERATION = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")
_TIMELESS = (Verdict.UNSTABLE, Verdict.DEGENERATE_PROBLEM)  # correct, but the time does not count
_RUNTIME_ERRORS = (Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY)


@dataclass(frozen=True)
class KernelExecResult:
    """KernelBench's record of a sample, with its names.

    Attributes:
        compiled: whether it was built; without a GPU, whether all its kernels are known to compile.
        correctness: whether it was run and found correct; a cheat is not.
        metadata: KernelBench's keys, and ``"solkit"`` with `SolKit's <solkit_of>`.
        runtime: mean time in ms, as KernelBench's code has it; -1 if there is none that counts.
        runtime_stats: of its times in ms: mean, std, min, max, num_trials, hardware, device.
        ref_runtime: the reference's median time in ms, taken in the same way; -1 without one.
        ref_runtime_stats: of the reference's times.
    """

    compiled: bool = False
    correctness: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    runtime: float = NOT_MEASURED_MS
    runtime_stats: Mapping[str, Any] = field(default_factory=dict)
    ref_runtime: float = NOT_MEASURED_MS
    ref_runtime_stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One generation.

    Attributes:
        level: of its problem.
        problem_id: the problem's number within the level.
        sample_id: several are generated for a problem.
        path: its file.
    """

    level: int
    problem_id: int
    sample_id: int
    path: Path


def generations(folder: str | os.PathLike[str], level: int) -> list[Sample]:
    """Return the samples of a level in a folder, in order; other files are ignored.

    Raises:
        InputError: there are none.
    """
    samples = []
    for path in Path(folder).glob("*.py"):
        if (match := _GENERATION.fullmatch(path.name)) is not None:
            its_level, problem_id, sample_id = map(int, match.groups())
            if its_level == level:
                samples.append(Sample(level, problem_id, sample_id, path))
    if not samples:
        raise InputError(
            f"{folder} has no generations of level {level}; "
            f"expected names such as level_{level}_problem_1_sample_0_kernel.py"
        )
    return sorted(samples, key=lambda sample: (sample.problem_id, sample.sample_id))


def problem_of(checkout: str | os.PathLike[str], level: int, problem_id: int) -> Path:
    """Return the file of a problem.

    Args:
        checkout: KernelBench's repository, or its folder ``KernelBench``.
        level: 1 to 4.
        problem_id: its number within the level.

    Raises:
        InputError: there is no such problem.
    """
    for folder in (Path(checkout, "KernelBench"), Path(checkout)):
        for path in folder.glob(f"level{level}/{problem_id}_*.py"):
            return path
    raise InputError(f"{checkout} has no problem {problem_id} of level {level}")


def evaluate(
    reference: str | os.PathLike[str], candidate: str | os.PathLike[str], lab: Lab
) -> KernelExecResult:
    """Evaluate one ``ModelNew``.

    Args:
        reference: the file with ``Model``, or its text.
        candidate: the file with ``ModelNew``, or its text.
        lab: analyses and measures.

    Raises:
        GpuBusyError, TraceError, WorkerError: as for `solkit.Lab.evaluate`.
    """
    return result_of(lab.evaluate(candidate, reference), lab.device)


def evaluate_generations(
    checkout: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    level: int,
    lab: Lab,
    out: str | os.PathLike[str] | None = None,
) -> Iterator[tuple[Sample, KernelExecResult]]:
    """Evaluate a folder of generations; each is in the results file before it is given.

    Args:
        checkout: KernelBench's repository.
        folder: the generations.
        level: which of them.
        lab: analyses and measures.
        out: the results; ``eval_results.json`` in the folder by default. Resumed if it exists.

    Raises:
        InputError: the folder has no generations, or a problem is missing.
        GpuBusyError, TraceError, WorkerError: as for `solkit.Lab.evaluate`.
    """
    path = Path(folder, RESULTS) if out is None else Path(out)
    samples, results = generations(folder, level), _read_results(path)
    remaining = [sample for sample in samples if not _has_result(results, sample)]
    samples_by_path = {
        str(sample.path): (sample, str(problem_of(checkout, level, sample.problem_id)))
        for sample in remaining
    }
    configurations = [
        Configuration(p, "ModelNew", reference=ref) for p, (_, ref) in samples_by_path.items()
    ]
    for evaluation in lab.evaluate_all(configurations):
        assert isinstance(evaluation.candidate, Configuration)
        sample, _ = samples_by_path[evaluation.candidate.path]
        result = result_of(evaluation, lab.device)
        results.setdefault(str(sample.problem_id), []).append(_sample_entry(sample, result))
        _write_results(path, results)
        yield sample, result


def result_of(evaluation: Evaluation, device: Device) -> KernelExecResult:
    """KernelBench's record for an evaluation."""
    hardware = device.name
    metadata = {"hardware": hardware, "device": device.key, "solkit": solkit_of(evaluation)}
    metadata |= _error_entries(evaluation)
    outcome, verdict = evaluation.outcome, evaluation.verdict
    if outcome is None:
        return KernelExecResult(compiled=_all_kernels_compile(evaluation), metadata=metadata)
    is_right = verdict.is_right
    stats = _time_statistics(outcome.samples_ms, metadata) if is_right else {}
    reference = _time_statistics(outcome.reference_samples_ms, metadata) if is_right else {}
    return KernelExecResult(
        compiled=verdict is not Verdict.DOES_NOT_COMPILE,
        correctness=is_right or verdict in _TIMELESS,
        metadata=metadata,
        runtime=_first_number(stats.get("mean"), outcome.time_ms if is_right else None),
        runtime_stats=stats,
        ref_runtime=_first_number(outcome.reference_ms if is_right else None),
        ref_runtime_stats=reference,
    )


def solkit_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what SolKit adds: verdict, bound, and what there is of time, gap and SOL score."""
    record: dict[str, Any] = {
        "verdict": _evaluation_verdict(evaluation).value,
        "measured": evaluation.outcome is not None,
        "time_ms": evaluation.time_ms,
        "reasons": _missing_reasons(evaluation),
    }
    result = evaluation.result
    if result is None:
        return record
    record |= {"sol_ms": result.bound.time_ms, "limiter": result.bound.limiter}
    if (score := result.score) is not None and evaluation.time_ms is not None:
        record |= {"gap": score.gap, "sol_score": score.sol_score}
    return record


def _evaluation_verdict(evaluation: Evaluation) -> Verdict:
    """Return the verdict; a file that cannot be used does not compile."""
    if evaluation.outcome is None and isinstance(evaluation.error, InputError):
        return Verdict.DOES_NOT_COMPILE
    return evaluation.verdict


def _missing_reasons(evaluation: Evaluation) -> list[str]:
    """Return the reasons for the lack of a better verdict."""
    if evaluation.error is not None:
        return [str(evaluation.error)]
    if evaluation.outcome is not None:
        return list(evaluation.outcome.evidence) or [e for e in (evaluation.outcome.message,) if e]
    errors = () if evaluation.result is None else evaluation.result.errors
    return [*errors, "Not measured: the target is not in this machine."]


def _error_entries(evaluation: Evaluation) -> dict[str, str]:
    """Return the keys under which KernelBench tells errors."""
    verdict, why = evaluation.verdict, " ".join(_missing_reasons(evaluation))
    if evaluation.error is not None and evaluation.outcome is None:
        return _error_entry("compilation_error", why, type(evaluation.error).__name__)
    if verdict is Verdict.NOT_MEASURED:
        return {"not_measured": why}
    if verdict is Verdict.DOES_NOT_COMPILE:
        return _error_entry("compilation_error", why, verdict.value)
    if verdict in _RUNTIME_ERRORS:
        return _error_entry("runtime_error", why, verdict.value)
    if verdict.is_right or verdict in _TIMELESS:
        return {}
    return _error_entry("correctness_issue", why, verdict.value)


def _error_entry(key: str, why: str, name: str) -> dict[str, str]:
    return {key: why, f"{key}_name": name}


def _all_kernels_compile(evaluation: Evaluation) -> bool:
    """Tell whether every kernel of a candidate that was not run is known to compile."""
    result: Result | None = evaluation.result
    if (
        evaluation.error is not None
        or result is None
        or evaluation.verdict is Verdict.DOES_NOT_COMPILE
    ):
        return False
    return result.analysis.status is AnalysisStatus.COMPLETE


def _time_statistics(samples_ms: tuple[float, ...], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """KernelBench's statistics; empty without times."""
    if not samples_ms:
        return {}
    return {
        "mean": statistics.fmean(samples_ms),
        "std": statistics.pstdev(samples_ms),
        "min": min(samples_ms),
        "max": max(samples_ms),
        "num_trials": len(samples_ms),
        "hardware": metadata["hardware"],
        "device": metadata["device"],
    }


def _first_number(*times_ms: float | None) -> float:
    """Return the first time that is known."""
    return next((time_ms for time_ms in times_ms if time_ms is not None), NOT_MEASURED_MS)


Told = dict[str, list[dict[str, Any]]]
"""Content of the results file: samples, by the problem's number."""


def _sample_entry(sample: Sample, result: KernelExecResult) -> dict[str, Any]:
    """Return a sample as KernelBench writes it: the reference's time is not in its file."""
    return {
        "sample_id": sample.sample_id,
        "compiled": result.compiled,
        "correctness": result.correctness,
        "metadata": dict(result.metadata),
        "runtime": result.runtime,
        "runtime_stats": dict(result.runtime_stats),
    }


def _has_result(results: Told, sample: Sample) -> bool:
    entries = results.get(str(sample.problem_id), [])
    return any(entry.get("sample_id") == sample.sample_id for entry in entries)


def _read_results(path: Path) -> Told:
    """Return the results so far.

    Raises:
        InputError: the file is none of KernelBench's.
    """
    if not path.exists():
        return {}
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        return {str(int(key)): list(samples) for key, samples in results.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path} is no {RESULTS} of KernelBench: {error}") from error


def _write_results(path: Path, results: Told) -> None:
    """Write all results: a killed run leaves a whole file."""
    ordered = {key: results[key] for key in sorted(results, key=int)}
    write_atomically(path, json.dumps(ordered, indent=4, allow_nan=False).encode())


def main(arguments: list[str] | None = None) -> int:
    """Evaluate a folder of generations.

    Args:
        arguments: of the command line.

    Returns:
        The exit status.
    """
    options = _argument_parser().parse_args(arguments)
    settings = MeasureSettings(sandbox=options.sandbox)
    try:
        with Lab(options.device, settings=settings) as lab:
            run = evaluate_generations(
                options.checkout, options.generations, options.level, lab, options.out
            )
            for sample, result in run:
                print(_result_line(sample, result), flush=True)
    except SolkitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _result_line(sample: Sample, result: KernelExecResult) -> str:
    record = result.metadata["solkit"]
    time_ms = record["time_ms"]
    timing = "not measured" if time_ms is None else f"{time_ms:.4g} ms, gap {record['gap']:.3f}"
    return f"{sample.path.name}: {record['verdict']}, {timing}"


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "solkit.integrations.kernelbench", description="Evaluate generations for KernelBench."
    )
    parser.add_argument("checkout", help="KernelBench's repository")
    parser.add_argument("generations", help="folder of level_L_problem_P_sample_S_kernel.py")
    parser.add_argument("--level", type=int, required=True)
    parser.add_argument("--out", help=f"results; {RESULTS} in the folder. Resumed if it exists")
    parser.add_argument("--device", help="the target; this machine's GPU, else an H100")
    parser.add_argument("--sandbox", action="store_true", help="isolate candidates")
    return parser


if __name__ == "__main__":
    sys.exit(main())
